//! `terrace compare` as a command: which engines have rows, what is in them, and what is left behind.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn terrace(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.arg("compare").args(line.split_whitespace());
    command
}

/// Exit status, standard output, standard error.
fn compare(line: &str) -> (Option<i32>, String, String) {
    let output = terrace(line).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|row| row["engine"].as_str().unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What holds of every row with figures, on whatever media.
fn check_figures(row: &Value, rounds: usize) {
    let figures = &row["figures"];
    assert!(row["stopped"].is_null() && figures["is_sound"] == true, "{row}");
    let all: Vec<f64> = figures["ops_per_second_of_rounds"].as_array().unwrap().iter().map(number).collect();
    let within = |figure: f64| all.iter().any(|of| *of <= figure) && all.iter().any(|of| *of >= figure);
    assert!(all.len() == rounds && within(number(&figures["ops_per_second"])), "{row}");
    let [p50, p99, p999] = ["p50", "p99", "p999"].map(|name| number(&figures["latency_ns"][name]));
    assert!(p50 > 0.0 && p50 <= p99 && p99 <= p999, "{row}");
    let index = number(&figures["index_bytes_per_record"]);
    assert!(index > 0.0 && number(&figures["dram_bytes_per_record"]) > index, "{row}");
}

fn check_restart(row: &Value) {
    let restart = &row["figures"]["restart"];
    let [open, first] = ["open_seconds", "first_answer_seconds"].map(|name| number(&restart[name]));
    assert!(open > 0.0 && first >= open && restart["missing_records"] == 0, "{row}");
}

#[test]
fn over_an_ssd_each_engine_has_a_row_or_a_reason() {
    let (status, text, told) = compare(
        "--workload wh --records 3000 --operations 3000 --rounds 2 --dram-records 4MiB --json - \
         --engines bonsai,hetermm,tac,scmkv,dram,heap-hybrid,heap-persistent",
    );
    assert_eq!(status, Some(0), "{told}");
    let found: Value = serde_json::from_str(&text).unwrap();
    let (rows, left_out) = (&found["engines"], &found["left_out"]);
    assert_eq!(names(rows), ["hetermm", "tac", "dram"], "in the order in which they were named");
    assert_eq!(names(left_out), ["bonsai", "scmkv", "heap-hybrid", "heap-persistent"]);
    for out in left_out.as_array().unwrap() {
        assert!(out["reason"].as_str().unwrap().contains("give --pmem SIZE@PATH"), "{out}");
    }
    assert_eq!(
        (&found["options"]["dram_records"], &found["options"]["emulated"]),
        (&(4 << 20).into(), &false.into())
    );
    for row in rows.as_array().unwrap() {
        check_figures(row, 2);
        let (figures, is_kept) = (&row["figures"], row["engine"] != "dram");
        let lost = if is_kept { ["nothing", "the last 100 ms"] } else { ["everything"; 2] };
        assert_eq!(["killed", "power"].map(|event| figures["may_lose"][event].as_str().unwrap()), lost);
        if is_kept {
            // Half of the operations are sets, and each is in the log.
            assert!(number(&figures["tiers"]["ssd"]["written_per_client_byte"]) > 0.5, "{row}");
            check_restart(row);
        } else {
            assert!(
                figures["restart"].is_null() && figures["tiers"].as_object().unwrap().is_empty(),
                "{row}"
            );
        }
    }
    assert!(told.contains("round 1 of 2: scmkv") && told.contains("round 2 of 2: tac"), "{told}");
    assert!(!told.contains("round 2 of 2: scmkv"), "one that can't is asked once: {told}");
}

#[test]
fn over_emulated_memory_all_that_keep_records_have_rows_and_it_is_said() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let line = format!(
        "--workload wh --records 3000 --operations 3000 --rounds 1 --dram-records 4MiB --pmem 64MiB@{} \
         --profile dram --durability sync",
        memory.path().display()
    );
    let json = memory.path().join("compare.json");
    let (status, text, told) = compare(&format!("{line} --json {}", json.display()));
    assert_eq!(status, Some(0), "{text}{told}");
    let found: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let kept = ["tac", "hetermm", "heap-hybrid", "heap-persistent", "scmkv", "bonsai"];
    assert_eq!(names(&found["engines"]), kept);
    assert_eq!(names(&found["left_out"]), ["dram"]);
    for row in found["engines"].as_array().unwrap() {
        check_figures(row, 1);
        check_restart(row);
        let figures = &row["figures"];
        let pmem = &figures["tiers"]["pmem"];
        assert!(number(&pmem["written_per_client_byte"]) > 0.5, "{row}");
        assert!(pmem["medium"].as_str().unwrap().contains("emulated"), "{row}");
        assert_eq!(figures["may_lose"]["power"], "nothing", "{row}");
    }
    let line_of = |name: &str| text.lines().find(|line| line.starts_with(&format!("{name} ")));
    assert!(kept.iter().all(|name| line_of(name).is_some()), "{text}");
    assert!(line_of("dram").is_some() && text.contains("engine dram keeps nothing"), "{text}");
    assert!(text.contains("EMULATED: pmem is memory that waits as dram would"), "{text}");
    std::fs::remove_file(json).unwrap();
    assert_eq!(std::fs::read_dir(memory.path()).unwrap().count(), 0, "stores go");
}

#[test]
fn a_budget_that_is_too_small_is_a_row() {
    let (status, text, told) =
        compare("--records 30000 --operations 100 --rounds 1 --dram-records 1MiB --engines tac,dram");
    assert_eq!(status, Some(1), "nothing was measured: {told}");
    let stopped = |name: &str, why: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with(&format!("{name} ")));
        lines.any(|line| line.contains(&format!(" stopped: {why}")))
    };
    assert!(stopped("tac", "1 MiB of DRAM for records: at least 2 MiB are needed"), "{text}");
    assert!(stopped("dram", "load failed: out of space"), "{text}");
    assert!(!text.contains("left out"), "{text}");
}

#[test]
fn slips_are_told_before_anything_is_done() {
    for (line, word) in [
        ("--engines tac,bonsay", "did you mean bonsai?"),
        ("--profile optain", "there are"),
        ("--rounds 0", "--rounds must be 1 to 100"),
        ("--records 0", "--records must be at least 1"),
        ("--workload sh", "use --index btree"),
        ("--dram 1GiB --dram-records 25%", "cannot be used with"),
        ("--ssd 1GiB@/nowhere", "/nowhere is no directory"),
    ] {
        let (status, text, told) = compare(line);
        assert!(status.is_some_and(|code| code != 0) && text.is_empty(), "{line}: {text}");
        assert!(told.contains(word) && !told.contains("round 1"), "{line}: {told}");
    }
}

/// Polls another process; nothing depends on how long this takes.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let from = Instant::now();
    while !is_so() {
        assert!(from.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupted_one_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let entries = || std::fs::read_dir(dir.path()).unwrap().count();
    let place = |dir: &Path| format!("--ssd 16GiB@{} --durability none", dir.display());
    let mut child =
        terrace(&format!("--engines hetermm --records 100000000 --dram-records 4MiB {}", place(dir.path())))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    wait_until("no store was made", || entries() > 0);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(entries(), 0);
}
