//! What rows of every study have in common.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use terrace_bench::reproduce::{Options, Study, run};

/// The rows that a study writes.
pub fn rows_of(study: &Study, options: &Options, dir: &Path) -> Vec<Value> {
    let path = dir.join("rows.json");
    run(study, options).unwrap().write_json(&path).unwrap();
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The schema of a row: its keys, and what each may be.
pub fn check_row(row: &Value, ids: &[&str]) {
    let keys: BTreeSet<&str> =
        row.as_object().into_iter().flat_map(|row| row.keys()).map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["id", "what", "paper", "ours", "kind", "holds"]), "{row}");
    let word = |key: &str| row[key].as_str().unwrap_or_default();
    assert!(ids.contains(&word("id")), "{row}");
    assert!(!word("what").is_empty(), "{row}");
    for figure in ["paper", "ours"] {
        assert!(row[figure].is_null() || row[figure].is_number() || row[figure].is_string(), "{row}");
    }
    assert!(["deterministic", "simulated", "measured", "emulated"].contains(&word("kind")), "{row}");
    if row["holds"].is_boolean() {
        assert!(!row["ours"].is_null(), "judged without a figure: {row}");
    } else {
        assert!(word("holds").strip_prefix("n/a: ").is_some_and(|reason| !reason.is_empty()), "{row}");
    }
}
