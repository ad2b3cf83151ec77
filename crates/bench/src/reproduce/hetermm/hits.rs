//! H3: gets that DRAM answers, beside the best that any fixed choice of records could give. Counted.

use anyhow::ensure;

use super::super::sheet::Sheet;
use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Row, Settings, Shape, each};
use super::counted::Counted;
use super::{DRAM_PERCENT, data_bytes, dram_bytes, sizes};
use crate::Distribution;
use crate::distribution::{YCSB_EXPONENT, static_optimum};
use crate::workload::Workload;

const RECORDS: u32 = 1_000_000;
/// Operations before those that are counted, and these, in numbers of records.
const WARM: u64 = 1;
const COUNTED: u64 = 1;
const BATCH: usize = 16;
/// A true Zipf, which the rows are asked of, and YCSB's, which the paper very probably used.
const ZIPF: Distribution = Distribution::Zipfian(YCSB_EXPONENT);
/// The paper's hits in DRAM without a read cache, percent.
const PAPER: f64 = 18.0;

/// What is run, and the paper's figure. Writes bring hot records into DRAM: there it names none.
const CASES: [(Workload, Distribution, Option<f64>); 4] = [
    (Workload::ReadOnly, ZIPF, Some(PAPER)),
    (Workload::ReadOnly, Distribution::Ycsb, Some(PAPER)),
    (Workload::ReadHeavy, ZIPF, None),
    (Workload::WriteHeavy, ZIPF, None),
];

/// Percent.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Of gets.
    hits: f64,
    /// Of records that DRAM holds at the end.
    held: f64,
}

fn count(workload: Workload, distribution: Distribution, records: u64, seed: u64) -> anyhow::Result<Found> {
    let mut store = Counted::new(distribution, records, (WARM + COUNTED) * records, seed)?;
    store.run(BATCH, WARM * records, |rng| workload.draw(rng))?;
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
    let found = each("H3", settings.threads, &items, |((workload, distribution, _), seed)| {
        count(*workload, *distribution, records, *seed)
    })?;
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    for ((workload, distribution, paper), found) in
        CASES.into_iter().zip(found.chunks(settings.runs as usize))
    {
        let of = |figure: fn(&Found) -> f64| Interval::of(&found.iter().map(figure).collect::<Vec<_>>());
        let (hits, held) = (of(|found| found.hits), of(|found| found.held));
        rows.extend(case((workload, distribution, paper), records, hits, held));
        groups.push((format!("{}, {distribution}", workload.name()), vec![hits.mean]));
    }
    // The read cache's place: as soon as the engine has one, the cases above switch it off, and two rows of read-only
    // gets belong here, "with the paper's policy" (the paper: 70%; simulated, that takes 3.5 gets a record, more than
    // `WARM`) and "with the default".
    let plot = Plot {
        file: "H3-hits".into(),
        title: "Gets that DRAM answers, without a read cache".into(),
        y: "percent".into(),
        shape: Shape::Bars { parts: vec!["hits".into()], groups },
    };
    Ok(Outcome { rows, plots: vec![plot] })
}

fn case(
    (workload, distribution, paper): (Workload, Distribution, Option<f64>),
    records: u64,
    hits: Interval,
    held: Interval,
) -> Vec<Row> {
    let name = workload.name().to_uppercase();
    let mut sheet = Sheet::new(
        "H3",
        Kind::Deterministic,
        format!(
            "{name}, {distribution}, {}; {COUNTED} x as many operations after {WARM} x, in batches of {BATCH}; in \
             the process's memory, \
             background work by turns; no read cache",
            sizes(records)
        ),
    );
    let share = dram_bytes(records) as f64 / data_bytes(records) as f64;
    let no_figure = || Holds::NotJudged("the paper has no figure".into());
    let holds = match paper {
        None => no_figure(),
        Some(_) if 100.0 * share > DRAM_PERCENT => {
            Holds::NotJudged("at this scale DRAM is more than a quarter of the records".into())
        }
        Some(paper) => Holds::Judged(hits.mean >= paper),
    };
    sheet.row(
        format!("{name}, {distribution}: gets answered from DRAM, %"),
        paper.map_or(Figure::None, Figure::Number),
        hits,
        holds,
    );
    sheet.row(format!("{name}, {distribution}: records that DRAM held, %"), Figure::None, held, no_figure());
    if let Some(best) = static_optimum(distribution, records, share) {
        let best = 100.0 * best;
        sheet.row(
            format!(
                "{name}, {distribution}: the best that fixed records in that DRAM give, %; of it ours, %"
            ),
            Figure::None,
            format!("{best:.1}; {:.1}", 100.0 * hits.mean / best),
            no_figure(),
        );
    }
    sheet.into_rows()
}
