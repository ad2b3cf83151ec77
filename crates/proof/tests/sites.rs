//! Every flush, fence and sync of the product is shown to matter, where the engine's page says that it shows soonest. The
//! whole search is `cargo xtask sites`.

use terrace_proof::sites::{Effort, search_again};

/// The page has so many at least that are not looked for with the log alone.
fn check(engine: &str, least: usize) {
    let again = search_again(engine, Effort { seed: 0, histories: 200, second_steps: 24 })
        .unwrap_or_else(|error| panic!("{error:#}"));
    println!("{engine}: {} sites, {} images", again.sites, again.images);
    assert!(
        again.problems.is_empty(),
        "{:#?}\n`cargo xtask sites --engine {engine} --write` makes the page anew",
        again.problems
    );
    assert!(again.sites > least, "{} sites of {engine}'s page were looked for", again.sites);
}

#[test]
fn every_site_of_hetermm_is_caught() {
    check("hetermm", 40);
}

#[test]
fn every_site_of_tac_is_caught() {
    check("tac", 40);
}

#[test]
fn every_site_of_scmkv_is_caught() {
    check("scmkv", 30);
}

#[test]
fn every_site_of_bonsai_is_caught() {
    check("bonsai", 40);
}

#[test]
fn every_site_of_heap_hybrid_is_caught() {
    check("heap-hybrid", 30);
}
