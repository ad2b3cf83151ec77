//! Simulations one after the other.

use indicatif::{ProgressBar, ProgressStyle};
use terrace_policy::{Now, Tier as Name};

use super::accesses::Trace;
use super::cold::Cold;
use super::homes::Homes;
use super::inclusive::Inclusive;
use super::store::{Counts, Store};
use super::tier::Tier;
use super::{HALVE_ACCESSES, Options, Row, Setup, Shares, belady};
use crate::Distribution;
use crate::distribution::Optimum;

/// Thresholds are computed this often in as many accesses as there are records.
const SAMPLINGS: u64 = 64;
/// The window in which hits are looked at after the hot set has moved, in as many accesses as there are records.
const WINDOWS: u64 = 20;
/// ALRU's clock steps so often in as many accesses as there are records.
const FINE_STEPS: u64 = 4096;

/// A bar of as many steps as there are simulations.
pub(super) fn bar(options: &Options) -> ProgressBar {
    let simulations = options.distributions.len() * options.shares.len() * options.setups.len();
    let bar = ProgressBar::new(simulations as u64);
    if let Ok(style) = ProgressStyle::with_template("{msg:32} {bar:40} {pos}/{len} eta {eta}") {
        bar.set_style(style);
    }
    bar
}

pub(super) fn all(options: &Options, bar: &ProgressBar) -> Vec<Row> {
    let mut rows = Vec::new();
    for &distribution in &options.distributions {
        let of = |lengths: f64| (lengths * f64::from(options.records)) as usize;
        let (warm, steady) = (of(options.warm), of(options.warm) + of(options.measured));
        let trace = Trace::draw(
            distribution,
            options.records,
            options.sets_percent,
            steady,
            of(options.shifted),
            options.seed,
        );
        let optimum = Optimum::new(distribution, u64::from(options.records));
        for &shares in &options.shares {
            let bounds = Bounds::new(options, &optimum, distribution, &trace.first(steady), warm, shares);
            for setup in &options.setups {
                bar.set_message(format!("{distribution} {setup}"));
                rows.push(bounds.row(
                    options,
                    setup,
                    &Simulation { options, setup, trace: &trace, warm, steady, shares },
                ));
                bar.inc(1);
            }
        }
    }
    rows
}

fn slots(options: &Options, share: f64) -> u32 {
    (f64::from(options.records) * share / 100.0).round() as u32
}

/// What is possible.
struct Bounds {
    distribution: Distribution,
    shares: Shares,
    optimum: [f64; 2],
    belady: [f64; 2],
}

impl Bounds {
    fn new(
        options: &Options,
        optimum: &Optimum,
        distribution: Distribution,
        trace: &Trace,
        warm: usize,
        shares: Shares,
    ) -> Self {
        let both = [shares.dram, shares.dram + shares.pmem];
        let gets = trace.iter().skip(warm).filter(|access| !access.is_set).count();
        let belady = |share| {
            let hits = belady::hits(trace, options.records, slots(options, share) as usize, warm);
            percent(hits, gets as u64)
        };
        Self {
            distribution,
            shares,
            optimum: both.map(|share| 100.0 * optimum.at(share / 100.0).unwrap_or(f64::NAN)),
            belady: if shares.pmem > 0.0 { both.map(belady) } else { [belady(shares.dram); 2] },
        }
    }

    fn row(&self, options: &Options, setup: &Setup, simulation: &Simulation<'_>) -> Row {
        let Outcome { counts, accesses, back_after } = simulation.outcome();
        Row {
            distribution: self.distribution.to_string(),
            records: options.records,
            sets: options.sets_percent,
            dram_share: self.shares.dram,
            pmem_share: self.shares.pmem,
            setup: setup.to_string(),
            dram_hits: percent(counts.dram_hits, counts.gets),
            pmem_hits: percent(counts.pmem_hits, counts.gets),
            optimum_dram: round(self.optimum[0], 2),
            optimum_both: round(self.optimum[1], 2),
            belady_dram: self.belady[0],
            belady_both: self.belady[1],
            moves_up: round(counts.moves_up as f64 / accesses as f64, 4),
            moves_down: round(counts.moves_down as f64 / accesses as f64, 4),
            back_after,
        }
    }
}

fn round(value: f64, digits: i32) -> f64 {
    (value * 10f64.powi(digits)).round() / 10f64.powi(digits)
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { round(100.0 * part as f64 / whole as f64, 2) }
}

/// What a placement has to do for a simulation.
pub(super) trait Placement {
    fn get(&mut self, record: u32, now: Now);
    fn set(&mut self, record: u32, now: Now);
    fn sample(&mut self, now: Now);
    fn halve(&mut self);
    fn counts(&mut self) -> &mut Counts;
}

#[derive(Clone, Copy)]
struct Simulation<'a> {
    options: &'a Options,
    setup: &'a Setup,
    trace: &'a Trace,
    warm: usize,
    steady: usize,
    shares: Shares,
}

struct Outcome {
    counts: Counts,
    accesses: usize,
    back_after: Option<f64>,
}

impl Simulation<'_> {
    fn outcome(&self) -> Outcome {
        let Options { records, stores_all, .. } = *self.options;
        let tier = |name, slots| Tier::new(self.setup.policy(name, slots), slots, stores_all);
        let gate = self.setup.gate();
        let cold = if self.setup.sketch { Cold::sketch(records) } else { Cold::table(records) };
        let (dram, pmem) = (slots(self.options, self.shares.dram), slots(self.options, self.shares.pmem));
        match self.setup.placement {
            "anti-2" => {
                let pool = tier(Name::Pmem, dram + pmem);
                self.run(
                    Store::new(pool, tier(Name::Pmem, 0), cold, gate, records)
                        .pooled(dram, self.options.seed),
                )
            }
            "anti-nvm" if pmem > 0 => {
                self.run(Inclusive::new(tier(Name::Dram, dram), tier(Name::Pmem, pmem), cold, gate, records))
            }
            "tac-homes" if pmem > 0 => {
                self.run(Homes::new(tier(Name::Dram, dram), tier(Name::Pmem, pmem), cold, gate, records))
            }
            placement => {
                let store = Store::new(tier(Name::Dram, dram), tier(Name::Pmem, pmem), cold, gate, records);
                self.run(if placement == "tac-buf" { store.with_bufs() } else { store })
            }
        }
    }

    fn run(&self, mut store: impl Placement) -> Outcome {
        let records = u64::from(self.options.records);
        let clock = Clock::new(self.options, self.shares);
        for record in 0..self.options.records {
            store.set(record, Now::default());
        }
        let window = (records / WINDOWS).max(1) as usize;
        let (mut steady, mut last, mut back_after) = (Counts::default(), Counts::default(), None);
        for (i, access) in self.trace.iter().enumerate() {
            let now = clock.at(i as u64);
            if self.setup.uses_thresholds() && (i as u64).is_multiple_of((records / SAMPLINGS).max(1)) {
                store.sample(now);
            }
            if now.epoch != clock.at((i as u64).saturating_sub(1)).epoch {
                store.halve();
            }
            if i == self.warm {
                *store.counts() = Counts::default();
            }
            if i == self.steady {
                steady = *store.counts();
                last = steady;
            }
            if access.is_set {
                store.set(access.record, now);
            } else {
                store.get(access.record, now);
            }
            let after = i + 1 - self.steady.min(i + 1);
            if back_after.is_none() && after > 0 && after.is_multiple_of(window) {
                let counts = *store.counts();
                let share = |counts: Counts, since: Counts| {
                    (counts.dram_hits - since.dram_hits) as f64 / (counts.gets - since.gets).max(1) as f64
                };
                if share(counts, last) >= 0.95 * share(steady, Counts::default()) {
                    back_after = Some(round(after as f64 / records as f64, 2));
                }
                last = counts;
            }
        }
        if self.trace.len() == self.steady {
            steady = *store.counts();
        }
        Outcome { counts: steady, accesses: self.steady - self.warm, back_after }
    }
}

/// Time in accesses.
struct Clock {
    tick: u64,
    epoch: u64,
    fine: u64,
}

impl Clock {
    fn new(options: &Options, shares: Shares) -> Self {
        let records = u64::from(options.records);
        let epoch = match options.halve_every {
            Some(lengths) => f64::from(options.records) * lengths,
            None => f64::from(slots(options, shares.dram)) * HALVE_ACCESSES,
        };
        Self {
            tick: (records / u64::from(options.ticks)).max(1),
            epoch: (epoch as u64).max(1),
            fine: (records / FINE_STEPS).max(1),
        }
    }
    fn at(&self, access: u64) -> Now {
        Now {
            tick: (access / self.tick) as u32,
            epoch: (access / self.epoch) as u32,
            fine: (access / self.fine) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_halved_as_often_as_dram_is_small() {
        let epochs = |halve_every, dram| {
            let options = Options { records: 10_000, halve_every, ..Options::default() };
            let clock = Clock::new(&options, Shares { dram, pmem: 50.0 });
            [2_499, 2_500, 19_999, 20_000].map(|access| clock.at(access).epoch)
        };
        assert_eq!(epochs(None, 1.0), [0, 1, 7, 8], "25 accesses for each of 100 records");
        assert_eq!(epochs(None, 8.0), [0, 0, 0, 1], "as often as every 2 N");
        assert_eq!(epochs(Some(0.25), 8.0), [0, 1, 7, 8], "unless told otherwise");
    }
}
