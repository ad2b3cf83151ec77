//! What `terrace reproduce` writes, at a tiny scale.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{check_row, rows_of};
use serde_json::Value;
use terrace_bench::reproduce::{Options, Settings, porting, run, scmkv, tac};

fn options(dir: &std::path::Path) -> Options {
    Options {
        settings: Settings { scale: 0.002, runs: 2, seed: 1, threads: 2 },
        only: Vec::new(),
        plots: Some(dir.to_owned()),
    }
}

#[test]
fn rows_follow_the_schema_and_plots_are_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let report = run(&tac::STUDY, &options(&dir.path().join("plots"))).unwrap();
    report.write_json(&dir.path().join("rows.json")).unwrap();
    let rows: Value = serde_json::from_slice(&std::fs::read(dir.path().join("rows.json")).unwrap()).unwrap();
    let mut ids: BTreeMap<String, u32> = BTreeMap::new();
    for row in rows.as_array().unwrap() {
        check_row(row, &["T1", "T2", "T3", "T4", "T5", "T6"]);
        // Nothing but the simulator is there: whatever else would give a figure has none.
        assert_eq!(row["kind"] == "simulated", !row["ours"].is_null(), "{row}");
        *ids.entry(row["id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(ids.keys().collect::<Vec<_>>(), ["T1", "T2", "T3", "T4", "T5", "T6"]);
    let find = |word: &str| {
        rows.as_array().unwrap().iter().find(|row| row["what"].as_str().unwrap().contains(word)).unwrap()
    };
    let tac = find("TaC: hits in DRAM");
    assert_eq!(tac["paper"], 61.4);
    assert!((30.0..90.0).contains(&tac["ours"].as_f64().unwrap()), "{tac}");
    assert!(tac["what"].as_str().unwrap().contains("95% interval"), "{tac}");
    assert_eq!(find("TaC less Anti-2: hits in DRAM, points")["holds"], true);

    let mut plots: Vec<_> = std::fs::read_dir(dir.path().join("plots"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    plots.sort_unstable();
    assert_eq!(
        plots,
        ["T1-table3-ycsb.svg", "T1-table3-zipf.svg", "T5-figure12a-ycsb.svg", "T5-figure12a-zipf.svg"]
    );
    let text = report.to_string();
    assert!(text.contains("paper") && text.contains("ours") && text.contains("61.40"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("tac: "), "{text}");
}

#[test]
fn the_same_seed_gives_the_same_rows_on_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options { only: vec!["T1".into()], plots: None, ..options(dir.path()) };
    let rows = run(&tac::STUDY, &options).unwrap().rows;
    options.settings.threads = 1;
    assert_eq!(run(&tac::STUDY, &options).unwrap().rows, rows);
    options.settings.seed = 2;
    assert_ne!(run(&tac::STUDY, &options).unwrap().rows, rows);
}

/// At a scale that says nothing about speed.
#[test]
fn porting_has_every_row_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let plots = dir.path().join("plots");
    let settings = Settings { scale: 0.002, runs: 1, seed: 1, threads: 2 };
    let options = Options { settings, only: Vec::new(), plots: Some(plots.clone()) };
    let rows = rows_of(&porting::STUDY, &options, dir.path());
    let ids = ["P1", "P2", "P3", "P4", "P5", "P6", "P7"];
    let (mut seen, mut of_redis) = (BTreeSet::new(), Vec::new());
    for row in &rows {
        check_row(row, &ids);
        seen.insert(row["id"].as_str().unwrap().to_owned());
        let what = row["what"].as_str().unwrap();
        let is_redis = what.starts_with("redis-server");
        if row["id"] == "P5" && !is_redis && !row["ours"].is_null() {
            assert_eq!((&row["ours"], &row["holds"]), (&Value::from(0.0), &Value::from(true)), "{row}");
        }
        if is_redis {
            assert_eq!(row["kind"], "measured", "{row}");
            of_redis.push((row["id"].as_str().unwrap().to_owned(), row["ours"].clone()));
        }
    }
    assert!(seen.iter().eq(ids.iter()), "{seen:?}");
    // Without anything kept, with snapshots, with the log: of it nothing is lost. Where there is no redis-server the rows say so.
    let text: Vec<&str> = of_redis.iter().map(|(id, _)| &**id).collect();
    assert_eq!(text, ["P3", "P3", "P3", "P5", "P5", "P5"]);
    assert!(of_redis[5].1.is_null() || of_redis[5].1 == "0", "{of_redis:?}");
    if std::path::Path::new("/dev/shm").is_dir() {
        let mut drawn: Vec<_> =
            std::fs::read_dir(plots).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        drawn.sort_unstable();
        assert_eq!(drawn, ["P3-latencies.svg", "P4-restarts.svg", "P6-growth.svg"]);
    }
}

/// At a scale that says nothing about speed.
#[test]
fn scmkv_has_every_row_and_seldom_reads_a_record_in_vain() {
    let dir = tempfile::tempdir().unwrap();
    let plots = dir.path().join("plots");
    let settings = Settings { scale: 0.002, runs: 2, seed: 1, threads: 2 };
    let options = Options { settings, only: Vec::new(), plots: Some(plots.clone()) };
    let rows = rows_of(&scmkv::STUDY, &options, dir.path());
    let ids = ["S1", "S2", "S3", "S4"];
    let mut seen = BTreeSet::new();
    for row in &rows {
        check_row(row, &ids);
        seen.insert(row["id"].as_str().unwrap().to_owned());
        let what = row["what"].as_str().unwrap();
        if row["id"] == "S4" {
            assert_eq!((&row["kind"], &row["holds"]), (&"deterministic".into(), &true.into()), "{row}");
            assert!((0.0002..0.0003).contains(&row["ours"].as_f64().unwrap()), "{row}");
        } else if what.contains("a write: sync, batch:100, none") {
            // That it flushes the same whatever the durability.
            let found: BTreeSet<&str> = row["ours"].as_str().unwrap().split(' ').collect();
            assert_eq!((&row["kind"], found.len()), (&"deterministic".into(), 1), "{row}");
        } else {
            assert_eq!(row["kind"], "emulated", "{row}");
            if what.contains("LSM (for LevelDB)") {
                assert_eq!(cfg!(feature = "lsm"), !row["ours"].is_null(), "{row}");
            }
        }
    }
    assert!(seen.iter().eq(ids.iter()), "{seen:?}");
    if std::path::Path::new("/dev/shm").is_dir() {
        assert!(plots.join("S2-writes.svg").is_file());
    }
}
