//! An engine's rounds as one line.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::loss::Loss;
use super::trial::Round;
use crate::report::{Latency, Report};
use crate::reproduce::median;

/// Of several rounds: the median, and of throughput all of them, too.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Operations a second.
    pub ops_per_second: f64,
    /// The same of each round.
    pub ops_per_second_of_rounds: Vec<f64>,
    /// Of all operations, reads and writes: the time of the batch that each was in.
    pub latency_ns: Percentiles,
    /// DRAM for a record, index and buffers counted, as the store tells it.
    pub dram_bytes_per_record: f64,
    /// The index's part of it.
    pub index_bytes_per_record: f64,
    /// By tier below DRAM, the log counted where it lies.
    pub tiers: BTreeMap<&'static str, Traffic>,
    /// After a kill; null where nothing outlives the process.
    pub restart: Option<Restart>,
    /// What a crash may take of the writes that were acknowledged.
    pub may_lose: Loss,
    /// Whether each answer was right, and after the kill all was there that durability promised.
    pub is_sound: bool,
    /// What the store found and chose.
    pub description: Vec<String>,
}

/// Percentiles in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Percentiles {
    /// Half of all took longer.
    pub p50: f64,
    /// One in 100 did.
    pub p99: f64,
    /// One in 1000 did.
    pub p999: f64,
}

/// What the measured phase asked of a tier, for each byte of keys and values that its operations read or wrote.
#[derive(Clone, Debug, Serialize)]
pub struct Traffic {
    /// What the tier is.
    pub medium: String,
    /// Bytes there are; null where nothing bounds it.
    pub capacity_bytes: Option<u64>,
    /// Bytes written to it.
    pub written_per_client_byte: f64,
    /// Bytes read from it.
    pub read_per_client_byte: f64,
}

/// A store that was killed, and opened again by the same process: its files may still be in the system's page cache.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Restart {
    /// Until it was open.
    pub open_seconds: f64,
    /// From the same moment until a get was answered.
    pub first_answer_seconds: f64,
    /// Records that were missing then, of the round that lacked most.
    pub missing_records: u64,
}

impl Figures {
    /// Of rounds that went through, one at least.
    pub(super) fn of(rounds: &[Round]) -> Self {
        let each = |figure: &dyn Fn(&Report) -> f64| -> Vec<f64> {
            rounds.iter().map(|round| figure(&round.report)).collect()
        };
        let middle = |figure: &dyn Fn(&Report) -> f64| median(&each(figure));
        let latency = |of: fn(&Latency) -> u64| {
            middle(&|report| report.latency_all_ns.as_ref().map_or(0.0, |all| of(all) as f64))
        };
        let of_rounds = each(&|report| report.ops_per_second);
        let names: BTreeSet<&'static str> =
            rounds.iter().flat_map(|round| round.report.tiers.keys().copied()).collect();
        let traffic = |name: &'static str| {
            let tier = rounds.iter().find_map(|round| round.report.tiers.get(name));
            Traffic {
                medium: tier.map(|tier| tier.medium.clone()).unwrap_or_default(),
                capacity_bytes: tier.and_then(|tier| tier.capacity_bytes),
                written_per_client_byte: middle(&|report| bytes_of(report, name)[0] / client_bytes(report)),
                read_per_client_byte: middle(&|report| bytes_of(report, name)[1] / client_bytes(report)),
            }
        };
        Self {
            ops_per_second: median(&of_rounds),
            ops_per_second_of_rounds: of_rounds,
            latency_ns: Percentiles {
                p50: latency(|all| all.p50),
                p99: latency(|all| all.p99),
                p999: latency(|all| all.p999),
            },
            dram_bytes_per_record: middle(&|report| report.dram_bytes_per_record.unwrap_or(0.0)),
            index_bytes_per_record: middle(&|report| report.index_bytes_per_record.unwrap_or(0.0)),
            tiers: names.into_iter().filter(|name| *name != DRAM).map(|name| (name, traffic(name))).collect(),
            restart: restart(rounds),
            may_lose: rounds.first().map_or_else(Loss::default, |round| round.loss.clone()),
            is_sound: rounds.iter().all(|round| round.report.is_sound()),
            description: rounds
                .first()
                .map(|round| round.report.options.description.clone())
                .unwrap_or_default(),
        }
    }
}

/// The tier whose accesses nobody counts.
const DRAM: &str = "dram";
/// The tier that the log lies on where that has a medium of its own.
const SSD: &str = "ssd";
const LOG: &str = "log";

/// Bytes written and read at a tier in the measured phase.
fn bytes_of(report: &Report, tier: &str) -> [f64; 2] {
    let names = [Some(tier), (tier == SSD).then_some(LOG)];
    let media = names.into_iter().flatten().filter_map(|name| report.media.get(name));
    media.fold([0.0, 0.0], |[written, read], media| {
        [written + media.total.write_bytes as f64, read + media.total.read_bytes as f64]
    })
}

/// Bytes of keys and values that the operations of the measured phase read or wrote; of a get that missed, the key.
fn client_bytes(report: &Report) -> f64 {
    let [key, value] = [report.options.key_bytes, report.options.value_bytes].map(|bytes| bytes as f64);
    let (all, missed) = (report.gets + report.sets, report.misses);
    (all as f64 * (key + value) - missed as f64 * value).max(1.0)
}

fn restart(rounds: &[Round]) -> Option<Restart> {
    let all: Vec<_> = rounds.iter().filter_map(|round| round.report.recovery).collect();
    let most = all.iter().map(|found| found.expected.saturating_sub(found.records)).max()?;
    let middle = |of: fn(&crate::report::Recovery) -> f64| median(&all.iter().map(of).collect::<Vec<_>>());
    Some(Restart {
        open_seconds: middle(|found| found.seconds),
        first_answer_seconds: middle(|found| found.first_answer_seconds),
        missing_records: most,
    })
}
