//! Options that a benchmark of one engine and a comparison of several have in common.

use clap::Args;
use terrace::engine::Durability;
use terrace::{Size, TierSpec};
use terrace_bench::{Config, Distribution, Workload};

use crate::names;

/// What is done, over which media and with how much DRAM.
#[derive(Debug, Args)]
pub struct Shared {
    /// a to f (YCSB's), load, wh (50% sets), rh (5% sets), ro (none) or sh (scans); e and sh need an ordered index
    #[arg(long, default_value = "rh", value_name = "W")]
    workload: Workload,
    /// The index
    #[arg(long, value_parser = names::index, default_value = "clht", value_name = "I")]
    index: String,
    /// Threads, each with a session or connection of its own
    #[arg(long, default_value_t = 2, value_name = "T")]
    threads: usize,
    /// Operations submitted together
    #[arg(long, default_value_t = 16, value_name = "B")]
    batch: usize,
    /// Length of the keys
    #[arg(long, default_value_t = 8, value_name = "K")]
    key_bytes: usize,
    /// Length of the values
    #[arg(long, default_value_t = 64, value_name = "V")]
    value_bytes: usize,
    /// zipfian:EXPONENT (true Zipf over the records), ycsb (YCSB's scrambled one, flatter), uniform or latest [default: zipfian:0.99; latest for workload d]
    #[arg(long, value_name = "DIST")]
    distribution: Option<Distribution>,
    /// Bound on the process's memory
    #[arg(long, value_name = "SIZE|P%")]
    dram: Option<Size>,
    /// Bound on the records in DRAM alone [default: 25%]
    #[arg(long, value_name = "SIZE|P%", conflicts_with = "dram")]
    dram_records: Option<Size>,
    /// Byte-addressable lower tier
    #[arg(long, value_name = "SIZE|P%[@PATH]")]
    pmem: Option<TierSpec>,
    /// Block lower tier
    #[arg(long, value_name = "SIZE|P%[@PATH]")]
    ssd: Option<TierSpec>,
    /// Emulate this device at the byte-addressable tier
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// none, batch:MS or sync [default: batch:100; none for dram]
    #[arg(long, value_name = "MODE")]
    durability: Option<Durability>,
    /// What all random choices follow from
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
}

impl Shared {
    /// A run of these, all else as by default.
    pub fn config(self) -> Config {
        Config {
            workload: self.workload,
            index: self.index,
            threads: self.threads,
            batch: self.batch,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            distribution: self.distribution,
            dram: self.dram,
            dram_records: self.dram_records,
            pmem: self.pmem,
            ssd: self.ssd,
            profile: self.profile,
            durability: self.durability,
            seed: self.seed,
            ..Config::default()
        }
    }
}
