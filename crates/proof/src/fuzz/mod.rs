//! Fuzzing: what reads bytes that nobody vouches for, fed with bytes that nobody would send.
//!
//! ```text
//!   corpus/TARGET/* --mutate (seeded)--> Target::run(&[u8]) --> fine, or which property is violated
//!                                                               '--> minimised, written out, a regression file
//! ```
//!
//! A target is a plain function, so that the driver and `cargo test` run the same code. `docs/fuzzing.md` lists the
//! targets with their properties.

pub mod driver;

mod binary;
mod config;
mod corpus;
mod execute;
mod history;
mod hostile;
mod media;
mod minimise;
mod model;
mod mutate;
mod options;
mod parsers;
mod server;
mod source;
mod wire;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use corpus::{Input, inputs};
pub use execute::{Meter, NO_METER, execute};
pub use history::lossy;
pub use minimise::minimise;
pub use model::Against;
pub use mutate::Mutator;

/// Something that reads bytes, with the properties that it must keep.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// The folder of its inputs in `corpus/`.
    pub corpus: &'static str,
    /// What it reads, in a few words.
    pub about: &'static str,
    /// Longer inputs are cut off here.
    pub bytes_max: usize,
    /// Words that get mutations past the first checks.
    pub words: &'static [&'static str],
    /// Runs one input. A panic is a violation too.
    ///
    /// # Errors
    /// The property that is violated.
    pub run: fn(&[u8]) -> Result<(), String>,
}

/// Every target.
pub static TARGETS: &[&Target] = &[
    &parsers::RESP,
    &parsers::RESP_ANSWER,
    &parsers::MEMCACHED,
    &binary::BINARY,
    &binary::SERVE_BINARY,
    &server::SERVE_RESP,
    &server::SERVE_MEMCACHED,
    &model::MODEL,
    &model::TWO,
    &model::MEMCACHED_MODEL,
    &hostile::HOSTILE,
    &options::OPTIONS,
    &media::SUPERBLOCK,
    &media::MANIFEST,
    &media::RECORD,
    &media::BLOCKS,
    &media::LOG_BYTE,
    &media::LOG_BLOCK,
    &media::RECOVER_BYTE,
    &media::RECOVER_BLOCK,
    &media::CHECK_BYTE,
    &media::CHECK_BLOCK,
    &media::TAC_BLOCKS,
    &media::TAC_RECOVER_BYTE,
    &media::TAC_RECOVER_BLOCK,
    &media::TAC_CHECK_BYTE,
    &media::TAC_CHECK_BLOCK,
    &media::TAC_RECOVER_TIERED,
    &media::TAC_CHECK_TIERED,
    &history::HISTORY,
    &config::CONFIG,
];

/// Commands that servers were given.
static COMMANDS: AtomicU64 = AtomicU64::new(0);

/// More commands were given to a server.
fn count(commands: u64) {
    COMMANDS.fetch_add(commands, Relaxed);
}

/// How many commands servers were given so far.
pub fn commands() -> u64 {
    COMMANDS.load(Relaxed)
}

/// The target of this name.
///
/// # Errors
/// If there is none, with the names that there are.
pub fn by_name(name: &str) -> Result<&'static Target, String> {
    TARGETS.iter().find(|target| target.name == name).copied().ok_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        format!("fuzz target {name:?}: expected all or one of {}", names.join(", "))
    })
}
