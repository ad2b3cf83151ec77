//! Whole runs against the engine that needs no medium.

use terrace_bench::{Config, Verify, Workload};

fn config(workload: Workload) -> Config {
    Config {
        engine: "dram".into(),
        workload,
        records: 500,
        operations: 3000,
        batch: 8,
        verify: Verify::All,
        ..Config::default()
    }
}

#[test]
fn every_workload_reads_what_it_wrote() {
    use Workload::{A, B, C, D, F, Load, ReadHeavy, ReadOnly, WriteHeavy};
    for workload in [Load, A, B, C, D, F, WriteHeavy, ReadHeavy, ReadOnly] {
        let report = terrace_bench::run(&config(workload)).unwrap();
        assert!(report.is_sound(), "{}: {report}", workload.name());
        assert_eq!((report.misses, report.verified), (0, report.gets), "{}", workload.name());
        let counted: u64 = report.latency_ns.values().map(|latency| latency.count).sum();
        assert_eq!(counted, report.operations);
    }
}

#[test]
fn hits_are_a_share_of_all_gets() {
    let json = serde_json::to_value(terrace_bench::run(&config(Workload::WriteHeavy)).unwrap()).unwrap();
    let dram = &json["tiers"]["dram"];
    assert_eq!(dram["hit_ratio"], 1.0);
    assert_eq!(dram["records"], 500);
    // 24 bytes of header, 8 of key, 64 of value.
    assert_eq!(dram["bytes"], 500 * 96);
    assert_eq!((&json["dram_share"], &json["hit_ratio_static_optimum"]), (&1.0.into(), &1.0.into()));
    assert!(json["dram_bytes_per_record"].as_f64().unwrap() >= 96.0);
    assert_eq!(json["options"]["durability"], "none");
    assert!(json["media"].as_object().unwrap().is_empty(), "DRAM is not counted");
}

#[test]
fn a_volatile_engine_recovers_nothing_and_says_so() {
    let report = terrace_bench::run(&Config { recover: true, ..config(Workload::ReadOnly) }).unwrap();
    assert_eq!(report.recovered_records, Some(0));
    assert!(report.recovery_seconds.unwrap() > 0.0);
    let recovery = report.recovery.unwrap();
    assert_eq!((recovery.expected, recovery.sample_missing, recovery.sampled), (500, 500, 500));
}

#[test]
fn engines_that_there_are_not_are_refused() {
    let config = Config { engine: "bonsay".into(), ..config(Workload::A) };
    assert!(terrace_bench::run(&config).unwrap_err().to_string().contains("there is no engine \"bonsay\""));
}
