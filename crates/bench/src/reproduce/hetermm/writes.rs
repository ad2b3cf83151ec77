//! H2: what a set writes to persistent memory, and what a get reads of it. Counted.

use super::super::sheet::Sheet;
use super::super::{Figure, Holds, Kind, Outcome, Settings, each};
use super::counted::{Counted, Did};
use super::sizes;
use terrace::ReadCache;

use crate::distribution::YCSB_EXPONENT;
use crate::{Distribution, workload};

const RECORDS: u32 = 200_000;
const DISTRIBUTION: Distribution = Distribution::Zipfian(YCSB_EXPONENT);
/// Sets that are answered together, and bursts a set at most.
const BATCHES: [(usize, f64); 2] = [(1, 1.2), (16, 0.15)];
/// Two for the log, and a share of a flush.
const PAPER: &str = "below 3 (TIPS: 5)";
/// More than this is more than one read.
const READS_MAX: f64 = 1.05;

/// A store for each batch: one that DRAM was filled in before.
fn count(records: u64, (batch, cache): (usize, ReadCache), seed: u64) -> anyhow::Result<[Did; 2]> {
    let mut store = Counted::new((DISTRIBUTION, cache), records, 2 * records, seed)?;
    store.run(batch, records, |_| workload::Kind::Set)?;
    let sets = store.run(batch, records, |_| workload::Kind::Set)?;
    let gets = store.run(batch, records, |_| workload::Kind::Get)?;
    store.end()?;
    Ok([sets, gets])
}

/// H2.
pub(super) fn section_6_2_1(settings: &Settings) -> anyhow::Result<Outcome> {
    let records = u64::from(settings.records(RECORDS));
    let caches = [ReadCache::Off, ReadCache::Gated];
    let items: Vec<_> =
        caches.into_iter().flat_map(|cache| BATCHES.map(|(batch, _)| (batch, cache))).collect();
    let found = each("H2", settings.threads, &items, |item| count(records, *item, settings.seed))?;
    let (found, cached) = found.split_at(BATCHES.len());
    let mut sheet = Sheet::new(
        "H2",
        Kind::Deterministic,
        format!(
            "{}, {DISTRIBUTION}, loaded and overwritten once before as many sets, then as many gets, are counted; \
             sync; in the process's \
             memory, background work by turns and all of it counted; a burst is a fence that makes stores durable",
            sizes(records)
        ),
    );
    for ((batch, most), [sets, _]) in BATCHES.into_iter().zip(found) {
        let a_set = |count: u64| count as f64 / sets.sets as f64;
        let bursts = a_set(sets.media.writes);
        sheet.row(
            format!("PMem write bursts for one set, {batch} together; at most {most}"),
            PAPER,
            bursts,
            Holds::Judged(bursts <= most),
        );
        let no_figure = || Holds::NotJudged("the paper has no figure".into());
        sheet.row(
            format!("bytes written to PMem for one set of 72 bytes, {batch} together"),
            Figure::None,
            a_set(sets.media.write_bytes),
            no_figure(),
        );
    }
    // At scales at which DRAM holds everything there is nothing to count.
    let reads = |gets: &Did| (gets.hits[1] > 0).then(|| gets.media.reads as f64 / gets.hits[1] as f64);
    let number = |reads: Option<f64>| reads.map_or(Figure::None, Figure::Number);
    for ((batch, _), ([_, gets], [_, cached])) in BATCHES.into_iter().zip(found.iter().zip(cached)) {
        let (reads, cached) = (reads(gets), reads(cached));
        sheet.row(
            format!("reads of PMem for a get below DRAM without the read cache, {batch} together; at most {READS_MAX}"),
            1.0,
            number(reads),
            match reads {
                None => Holds::NotMeasured("at this scale DRAM holds every record".into()),
                Some(reads) => Holds::Judged(reads <= READS_MAX),
            },
        );
        sheet.row(
            format!("the same with the read cache, {batch} together: what is copied is read again"),
            Figure::None,
            number(cached),
            Holds::NotJudged("the paper has no figure".into()),
        );
    }
    Ok(Outcome { rows: sheet.into_rows(), plots: Vec::new() })
}
