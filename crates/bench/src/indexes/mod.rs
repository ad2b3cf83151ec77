//! The benchmark of indexes alone: no store, no log; records of 64 bytes in DRAM, verified and copied.
//!
//! ```text
//!   Options --> for each index, key length, distribution, number of threads:
//!                 an empty index --> load, get, get_batch, mix_95_5, mix_50_50, scan (ordered ones) --> Row
//!               and once for each index and key length, before any clock starts: load it alone and count its bytes
//! ```
//!
//! **What the numbers mean.** `mops` is millions of operations a second of all threads together, over the wall time of the
//! slowest. Keys are drawn before the clock starts and lie in a row, so reading them costs little; hashing them is measured,
//! as an engine does it for every operation. An operation of `scan` visits 100 keys and addresses, and reads no record. `bytes_per_entry` is the DRAM that the
//! index takes, as an allocator hook and the kernel count it; the records are not in it.

mod records;
mod run;
mod table;

use std::path::Path;

use anyhow::{bail, ensure};
use serde::Serialize;
use terrace_index::catalogue;

use crate::Distribution;

/// Which indexes are measured, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Names of indexes.
    pub indexes: Vec<String>,
    /// Entries of an index.
    pub records: u64,
    /// Operations of each thread and measurement; a fiftieth as many scans.
    pub operations: u64,
    /// Lengths of keys, 8 to 56 bytes.
    pub key_bytes: Vec<usize>,
    /// Which records are asked for.
    pub distributions: Vec<Distribution>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Keys of a batched get, at most 64.
    pub batch: usize,
    /// What all random choices follow from.
    pub seed: u64,
}

impl Options {
    /// Refuses what can't be measured.
    ///
    /// # Errors
    /// If a name is unknown (the error says which there are) or a number is out of range.
    pub fn check(&self) -> anyhow::Result<()> {
        for name in &self.indexes {
            catalogue::with_index(name, Known)?;
        }
        ensure!(!self.indexes.is_empty(), "name an index at least");
        ensure!((1..=1 << 31).contains(&self.records), "--records must be 1 to 2^31");
        ensure!(self.operations > 0, "--operations must not be 0");
        ensure!((1..=64).contains(&self.batch), "--batch must be 1 to 64");
        ensure!(!self.threads.is_empty() && !self.threads.contains(&0), "--threads must not be 0");
        for &bytes in &self.key_bytes {
            ensure!((8..=records::KEY_BYTES_MAX).contains(&bytes), "--key-bytes must be 8 to 56");
        }
        if let Some(latest) = self.distributions.iter().find(|d| **d == Distribution::Latest) {
            bail!("{latest} needs inserts, and no operation here inserts");
        }
        Ok(())
    }
}

struct Known;

impl catalogue::Visitor for Known {
    type Out = ();
    fn visit<I: terrace_index::Index>(self, _new: fn(u64) -> I) {}
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The index's name.
    pub index: &'static str,
    /// Length of the keys.
    pub key_bytes: usize,
    /// Which records were asked for.
    pub distribution: String,
    /// Threads.
    pub threads: usize,
    /// `load`, `get`, `get_batch`, `mix_95_5`, `mix_50_50` or `scan`.
    pub operation: &'static str,
    /// Millions of operations a second.
    pub mops: f64,
    /// DRAM of the index for each entry.
    pub bytes_per_entry: f64,
}

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// In the order of the options, operations last.
    pub rows: Vec<Row>,
    pub(crate) options: Options,
}

impl Report {
    /// Writes the rows as a JSON list; `-` is standard output.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        crate::json::write(&self.rows, path)
    }
}

/// Measures.
///
/// # Errors
/// If the options are wrong, an index lost a record or found another's, or the program doesn't count its allocations
/// ([`terrace_index::dram::Counting`]).
pub fn run(options: &Options) -> anyhow::Result<Report> {
    options.check()?;
    let rows = run::all(options)?;
    Ok(Report { rows, options: options.clone() })
}
