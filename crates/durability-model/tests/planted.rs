//! Every planted bug breaks a promise, and the search shows the shortest way there.

use clap::ValueEnum;
use terrace_durability_model::{Bug, Explore, Limits, Protocol, explore};

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for &bug in Bug::value_variants() {
        let protocol = Protocol { bounds: bug.bounds(), bug: Some(bug) };
        let outcome = explore(&protocol, Limits::default(), &mut |_, _| {});
        let Some(trace) = outcome.counterexample else {
            missed.push(bug);
            continue;
        };
        println!("{bug:?}: {} states, {} steps", outcome.states, trace.len());
        let mut state = protocol.start();
        for action in trace {
            assert!(!protocol.is_broken(&state), "the trace goes on behind its end");
            state = protocol.apply(&state, action);
            println!("    {action:?}");
        }
        println!("    -> {:?}", state.broken);
        assert!(protocol.is_broken(&state), "the trace leads to what was found");
    }
    assert_eq!(missed, [], "no counterexample");
}
