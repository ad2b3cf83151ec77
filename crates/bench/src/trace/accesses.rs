//! The accesses of a simulation, drawn once and given to every policy alike.

use crate::Distribution;
use crate::distribution::Generator;
use crate::rng::Rng;

const SET: u32 = 1 << 31;

/// One access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AccessTo {
    pub(crate) record: u32,
    pub(crate) is_set: bool,
}

/// Gets and sets in their order.
#[derive(Clone, Debug)]
pub(crate) struct Trace(Vec<u32>);

impl Trace {
    /// Draws `steady` accesses, then `shifted` with another hot set: record numbers turned by half of all.
    pub(crate) fn draw(
        distribution: Distribution,
        records: u32,
        sets_percent: f64,
        steady: usize,
        shifted: usize,
        seed: u64,
    ) -> Self {
        let generator = Generator::new(distribution, u64::from(records), seed, 0, 1);
        let (mut keys, mut kinds) = (Rng::new(seed, 1), Rng::new(seed, 2));
        let draw = |i| {
            let drawn = generator.draw(&mut keys) as u32;
            let record = if i < steady {
                drawn
            } else {
                ((u64::from(drawn) + u64::from(records / 2)) % u64::from(records)) as u32
            };
            record | if kinds.unit() * 100.0 < sets_percent { SET } else { 0 }
        };
        Self((0..steady + shifted).map(draw).collect())
    }
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = AccessTo> + ExactSizeIterator {
        self.0.iter().map(|&word| AccessTo { record: word & !SET, is_set: word & SET != 0 })
    }
    pub(crate) fn first(&self, accesses: usize) -> Self {
        Self(self.0[..accesses.min(self.0.len())].to_vec())
    }
    #[cfg(test)]
    pub(crate) fn of(accesses: &[(u32, bool)]) -> Self {
        Self(accesses.iter().map(|&(record, is_set)| record | if is_set { SET } else { 0 }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_what_was_asked_for() {
        let trace = Trace::draw(Distribution::Zipfian(0.99), 1000, 5.0, 20_000, 20_000, 1);
        let sets = trace.iter().filter(|access| access.is_set).count();
        assert!((1800..2200).contains(&sets), "{sets} sets of 40000");
        let hottest = |from: usize| {
            let mut counts = [0; 1000];
            trace.iter().skip(from).take(20_000).for_each(|access| counts[access.record as usize] += 1);
            (0..1000).max_by_key(|&record| counts[record]).unwrap()
        };
        assert_eq!((hottest(0) + 500) % 1000, hottest(20_000));
        assert!(
            trace.iter().eq(Trace::draw(Distribution::Zipfian(0.99), 1000, 5.0, 20_000, 20_000, 1).iter())
        );
    }
}
