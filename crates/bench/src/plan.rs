//! The operations of the measured phase, drawn before the clock starts.

use crate::Config;
use crate::distribution::Generator;
use crate::rng::Rng;
use crate::workload::{Kind, SCAN_RECORDS_MAX};

/// One planned operation: the kind in the top bits, then the length of a scan, the record below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned(u64);

const RECORD_BITS: u32 = 53;
const LENGTH_BITS: u32 = 8;

impl Planned {
    /// An operation on a record.
    pub fn new(kind: Kind, record: u64) -> Self {
        debug_assert!(record >> RECORD_BITS == 0);
        Self((kind as u64) << (RECORD_BITS + LENGTH_BITS) | record)
    }
    /// A scan of so many records, from this one's key on.
    pub fn scan(record: u64, length: u64) -> Self {
        debug_assert!(length >> LENGTH_BITS == 0);
        Self(Self::new(Kind::Scan, record).0 | length << RECORD_BITS)
    }
    /// What to do.
    #[inline]
    pub fn kind(self) -> Kind {
        Kind::ALL[(self.0 >> (RECORD_BITS + LENGTH_BITS)) as usize]
    }
    /// To which record.
    #[inline]
    pub fn record(self) -> u64 {
        self.0 & ((1 << RECORD_BITS) - 1)
    }
    /// How many records a scan reads at most.
    #[inline]
    pub fn length(self) -> u64 {
        self.0 >> RECORD_BITS & ((1 << LENGTH_BITS) - 1)
    }
}

/// The inserts by which one thread loads its part of the records.
pub fn load(config: &Config, thread: usize) -> impl Iterator<Item = Planned> + use<> {
    share(config.records, config.threads, thread).map(|record| Planned::new(Kind::Insert, record))
}

/// One thread's operations of the measured phase. The same seed and options give the same operations, whatever the timing.
pub fn measured(config: &Config, thread: usize) -> Vec<Planned> {
    let (mine, threads) = (thread as u64, config.threads as u64);
    let mut rng = Rng::new(config.seed, 1 + mine);
    let mut generator = Generator::new(config.distribution(), config.records, config.seed, mine, threads);
    let mut inserted = 0;
    share(config.operations, config.threads, thread)
        .map(|_| match config.workload.draw(&mut rng) {
            Kind::Insert => {
                let record = config.records + mine + inserted * threads;
                inserted += 1;
                generator.inserted();
                Planned::new(Kind::Insert, record)
            }
            Kind::Scan => {
                let record = generator.draw(&mut rng);
                Planned::scan(record, 1 + rng.below(SCAN_RECORDS_MAX))
            }
            kind => Planned::new(kind, generator.draw(&mut rng)),
        })
        .collect()
}

/// A thread's contiguous part of `0..total`.
pub fn share(total: u64, threads: usize, thread: usize) -> std::ops::Range<u64> {
    let bound = |thread: usize| (u128::from(total) * thread as u128 / threads as u128) as u64;
    bound(thread)..bound(thread + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;

    fn config(workload: Workload) -> Config {
        Config { workload, records: 1000, operations: 10_001, threads: 3, ..Config::default() }
    }

    #[test]
    fn threads_share_all_and_only_the_load() {
        let config = config(Workload::A);
        let mut records: Vec<u64> = (0..3).flat_map(|t| load(&config, t)).map(Planned::record).collect();
        records.sort_unstable();
        assert!(records.iter().copied().eq(0..1000));
        assert_eq!((0..3).map(|t| measured(&config, t).len()).sum::<usize>(), 10_001);
    }

    #[test]
    fn a_seed_repeats_and_threads_differ() {
        let config = config(Workload::F);
        assert_eq!(measured(&config, 0), measured(&config, 0));
        assert_ne!(measured(&config, 0)[..100], measured(&config, 1)[..100]);
        assert_ne!(measured(&Config { seed: 2, ..config.clone() }, 0), measured(&config, 0));
    }

    #[test]
    fn scans_have_every_length() {
        let config = config(Workload::ScanHeavy);
        let plan = measured(&config, 0);
        let scans = plan.iter().filter(|planned| planned.kind() == Kind::Scan);
        let lengths: std::collections::BTreeSet<u64> = scans.map(|planned| planned.length()).collect();
        assert!(lengths.into_iter().eq(1..=SCAN_RECORDS_MAX));
        assert!(plan.iter().all(|planned| planned.record() < 1000));
    }

    #[test]
    fn what_is_read_was_inserted_before_by_the_same_thread_or_loaded() {
        let config = config(Workload::D);
        for thread in 0..3 {
            let mut there = std::collections::HashSet::new();
            for planned in measured(&config, thread) {
                match planned.kind() {
                    Kind::Insert => assert!(there.insert(planned.record()), "inserted twice"),
                    _ => assert!(planned.record() < 1000 || there.contains(&planned.record())),
                }
            }
            assert!(there.len() > 100, "5% inserts");
        }
    }
}
