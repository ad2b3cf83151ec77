//! Every index of the catalogue that this build has, ours and the adapters (`--features adapters`), against one model and one
//! set of threaded tests. `index` tests what is special to `clht`; `shuttle` explores schedules.
#![cfg(not(shuttle))]

mod keys;
mod model;
mod planted;
mod threads;

use terrace_index::catalogue::{ALL, Visitor, with_index};

/// Lets a visitor have each index of this build in turn.
fn each<V: Visitor<Out = ()> + Clone>(visitor: V) {
    for about in ALL.iter().filter(|about| about.built) {
        println!("index {}", about.name);
        with_index(about.name, visitor.clone()).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn ours_and_all_adapters_are_here_if_asked_for() {
    let built = ALL.iter().filter(|about| about.built).count();
    assert!(built >= 1);
    assert!(cfg!(not(feature = "adapters")) || built == ALL.len(), "{built} of {}", ALL.len());
}
