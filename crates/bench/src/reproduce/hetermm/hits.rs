//! H3: gets that DRAM answers, beside the best that any fixed choice of records could give. Counted.

use std::num::NonZeroU32;

use anyhow::ensure;
use terrace::ReadCache;

use super::super::sheet::Sheet;
use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Row, Settings, Shape, each};
use super::counted::Counted;
use super::{DRAM_PERCENT, data_bytes, dram_bytes, sizes};
use crate::Distribution;
use crate::distribution::{YCSB_EXPONENT, static_optimum};
use crate::workload::Workload;

const RECORDS: u32 = 1_000_000;
/// Operations that are counted, in numbers of records.
const COUNTED: u64 = 1;
const BATCH: usize = 16;
/// A true Zipf, which the rows are asked of, and YCSB's, which the paper very probably used.
const ZIPF: Distribution = Distribution::Zipfian(YCSB_EXPONENT);
/// The paper's sample: one of so many reads below DRAM.
const SAMPLED: ReadCache = ReadCache::Sampled(NonZeroU32::new(100).unwrap());

/// What is run.
#[derive(Clone, Copy, Debug)]
struct Case {
    workload: Workload,
    distribution: Distribution,
    cache: ReadCache,
    /// Operations before those that are counted, in numbers of records.
    warm: u64,
    figure: Asked,
}

/// What there is to compare with, percent.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Paper(f64),
    Aim(f64),
    Nothing,
}

const fn case(
    workload: Workload,
    distribution: Distribution,
    cache: ReadCache,
    (warm, figure): (u64, Asked),
) -> Case {
    Case { workload, distribution, cache, warm, figure }
}

/// Without a read cache, with the paper's, and with the default. Writes bring hot records into DRAM: there the paper has no figure. Those of
/// `ycsb` are the same shares of the best that fixed records give.
const CASES: [Case; 10] = [
    case(Workload::ReadOnly, ZIPF, ReadCache::Off, (1, Asked::Paper(18.0))),
    case(Workload::ReadOnly, Distribution::Ycsb, ReadCache::Off, (1, Asked::Paper(18.0))),
    case(Workload::ReadHeavy, ZIPF, ReadCache::Off, (1, Asked::Nothing)),
    case(Workload::WriteHeavy, ZIPF, ReadCache::Off, (1, Asked::Nothing)),
    case(Workload::ReadOnly, ZIPF, SAMPLED, (4, Asked::Paper(70.0))),
    case(Workload::ReadOnly, Distribution::Ycsb, SAMPLED, (4, Asked::Aim(50.8))),
    case(Workload::ReadOnly, ZIPF, ReadCache::Gated, (5, Asked::Aim(86.0))),
    case(Workload::ReadOnly, Distribution::Ycsb, ReadCache::Gated, (5, Asked::Aim(62.4))),
    case(Workload::ReadHeavy, ZIPF, ReadCache::Gated, (1, Asked::Nothing)),
    case(Workload::WriteHeavy, ZIPF, ReadCache::Gated, (1, Asked::Nothing)),
];

/// Percent.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Of gets.
    hits: f64,
    /// Of records that DRAM holds at the end.
    held: f64,
}

fn count(case: &Case, records: u64, seed: u64) -> anyhow::Result<Found> {
    let Case { workload, distribution, cache, warm, .. } = *case;
    // As many as are written, and some more.
    let writes = if workload == Workload::ReadOnly { 0 } else { (warm + COUNTED) * records };
    let mut store = Counted::new((distribution, cache), records, writes, seed)?;
    store.run(BATCH, warm * records, |rng| workload.draw(rng))?;
    let did = store.run(BATCH, COUNTED * records, |rng| workload.draw(rng))?;
    let held = store.held()?;
    store.end()?;
    let [dram, below] = did.hits;
    ensure!(dram + below == did.gets, "{dram} and {below} hits are not {} gets", did.gets);
    Ok(Found { hits: 100.0 * dram as f64 / did.gets as f64, held })
}

/// H3.
pub(super) fn figure_14(settings: &Settings) -> anyhow::Result<Outcome> {
    let records = u64::from(settings.records(RECORDS));
    let items: Vec<_> =
        CASES.into_iter().flat_map(|case| settings.seeds().map(move |seed| (case, seed))).collect();
    let found = each("H3", settings.threads, &items, |(case, seed)| count(case, records, *seed))?;
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    for (case, found) in CASES.iter().zip(found.chunks(settings.runs as usize)) {
        let of = |figure: fn(&Found) -> f64| Interval::of(&found.iter().map(figure).collect::<Vec<_>>());
        let (hits, held) = (of(|found| found.hits), of(|found| found.held));
        rows.extend(rows_of(case, records, hits, held));
        groups.push((case.name(), vec![hits.mean]));
    }
    let plot = Plot {
        file: "H3-hits".into(),
        title: "Gets that DRAM answers".into(),
        y: "percent".into(),
        shape: Shape::Bars { parts: vec!["hits".into()], groups },
    };
    Ok(Outcome { rows, plots: vec![plot] })
}

impl Case {
    fn name(&self) -> String {
        let cache = match self.cache {
            ReadCache::Off => "no read cache".to_owned(),
            cache => format!("read cache {cache}"),
        };
        format!("{}, {}, {cache}", self.workload.name().to_uppercase(), self.distribution)
    }
}

fn rows_of(case: &Case, records: u64, hits: Interval, held: Interval) -> Vec<Row> {
    let name = case.name();
    let mut sheet = Sheet::new(
        "H3",
        Kind::Deterministic,
        format!(
            "{name}, {}; {COUNTED} x as many operations after {} x, in batches of {BATCH}; in the process's memory, \
             background work by turns",
            sizes(records),
            case.warm
        ),
    );
    let share = dram_bytes(records) as f64 / data_bytes(records) as f64;
    let no_figure = || Holds::NotJudged("the paper has no figure".into());
    let (paper, least) = match case.figure {
        Asked::Paper(percent) => (Figure::Number(percent), Some(percent)),
        Asked::Aim(percent) => (Figure::None, Some(percent)),
        Asked::Nothing => (Figure::None, None),
    };
    let holds = match least {
        None => no_figure(),
        Some(_) if 100.0 * share > DRAM_PERCENT => {
            Holds::NotJudged("at this scale DRAM is more than a quarter of the records".into())
        }
        Some(least) => Holds::Judged(hits.mean >= least),
    };
    let aim = match case.figure {
        Asked::Aim(percent) => format!("; at least {percent}"),
        _ => String::new(),
    };
    sheet.row(format!("{name}: gets answered from DRAM, %{aim}"), paper, hits, holds);
    sheet.row(
        format!("{name}: records that DRAM held, copies not counted, %"),
        Figure::None,
        held,
        no_figure(),
    );
    if let Some(best) = static_optimum(case.distribution, records, share) {
        let best = 100.0 * best;
        sheet.row(
            format!("{name}: the best that fixed records in that DRAM give, %; of it ours, %"),
            Figure::None,
            format!("{best:.1}; {:.1}", 100.0 * hits.mean / best),
            no_figure(),
        );
    }
    sheet.into_rows()
}
