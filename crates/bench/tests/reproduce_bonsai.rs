//! What `terrace reproduce bonsai` writes, at a tiny scale. In a program of its own: its allocator counts all that the process takes.

use std::alloc::System;
use std::collections::BTreeSet;

use serde_json::Value;
use terrace_bench::reproduce::{Options, Settings, bonsai, run};
use terrace_index::dram::Counting;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

const IDS: [&str; 9] = ["B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "aim"];
const KEYS: [&str; 6] = ["holds", "id", "kind", "ours", "paper", "what"];

fn rows(options: &Options, dir: &std::path::Path) -> anyhow::Result<Vec<Value>> {
    let path = dir.join("rows.json");
    run(&bonsai::STUDY, options)?.write_json(&path)?;
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

/// One test: what is counted is the whole process's. What is timed is not looked at.
#[test]
fn bonsai_has_every_row_and_counts_the_same_again() {
    let dir = tempfile::tempdir().unwrap();
    let plots = dir.path().join("plots");
    let settings = Settings { scale: 0.002, runs: 1, seed: 1, threads: 2 };
    let all = Options { settings, only: Vec::new(), plots: Some(plots.clone()) };
    let rows_of_all = rows(&all, dir.path()).unwrap();
    let is_shared = std::path::Path::new("/dev/shm").is_dir();
    let mut seen = BTreeSet::new();
    for row in &rows_of_all {
        assert!(row.as_object().unwrap().keys().map(String::as_str).eq(KEYS), "{row}");
        let (what, holds) = (row["what"].as_str().unwrap(), row["holds"].as_str().unwrap_or_default());
        seen.insert(row["id"].as_str().unwrap());
        assert_eq!(row["holds"].is_boolean(), !holds.starts_with("n/a: "), "{row}");
        // What is missing has the paper's figure and no figure of ours.
        let is_missing = holds.starts_with("n/a: not built yet: ");
        assert_eq!(is_missing || !is_shared && row["kind"] == "emulated", row["ours"].is_null(), "{row}");
        assert!(!is_missing || !row["paper"].is_null(), "{row}");
        if row["kind"] == "emulated" && !is_missing && is_shared {
            assert!(what.contains("emulated: profile "), "{row}");
        }
    }
    assert!(seen.iter().eq(IDS.iter()), "{seen:?}");

    let number = |words: &str| {
        let row = rows_of_all.iter().find(|row| row["what"].as_str().unwrap().contains(words));
        row.unwrap_or_else(|| panic!("no row of {words:?}"))["ours"].as_f64().unwrap()
    };
    // An allocator and a store that tell of the same bytes; the first knows of all of them.
    let (given, told) = (number("all that the allocator gave"), number("as the store tells it"));
    assert!(given >= told && given < 1.2 * told, "{given} {told}");
    assert!(number("the most in the middle of a load") > number("what an empty store has"));
    // One read a get, and one more for each other key with its fingerprint: at most forty in 256.
    let reads = number("bonsai: reads of PMem for a get of a key that is there");
    assert!((1.0..1.16).contains(&reads), "{reads}");
    // An entry of 28 bytes a pair at least, nodes that are half full at most; without our twelve bytes that much less.
    let (nodes, pmem) = (number("nodes, free ones counted"), number("bonsai: PMem bytes a pair; "));
    assert!(nodes > 28.0 && pmem > nodes, "{nodes} {pmem}");
    assert!((12.0..nodes / 2.0).contains(&(pmem - number("without our fields"))), "{nodes} {pmem}");

    // Even so few pairs are read from copies, and writers of other nodes' copies cost.
    let told = number("WoSI / write-invalidate, 5% reads");
    assert!((0.1..1.0).contains(&told), "{told}");

    if is_shared {
        let mut drawn: Vec<_> =
            std::fs::read_dir(plots).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        drawn.sort_unstable();
        let all = ["B1-dram", "B2-pmem", "B4-packing", "B7-keys", "B7-rates", "B8-coherence"];
        assert_eq!(drawn, all.map(|name| std::ffi::OsString::from(format!("{name}.svg"))));
    }

    // What is counted depends on nothing else: not on threads either.
    let counted = |rows: &[Value]| -> Vec<Value> {
        rows.iter().filter(|row| row["kind"] == "deterministic" && row["id"] != "aim").cloned().collect()
    };
    let settings = Settings { threads: 1, ..all.settings };
    let only = ["B1", "B2", "B4", "B5", "B8"].map(str::to_owned).to_vec();
    let again = rows(&Options { settings, only, plots: None }, dir.path()).unwrap();
    for (row, again) in counted(&rows_of_all).iter().zip(counted(&again)) {
        // The hook counts what others in the process take, too: some hundred bytes. And a hash with another seed has other collisions.
        if row["id"] == "B1" || row["what"].as_str().unwrap().starts_with("heap-hybrid") {
            let [ours, again] = [row, &again].map(|row| row["ours"].as_f64().unwrap());
            assert!((ours - again).abs() <= (ours / 100.0).max(0.01), "{row} {again}");
        } else {
            assert_eq!(*row, again);
        }
    }
}
