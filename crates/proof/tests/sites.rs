//! Every flush, fence and sync of the product is shown to matter.

use std::collections::BTreeSet;

use terrace_proof::sites::{Effort, document, report};

#[test]
fn every_site_is_caught_or_has_a_reason() {
    let report = report("hetermm", Effort { seed: 0, histories: 60, second_steps: 24 }, &mut |_| {})
        .unwrap_or_else(|error| panic!("{error}"));
    println!("{}", report.summary());
    let problems = report.problems();
    assert!(problems.is_empty(), "{problems:#?}\n{}", report.details());
    // The page lists the sites of the source, no more and no fewer.
    let page = std::fs::read_to_string(document()).unwrap_or_default();
    let listed: BTreeSet<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let names = report.names();
    for name in &names {
        let found = listed.iter().any(|line| line.starts_with(name.as_str()));
        assert!(found, "docs/sites.md does not list {name}: run `cargo xtask sites --write`");
    }
    assert_eq!(
        listed.len(),
        names.len(),
        "docs/sites.md lists sites that are gone: run `cargo xtask sites --write`"
    );
}
