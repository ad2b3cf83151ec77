//! What `terrace reproduce bonsai` writes, at a tiny scale: in a program of its own, whose allocator counts.

use std::alloc::System;

use terrace_bench::reproduce::{Options, Settings, bonsai, run};
use terrace_index::dram::Counting;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

#[test]
fn bonsai_has_every_row() {
    let dir = tempfile::tempdir().unwrap();
    let scale = std::env::var("SCALE").map_or(0.002, |text| text.parse().unwrap());
    let only = std::env::var("ONLY").map_or(Vec::new(), |text| text.split(',').map(str::to_owned).collect());
    let settings = Settings { scale, runs: 1, seed: 1, threads: 2 };
    let report =
        run(&bonsai::STUDY, &Options { settings, only, plots: Some(dir.path().join("plots")) }).unwrap();
    println!("{report}");
}
