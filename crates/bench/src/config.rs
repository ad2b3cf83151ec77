//! What a run is asked for.

use std::path::PathBuf;
use std::str::FromStr;

use terrace::engine::Durability;
use terrace::{Eviction, Placement, ReadCache, Size, Swap, TierSpec};

use crate::{Distribution, Endpoint, Workload};

/// The engine whose own index keeps the keys in order.
const ORDERED: &str = "bonsai";

/// A run's options; every percentage is of the bytes that the loaded records occupy with their headers
/// ([`crate::record::record_bytes`]).
#[derive(Clone, Debug)]
pub struct Config {
    /// The engine to open, or `dram`.
    pub engine: String,
    /// The index to open it with.
    pub index: String,
    /// Which tier records lie in, of engine `tac` with three. `None`: the store's default.
    pub placement: Option<Placement>,
    /// Which record leaves DRAM next and which may enter, of engine `tac`. `None`: the store's default.
    pub policy: Option<Eviction>,
    /// Of engine `tac`: what a read of the SSD brings up.
    pub swap: Option<Swap>,
    /// Of `hetermm`, which records that are read below DRAM are copied to it.
    pub read_cache: Option<ReadCache>,
    /// How long a heap's chunks are.
    pub heap: Option<terrace::Granularity>,
    /// What is done to the records.
    pub workload: Workload,
    /// Records loaded before the measured phase (by it, for [`Workload::Load`]).
    pub records: u64,
    /// Operations of the measured phase.
    pub operations: u64,
    /// Threads, each with a session or a connection of its own.
    pub threads: usize,
    /// Operations submitted together.
    pub batch: usize,
    /// Batches that a thread keeps submitted: with one, it submits nothing while the slowest read of a batch is on its way.
    pub in_flight: usize,
    /// Operations a second of the measured phase, all threads together; `None`: as many as the store takes.
    pub rate: Option<u64>,
    /// Records loaded a second before it; `None`: as many as the store takes.
    pub load_rate: Option<u64>,
    /// Length of every key.
    pub key_bytes: usize,
    /// Length of every value.
    pub value_bytes: usize,
    /// Which records operations are about. `None`: latest for workload d, Zipf 0.99 for the others.
    pub distribution: Option<Distribution>,
    /// Bound on the process's memory.
    pub dram: Option<Size>,
    /// Bound on the record space in DRAM.
    pub dram_records: Option<Size>,
    /// The byte-addressable lower tier.
    pub pmem: Option<TierSpec>,
    /// The block lower tier.
    pub ssd: Option<TierSpec>,
    /// The device to emulate at the byte-addressable tier.
    pub profile: Option<String>,
    /// When writes are answered. `None`: the store's default. The `dram` engine answers as with `none`.
    pub durability: Option<Durability>,
    /// Where the store lies, to be kept; `None` for a temporary directory that is removed.
    pub dir: Option<PathBuf>,
    /// A server to drive instead of a store in this process.
    pub connect: Option<Endpoint>,
    /// What all random choices follow from.
    pub seed: u64,
    /// Drop the store as if killed after the run, and open it again.
    pub recover: bool,
    /// How many reads are compared with what was written.
    pub verify: Verify,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            engine: "hetermm".into(),
            index: "clht".into(),
            placement: None,
            policy: None,
            swap: None,
            read_cache: None,
            heap: None,
            workload: Workload::ReadHeavy,
            records: 1_000_000,
            operations: 1_000_000,
            threads: 2,
            batch: 16,
            in_flight: 1,
            rate: None,
            load_rate: None,
            key_bytes: 8,
            value_bytes: 64,
            distribution: None,
            dram: None,
            dram_records: None,
            pmem: None,
            ssd: None,
            profile: None,
            durability: None,
            dir: None,
            connect: None,
            seed: 1,
            recover: false,
            verify: Verify::Sample,
        }
    }
}

/// How many of the values read are compared with what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// None.
    None,
    /// One in 64.
    #[default]
    Sample,
    /// Every one.
    All,
}

impl Verify {
    /// Whether the `n`th read is compared.
    #[inline]
    pub fn wants(self, n: u64) -> bool {
        match self {
            Self::None => false,
            Self::Sample => n.is_multiple_of(64),
            Self::All => true,
        }
    }
}

impl FromStr for Verify {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "sample" => Ok(Self::Sample),
            "all" => Ok(Self::All),
            _ => Err(format!("{text:?}: expected none, sample or all")),
        }
    }
}

impl Config {
    /// The distribution in force.
    pub fn distribution(&self) -> Distribution {
        self.distribution.unwrap_or(match self.workload {
            Workload::D => Distribution::Latest,
            _ => Distribution::Zipfian(crate::distribution::YCSB_EXPONENT),
        })
    }

    /// Operations of the measured phase.
    pub fn measured_operations(&self) -> u64 {
        if self.workload == Workload::Load { self.records } else { self.operations }
    }

    /// Checks what can be checked before anything is opened.
    ///
    /// # Errors
    /// If an option is out of range or options contradict each other; the text says which and what is possible.
    pub fn check(&self) -> anyhow::Result<()> {
        use anyhow::ensure;
        ensure!(
            !self.workload.scans() || self.connect.is_none(),
            "workload {} scans ranges, for which neither protocol has a command: leave out --connect",
            self.workload.name()
        );
        let ordered = || terrace::INDEXES.iter().filter(|about| about.built && about.ordered);
        let has_own_index = terrace::has_own_index(&self.engine);
        ensure!(
            !self.workload.scans() || !has_own_index || self.engine == ORDERED,
            "workload {} scans ranges, and engine {} has an index of its own that keeps no order",
            self.workload.name(),
            self.engine
        );
        ensure!(
            !self.workload.scans() || has_own_index || ordered().any(|about| about.name == self.index),
            "workload {} scans ranges and needs an ordered index, which {} is not: use --index {}",
            self.workload.name(),
            self.index,
            ordered().map(|about| about.name).collect::<Vec<_>>().join(" or ")
        );
        ensure!(self.records > 0, "--records must be at least 1");
        ensure!(self.threads > 0 && self.threads <= 1024, "--threads must be 1 to 1024");
        ensure!(self.batch > 0 && self.batch <= 65_536, "--batch must be 1 to 65536");
        ensure!(self.in_flight > 0 && self.in_flight <= 1024, "--in-flight must be 1 to 1024");
        ensure!(
            self.in_flight == 1 || self.connect.is_none(),
            "--in-flight is for a store in this process; a connection's depth is its --batch"
        );
        ensure!(
            self.rate != Some(0) && self.load_rate != Some(0),
            "--rate and --load-rate must be at least 1 operation a second"
        );
        ensure!(
            self.rate.is_none() || self.in_flight == 1,
            "--rate says when each batch is submitted, --in-flight how many wait for answers: give one of them"
        );
        ensure!(self.key_bytes > 0 && self.key_bytes <= 65_536, "--key-bytes must be 1 to 65536");
        ensure!(self.value_bytes <= 64 << 20, "--value-bytes must be at most 64 MiB (67108864)");
        ensure!(
            (self.batch * self.in_flight).saturating_mul(self.key_bytes + self.value_bytes) <= 1 << 30,
            "--batch times --in-flight times the size of a record must be at most 1 GiB; use a smaller --batch"
        );
        // One insert in five at most, but room for all costs nothing.
        let ids = self.records.saturating_add(self.operations);
        let bits = crate::content::key_bits(self.key_bytes, self.text_keys());
        ensure!(
            bits == 64 || ids <= 1 << bits,
            "keys of {} bytes can tell only {} records apart{}; use a larger --key-bytes",
            self.key_bytes,
            1u64 << bits,
            if self.text_keys() { " in memcached's printable characters" } else { "" },
        );
        ensure!(
            self.connect.is_none() || !self.recover,
            "--recover needs the store in this process: leave out --connect"
        );
        ensure!(
            !self.text_keys() || self.key_bytes <= 250,
            "memcached takes keys of at most 250 bytes; use a smaller --key-bytes"
        );
        ensure!(
            self.dram.is_none() || self.dram_records.is_none(),
            "give --dram or --dram-records, not both"
        );
        Ok(())
    }

    /// Whether keys must be printable.
    pub fn text_keys(&self) -> bool {
        matches!(self.connect, Some(Endpoint::Memcached(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_told_before_anything_is_opened() {
        let refused = |config: Config, word: &str| {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error:?} does not speak of {word:?}");
        };
        let ok = Config::default;
        ok().check().unwrap();
        refused(Config { batch: 0, ..ok() }, "--batch");
        refused(Config { in_flight: 0, ..ok() }, "--in-flight");
        let connect = Some("redis://127.0.0.1:1".parse().unwrap());
        refused(Config { in_flight: 2, connect, ..ok() }, "--in-flight");
        refused(Config { rate: Some(0), ..ok() }, "--rate");
        refused(Config { rate: Some(1), in_flight: 2, ..ok() }, "--rate");
        refused(Config { key_bytes: 2, ..ok() }, "--key-bytes");
        let connect = Some("redis://127.0.0.1:1".parse().unwrap());
        refused(Config { connect, recover: true, ..ok() }, "--recover");
        refused(Config { connect, workload: Workload::E, ..ok() }, "workload e");
        refused(Config { workload: Workload::E, ..ok() }, "--index btree");
        refused(Config { workload: Workload::E, engine: "scmkv".into(), ..ok() }, "keeps no order");
        Config { workload: Workload::E, engine: "bonsai".into(), ..ok() }.check().unwrap();
        let size = Some(Size::Percent(25.0));
        refused(Config { dram: size, dram_records: size, ..ok() }, "not both");
    }

    #[test]
    fn workload_d_reads_the_latest() {
        let config = Config { workload: Workload::D, ..Config::default() };
        assert_eq!(config.distribution(), Distribution::Latest);
        assert_eq!(Config::default().distribution(), Distribution::Zipfian(0.99));
    }
}
