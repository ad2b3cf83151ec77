//! The benchmark of indexes runs, counts and reports; what it times is not looked at.

use std::alloc::System;
use std::collections::BTreeSet;

use terrace_bench::Distribution;
use terrace_bench::indexes::{Options, run};
use terrace_index::catalogue::ALL;
use terrace_index::dram::Counting;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

#[test]
fn every_index_of_this_build_is_measured() {
    let built: Vec<_> = ALL.iter().filter(|about| about.built).collect();
    let options = Options {
        indexes: built.iter().map(|about| about.name.to_owned()).collect(),
        records: 3_000,
        operations: 1_000,
        key_bytes: vec![8, 24],
        distributions: vec![Distribution::Uniform, Distribution::Zipfian(0.99)],
        threads: vec![1, 2],
        batch: 16,
        seed: 5,
    };
    let report = run(&options).unwrap();
    let expected: usize = built.iter().map(|about| 8 * if about.ordered { 6 } else { 5 }).sum();
    assert_eq!(report.rows.len(), expected);
    for row in &report.rows {
        assert!(row.mops > 0.0 && row.bytes_per_entry > 8.0 && row.bytes_per_entry < 1000.0, "{row:?}");
    }
    let text = report.to_string();
    assert!(text.contains("clht") && text.contains("keys of 24 bytes, zipfian:0.99, 2 threads"), "{text}");

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.json");
    report.write_json(&path).unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), expected);
    let keys = ["bytes_per_entry", "distribution", "index", "key_bytes", "mops", "operation", "threads"];
    let operations: BTreeSet<&str> = rows.iter().map(|row| row["operation"].as_str().unwrap()).collect();
    for row in rows {
        let names: BTreeSet<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, BTreeSet::from(keys));
    }
    assert!(operations.is_superset(&BTreeSet::from(["load", "get", "get_batch", "mix_95_5", "mix_50_50"])));
}
