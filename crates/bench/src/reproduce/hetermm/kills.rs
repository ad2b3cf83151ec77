//! H5: kills, after which every record must be as it was answered last, and how fast the store is open again.

use super::super::sheet::Sheet;
use super::super::{Figure, Holds, Interval, Kind, Outcome, Settings, each, shared_memory};
use super::kept::{Kept, PROFILE};
use super::sizes;
use crate::distribution::{Distribution, Generator, YCSB_EXPONENT};
use crate::rng::Rng;

const RECORDS: u32 = 500_000;
/// The paper's, and the fewest at any scale.
const KILLS: u32 = 50;
const KILLS_LEAST: u32 = 4;
/// Of so many records one is written between two kills.
const RECORDS_A_WRITE: u64 = 10;
/// Million records a second a thread: what is asked of ours, and what the paper has, from 4 to 14 s for 200 million on
/// 16.
const LEAST: f64 = 2.0;
const PAPER: &str = "0.9 to 3.1";
/// Recovery's threads, one kill after the other.
const THREADS: [usize; 2] = [1, 2];

/// What the kills gave: by number of threads million records a second a thread, and records that were lost.
struct Found {
    rates: [Vec<f64>; THREADS.len()],
    lost: u64,
}

fn count(records: u64, kills: u32, seed: u64) -> anyhow::Result<Found> {
    let writes = records / RECORDS_A_WRITE;
    let mut kept = Kept::new(records, writes * u64::from(kills), seed)?;
    kept.load()?;
    let generator = Generator::new(Distribution::Zipfian(YCSB_EXPONENT), records, seed, 0, 1);
    let mut rng = Rng::new(seed, 1);
    let mut found = Found { rates: Default::default(), lost: 0 };
    for (threads, kill) in THREADS.into_iter().enumerate().cycle().zip(0..kills) {
        // Not always after a whole number of batches.
        let writes = (0..writes + u64::from(kill)).map(|_| generator.draw(&mut rng));
        let (took, lost) = kept.round(threads.1, writes)?;
        let rate = records as f64 / took.as_secs_f64() / threads.1 as f64 / 1e6;
        if let Some(rates) = found.rates.get_mut(threads.0) {
            rates.push(rate);
        }
        found.lost += lost;
    }
    Ok(found)
}

/// H5.
pub(super) fn section_6_3_2(settings: &Settings) -> anyhow::Result<Outcome> {
    const WHAT: &str = "kills after which a record was not as it was answered last";
    if let Some(outcome) = shared_memory::outcome_without("H5", WHAT, 0.0, Kind::Deterministic) {
        return Ok(outcome);
    }
    let records = u64::from(settings.records(RECORDS));
    let kills = ((f64::from(KILLS) * settings.scale).round() as u32).clamp(KILLS_LEAST, KILLS);
    let found = each("H5", 1, &[settings.seed], |seed| count(records, kills, *seed))?;
    let [found] = &found[..] else { anyhow::bail!("a run was lost") };
    let setting = format!(
        "{}, in shared memory, sync; {kills} times ended as by a kill (in this process: no signal) with a batch \
         under way, after sets of a \
         tenth of the records, zipfian:{YCSB_EXPONENT}; each time every record is read",
        sizes(records)
    );
    let mut counted = Sheet::new("H5", Kind::Deterministic, setting.clone());
    counted.row(
        format!("records that were not as answered last, after all of {kills} kills; the paper: all were recovered"),
        0.0,
        found.lost as f64,
        Holds::Judged(found.lost == 0),
    );
    let mut timed = Sheet::new("H5", Kind::Emulated, format!("{setting}; emulated: profile {PROFILE}"));
    for (threads, rates) in THREADS.into_iter().zip(&found.rates) {
        let ours = Interval::of(rates);
        timed.row(
            format!(
                "million records a second a thread from the opening's start to its end, recovery on {threads}; at \
                 least {LEAST}"
            ),
            if threads == 1 { PAPER.into() } else { Figure::from(format!("{PAPER} (16 threads)")) },
            ours,
            Holds::Judged(ours.mean >= LEAST),
        );
    }
    let mut rows = counted.into_rows();
    rows.extend(timed.into_rows());
    Ok(Outcome { rows, plots: Vec::new() })
}
