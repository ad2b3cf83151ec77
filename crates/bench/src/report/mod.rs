//! What a run found, for programs (JSON) and for people (a table).

mod media;
mod options;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use terrace::engine::Durability;

pub use media::{Accesses, MediaReport, PerOperation};
pub use options::OptionsReport;

use crate::Config;
use crate::client::About;
use crate::distribution::static_optimum;
use crate::record::record_bytes;
use crate::run::Measured;
use crate::storage::Storage;

/// Where a run's numbers come from.
pub(crate) enum Circumstances<'a> {
    /// A store in this process, and what it found when it opened.
    Here(&'a Storage, Vec<String>),
    /// A server.
    There(About),
}

/// A finished run. Serialised, its fields are the JSON's keys.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The engine; `remote` if a server didn't tell.
    pub engine: String,
    /// The index; `remote` if a server didn't tell.
    pub index: String,
    /// The workload.
    pub workload: String,
    /// Records loaded.
    pub records: u64,
    /// Operations of the measured phase.
    pub operations: u64,
    /// Threads.
    pub threads: usize,
    /// All that the numbers depend on: sizes, durability, profile, distribution, seed.
    pub options: OptionsReport,
    /// Throughput of the measured phase.
    pub ops_per_second: f64,
    /// Wall time of the measured phase.
    pub seconds: f64,
    /// Wall time of the load.
    pub load_seconds: f64,
    /// By kind of operation, in nanoseconds: the time of the batch that it was in.
    pub latency_ns: BTreeMap<&'static str, Latency>,
    /// Of all operations together, whatever their kind; of no operations there is none.
    #[serde(skip)]
    pub latency_all_ns: Option<Latency>,
    /// By tier; empty over the network.
    pub tiers: BTreeMap<&'static str, TierReport>,
    /// By counted tier, and `log` where the log has a medium of its own. DRAM is not counted and not listed.
    pub media: BTreeMap<&'static str, MediaReport>,
    /// DRAM that the store holds, index and buffers included, divided by its keys.
    pub dram_bytes_per_record: Option<f64>,
    /// DRAM that the index holds, divided by the keys.
    pub index_bytes_per_record: Option<f64>,
    /// How the hits in DRAM compare with the best that a fixed choice of records could give.
    #[serde(flatten)]
    pub static_optimum: Option<Optimum>,
    /// Gets, read-modify-writes included.
    pub gets: u64,
    /// Sets, inserts and read-modify-writes included.
    pub sets: u64,
    /// Gets that found nothing.
    pub misses: u64,
    /// Gets compared with what was written.
    pub verified: u64,
    /// Of these, gets that gave something else.
    pub wrong: u64,
    /// Refused operations by reason.
    pub errors: BTreeMap<String, u64>,
    /// With `--recover`: seconds until the store answered again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_seconds: Option<f64>,
    /// With `--recover`: records it then had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered_records: Option<u64>,
    /// With `--recover`: what was expected and read back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

/// Percentiles in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Operations.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90%.
    pub p90: u64,
    /// 99%.
    pub p99: u64,
    /// 99.9%.
    pub p999: u64,
    /// 99.99%.
    pub p9999: u64,
    /// The longest.
    pub max: u64,
}

/// One tier after the measured phase.
#[derive(Clone, Debug, Serialize)]
pub struct TierReport {
    /// What it is.
    pub medium: String,
    /// Live records whose fastest copy is here.
    pub records: u64,
    /// Bytes that live records occupy here.
    pub bytes: u64,
    /// Bytes in use, garbage included.
    pub used_bytes: u64,
    /// Bytes there are; null where nothing bounds it.
    pub capacity_bytes: Option<u64>,
    /// Gets of the measured phase answered from here, as a share of all of its gets; null without gets.
    pub hit_ratio: Option<f64>,
}

/// A hit ratio means something only beside what was possible.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Optimum {
    /// The share of the loaded records that fits into DRAM.
    pub dram_share: f64,
    /// The hit ratio of a DRAM tier that always holds just the hottest of them.
    pub hit_ratio_static_optimum: f64,
    /// The measured hit ratio of DRAM, as a share of that.
    pub hit_ratio_share_of_optimum: Option<f64>,
}

/// What was there after the store had been dropped as if killed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Recovery {
    /// Until it was open again.
    pub seconds: f64,
    /// From the same moment until a get was answered.
    pub first_answer_seconds: f64,
    /// Records then.
    pub records: u64,
    /// Records before.
    pub expected: u64,
    /// Loaded records that were read back.
    pub sampled: u64,
    /// Of these, missing.
    pub sample_missing: u64,
    /// Of these, damaged or refused.
    pub sample_wrong: u64,
}

impl Report {
    pub(crate) fn new(config: &Config, at: Circumstances<'_>, measured: Measured) -> Self {
        let Measured { tally, took, load_took, stats } = measured;
        let operations = config.measured_operations();
        let told = |field: &str, here: &String| match &at {
            Circumstances::Here(..) => here.clone(),
            Circumstances::There(about) => about.get(field).unwrap_or_else(|| "remote".to_owned()),
        };
        let latency_ns =
            tally.histograms().map(|(kind, histogram)| (kind.name(), latency(histogram))).collect();
        let mut report = Self {
            engine: told("engine", &config.engine),
            index: told("index", &config.index),
            workload: config.workload.name().to_owned(),
            records: config.records,
            operations,
            threads: config.threads,
            options: OptionsReport::new(config, at),
            ops_per_second: operations as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE),
            seconds: took.as_secs_f64(),
            load_seconds: load_took.as_secs_f64(),
            latency_ns,
            latency_all_ns: tally.together().as_ref().map(latency),
            tiers: BTreeMap::new(),
            media: BTreeMap::new(),
            dram_bytes_per_record: None,
            index_bytes_per_record: None,
            static_optimum: None,
            gets: tally.gets,
            sets: tally.sets,
            misses: tally.misses,
            verified: tally.verified,
            wrong: tally.wrong,
            errors: tally.errors,
            recovery_seconds: None,
            recovered_records: None,
            recovery: None,
        };
        if let Some((before, after)) = stats {
            report.add_stats(config, &before, &after);
        }
        report
    }

    fn add_stats(
        &mut self,
        config: &Config,
        before: &terrace::engine::Stats,
        after: &terrace::engine::Stats,
    ) {
        let written = self.sets * (config.key_bytes + config.value_bytes) as u64;
        for tier in &after.tiers {
            let earlier = before.tiers.iter().find(|earlier| earlier.tier == tier.tier);
            let hits = tier.hits - earlier.map_or(0, |earlier| earlier.hits);
            let bounded = tier.capacity_bytes > 0 && tier.capacity_bytes < u64::MAX;
            self.tiers.insert(
                tier.tier,
                TierReport {
                    medium: tier.medium.clone(),
                    records: tier.records,
                    bytes: tier.live_bytes,
                    used_bytes: tier.used_bytes,
                    capacity_bytes: bounded.then_some(tier.capacity_bytes),
                    hit_ratio: (self.gets > 0).then(|| hits as f64 / self.gets as f64),
                },
            );
            if tier.tier != "dram" {
                let accesses = tier.media - earlier.map_or_else(Default::default, |earlier| earlier.media);
                self.media.insert(tier.tier, MediaReport::new(accesses, self.operations, written));
            }
        }
        if let Some(log) = after.log {
            let accesses = log.media - before.log.map_or_else(Default::default, |log| log.media);
            if log.media != Default::default() {
                self.media.insert("log", MediaReport::new(accesses, self.operations, written));
            }
        }
        if after.keys > 0 {
            let per_key = |bytes: u64| Some(bytes as f64 / after.keys as f64);
            self.dram_bytes_per_record = per_key(after.index_bytes + after.dram_other_bytes);
            self.index_bytes_per_record = per_key(after.index_bytes);
        }
        if let Some(dram) = self.tiers.get("dram").filter(|_| self.gets > 0) {
            let data = record_bytes(&config.engine, config.key_bytes, config.value_bytes) * config.records;
            let share = dram.capacity_bytes.map_or(1.0, |bytes| (bytes as f64 / data as f64).min(1.0));
            self.static_optimum =
                static_optimum(config.distribution(), config.records, share).map(|best| Optimum {
                    dram_share: share,
                    hit_ratio_static_optimum: best,
                    hit_ratio_share_of_optimum: dram
                        .hit_ratio
                        .filter(|_| best > 0.0)
                        .map(|ratio| ratio / best),
                });
        }
    }

    /// Adds what a recovery found.
    pub(crate) fn recovered(&mut self, recovery: Recovery) {
        self.recovery_seconds = Some(recovery.seconds);
        self.recovered_records = Some(recovery.records);
        self.recovery = Some(recovery);
    }

    /// Whether every answer was right: nothing read differed from what was written, no operation was refused, and a recovery
    /// brought back all that the durability mode promised.
    pub fn is_sound(&self) -> bool {
        let promised = self.options.durability != Durability::None.to_string();
        let recovered = self.recovery.is_none_or(|recovery| {
            let complete = recovery.records == recovery.expected && recovery.sample_missing == 0;
            recovery.sample_wrong == 0 && (complete || !promised)
        });
        self.wrong == 0 && self.errors.is_empty() && recovered
    }

    /// Writes the JSON; to standard output for `-`.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        crate::json::write(self, path)
    }
}

fn latency(histogram: &hdrhistogram::Histogram<u64>) -> Latency {
    let at = |quantile| histogram.value_at_quantile(quantile);
    Latency {
        count: histogram.len(),
        mean: histogram.mean(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        p9999: at(0.9999),
        max: histogram.max(),
    }
}
