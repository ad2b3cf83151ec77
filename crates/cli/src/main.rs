//! The `terrace` command; see the library beside it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use terrace_index::allocator::Sparing;
use terrace_index::dram::Counting;

#[global_allocator]
static ALLOCATOR: Counting<Sparing> = Counting(Sparing);

fn main() -> ExitCode {
    terrace_cli::run()
}
