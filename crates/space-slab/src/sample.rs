//! Thresholds of temperature, for a policy or a gate that goes by them: every 64th part of N accesses 4096 records are sampled,
//! by share (paper, 4.3).
//!
//! Records in DRAM by slots drawn at random; those below by entries of the table of their words. Of what is not there nobody has
//! read anything of late.

use terrace_blocks::Lower;
use terrace_engine::space::Context;

use crate::space::SlabSpace;
use terrace_policy::Histogram;

/// Records whose counts make a histogram.
const SAMPLES: u64 = 4096;
/// Histograms in as many accesses as there are records.
const SAMPLINGS: u64 = 64;

/// When it was sampled last, what was found, and where next.
#[derive(Default)]
pub(crate) struct Sampling {
    /// Accesses then.
    at: u64,
    random: u64,
    histogram: Histogram,
}

impl Sampling {
    /// A number below `bound`.
    fn draw(&mut self, bound: usize) -> usize {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.random >> 32) * bound as u64) >> 32) as usize
    }
}

impl<L: Lower> SlabSpace<L> {
    /// One step: new thresholds, if they are due. `above`, `below`: records in DRAM, and others.
    pub(crate) fn sample_step(&self, sampling: &mut Sampling, above: u64, below: u64, context: &dyn Context) {
        if !self.options.eviction.asks_for_thresholds() {
            return;
        }
        let (accesses, all) = (self.temperature.accesses(), above + below);
        if all == 0 || accesses.saturating_sub(sampling.at) < (all / SAMPLINGS).max(1) {
            return;
        }
        // Nobody has a slab yet: until then policy and gate go by what they began with.
        let Some(fit) = self.fit_in_dram() else { return };
        sampling.at = accesses;
        sampling.histogram.clear();
        let samples = SAMPLES.min(all);
        self.sample_above(sampling, samples * above / all, context);
        self.sample_below(sampling, samples * below / all, below);
        let middle = self.middle.as_ref().map_or(0, |middle| middle.slabs.taken_slots().0);
        let share = |records: usize| (records as f64 / all as f64).min(1.0);
        self.policy.set_thresholds(sampling.histogram.thresholds(share(fit), share(middle)));
    }

    /// How many records DRAM holds once it is full, if free slabs go to the class that has most.
    fn fit_in_dram(&self) -> Option<usize> {
        let slabs = &self.slabs;
        let mut of_class = vec![0; slabs.classes.count()];
        (0..slabs.count() as u32)
            .filter_map(|slab| slabs.class_of(slab))
            .for_each(|class| of_class[class] += 1);
        let most =
            (0..of_class.len()).max_by_key(|&class| of_class[class]).filter(|&class| of_class[class] > 0)?;
        let slots = |class: usize, count: usize| slabs.slots_in(class) * count;
        let held: usize = of_class.iter().enumerate().map(|(class, &count)| slots(class, count)).sum();
        Some(held + slots(most, slabs.free_slabs()))
    }

    fn sample_above(&self, sampling: &mut Sampling, samples: u64, context: &dyn Context) {
        let slabs = &self.slabs;
        let used: Vec<(u32, usize)> = (0..slabs.count() as u32)
            .filter_map(|slab| Some((slab, slabs.class_of(slab)?)))
            .filter(|&(slab, _)| slabs.used_slots(slab) > 0)
            .collect();
        let now = self.temperature.now();
        let (mut left, mut draws) = (samples, if used.is_empty() { 0 } else { 4 * samples });
        while left > 0 && draws > 0 {
            draws -= 1;
            let (slab, class) = used[sampling.draw(used.len())];
            // Of each slab as many as of another one: a slot that it does not have is a draw in vain.
            let number = sampling.draw(slabs.slots_in(class)) as u32;
            if number >= slabs.used_slots(slab) {
                continue;
            }
            let offset = slabs.offset(slab, class, number);
            let slot = slabs.slot(offset);
            if slot.is_live() {
                sampling.histogram.add(self.policy.count(slot.access(), now));
                left -= 1;
                // A put over a record below leaves its word there: it would count twice.
                self.temperature.enters(self.hash_of(offset, context));
            }
        }
    }

    fn sample_below(&self, sampling: &mut Sampling, samples: u64, below: u64) {
        let Some(table) = self.temperature.words_below() else { return };
        let now = self.temperature.now();
        // As many draws as make each entry as likely as its record would be among all that are below.
        let draws = samples * table.capacity() as u64 / below.max(1);
        let mut left = samples;
        for _ in 0..draws {
            let number = sampling.draw(table.capacity());
            if let Some(access) = table.nth(number).filter(|_| left > 0) {
                sampling.histogram.add(self.policy.count(access, now));
                left -= 1;
            }
        }
        let others = self.options.eviction.count_of_the_unread();
        for _ in 0..left {
            sampling.histogram.add(others);
        }
    }
}
