//! Every flush, fence and sync of the product is shown to matter.

use std::collections::BTreeSet;

use terrace_proof::sites::{Effort, document, report};

fn check(engine: &str) {
    let report = report(engine, Effort { seed: 0, histories: 60, second_steps: 24 }, &mut |_| {})
        .unwrap_or_else(|error| panic!("{error}"));
    println!("{engine}: {}", report.summary());
    let problems = report.problems();
    assert!(problems.is_empty(), "{problems:#?}\n{}", report.details());
    // The page lists the sites of the source, no more and no fewer.
    let page = std::fs::read_to_string(document(engine)).unwrap_or_default();
    let listed: BTreeSet<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let names = report.names();
    for name in &names {
        let found = listed.iter().any(|line| line.starts_with(name.as_str()));
        assert!(
            found,
            "{engine}'s page does not list {name}: run `cargo xtask sites --engine {engine} --write`"
        );
    }
    assert_eq!(
        listed.len(),
        names.len(),
        "{engine}'s page lists sites that are gone: run `cargo xtask sites --engine {engine} --write`"
    );
}

#[test]
fn every_site_of_hetermm_is_caught_or_has_a_reason() {
    check("hetermm");
}

#[test]
fn every_site_of_tac_is_caught_or_has_a_reason() {
    check("tac");
}
