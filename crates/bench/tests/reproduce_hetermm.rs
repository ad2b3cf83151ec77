//! What `terrace reproduce hetermm` writes, at a tiny scale; what is counted, at a scale at which DRAM has a quarter of
//! the records.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{check_row, rows_of};
use serde_json::Value;
use terrace_bench::reproduce::{Options, Settings, hetermm};

const IDS: [&str; 7] = ["H1", "H2", "H3", "H4", "H5", "H6", "H7"];

fn number(rows: &[Value], words: &str) -> f64 {
    let row = rows.iter().find(|row| row["what"].as_str().unwrap().contains(words));
    row.unwrap_or_else(|| panic!("no row of {words:?}"))["ours"].as_f64().unwrap()
}

/// At a scale that says nothing about speed.
#[test]
fn hetermm_has_every_row_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let plots = dir.path().join("plots");
    let settings = Settings { scale: 0.002, runs: 1, seed: 1, threads: 2 };
    let options = Options { settings, only: Vec::new(), plots: Some(plots.clone()) };
    let rows = rows_of(&hetermm::STUDY, &options, dir.path());
    let mut seen = BTreeSet::new();
    for row in &rows {
        check_row(row, &IDS);
        let (id, what) = (row["id"].as_str().unwrap(), row["what"].as_str().unwrap());
        seen.insert(id);
        // Our stand-in for TIPS has one index, and DRAM of the least size holds all of so few records.
        let is_missing = ["/ TIPS with", "/ TIPS, index", "a get below DRAM", "with the read cache"]
            .iter()
            .any(|not| what.contains(not));
        let is_here = id != "H5" || Path::new("/dev/shm").is_dir();
        assert_eq!(is_here && !is_missing, !row["ours"].is_null(), "{row}");
        if let Some(ours) = row["ours"].as_f64() {
            // What the log costs may be less than nothing where so little is timed.
            assert!(ours.is_finite() && (ours >= 0.0 || id == "H4"), "{row}");
        }
        if row["kind"] == "emulated" && !is_missing && is_here {
            assert!(what.contains("emulated"), "{row}");
        }
    }
    assert!(seen.iter().eq(IDS.iter()), "{seen:?}");
    assert!((number(&rows, "our stand-in for TIPS: PMem write bursts") - 5.0).abs() < f64::EPSILON);
    if Path::new("/dev/shm").is_dir() {
        assert!(number(&rows, "not as answered last").abs() < f64::EPSILON);
    }
    let mut drawn: Vec<_> =
        std::fs::read_dir(plots).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    drawn.sort_unstable();
    assert_eq!(drawn, ["H3-hits.svg", "H4-log.svg", "H6-ceiling.svg"]);
}

#[test]
fn what_is_counted_is_the_same_again_and_within_its_aims() {
    let dir = tempfile::tempdir().unwrap();
    let counted = |only: &str, scale, threads| {
        let settings = Settings { scale, runs: 1, seed: 1, threads };
        let options = Options { settings, only: vec![only.to_owned()], plots: None };
        rows_of(&hetermm::STUDY, &options, dir.path())
    };
    let writes = counted("H2", 0.5, 2);
    assert_eq!(counted("H2", 0.5, 1), writes);
    assert!(number(&writes, "bursts for one set, 1 together") <= 1.2);
    assert!(number(&writes, "bursts for one set, 16 together") <= 0.15);
    assert!((1.0..=1.05).contains(&number(&writes, "a get below DRAM without the read cache, 1 together")));

    let hits = counted("H3", 0.1, 2);
    assert_eq!(counted("H3", 0.1, 1), hits);
    let of = |case: &str| number(&hits, &format!("{case}: gets answered from DRAM"));
    // Without a read cache gets move nothing, and writes bring what is hot into DRAM.
    let without = |case: &str| of(&format!("{case}, zipfian:0.99, no read cache"));
    let (read, few, half) = (without("RO"), without("RH"), without("WH"));
    assert!(read < 45.0 && read < few && few < half && half < 90.0, "{read} {few} {half}");
    let sampled = of("RO, zipfian:0.99, read cache sampled:100");
    let gated = of("RO, zipfian:0.99, read cache gated");
    assert!(read + 10.0 < sampled && sampled + 5.0 < gated && gated > 70.0, "{read} {sampled} {gated}");
    assert!((10.0..25.0).contains(&number(&hits, "RO, ycsb, no read cache: records that DRAM held")));
}
