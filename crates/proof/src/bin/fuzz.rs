//! `cargo xtask fuzz`: the deterministic fuzzer. A program of its own, for its allocator counts.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use peak_alloc::PeakAlloc;
use terrace_proof::fuzz::Meter;
use terrace_proof::fuzz::driver::{Arguments, run};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

fn main() -> anyhow::Result<ExitCode> {
    let start = || {
        HEAP.reset_peak_usage();
        HEAP.current_usage()
    };
    run(&Arguments::parse(), Meter { start, peak: || HEAP.peak_usage() })
}
