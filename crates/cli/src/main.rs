//! The `terrace` command; see the library beside it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use terrace_index::dram::Counting;

#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    terrace_cli::run()
}
