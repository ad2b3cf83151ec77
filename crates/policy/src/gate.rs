//! Who may enter a tier that has to let another go.

use super::{Count, Thresholds, Tier};

/// Decides on a record that was read below `tier`.
pub trait Gate: Send + Sync + 'static {
    /// As users name it.
    const NAME: &'static str;
    /// Whether a record of this count goes up, if the tier's next victim (none if there is room) has that of `rival`.
    fn admits(&self, tier: Tier, count: Count, rival: Option<Count>, thresholds: &Thresholds) -> bool;
    /// Whether it looks at `rival`. Then what leaves DRAM has to beat PMem's next victim, too, or goes straight to the SSD.
    const COMPARES: bool = false;
}

/// Whatever is read goes up: what a chain of caches does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everyone;

impl Gate for Everyone {
    const NAME: &'static str = "all";
    fn admits(&self, _tier: Tier, _count: Count, _rival: Option<Count>, _thresholds: &Thresholds) -> bool {
        true
    }
}

/// The paper's: what is hot goes to DRAM, what is warm to PMem.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hot;

impl Gate for Hot {
    const NAME: &'static str = "hot";
    fn admits(&self, tier: Tier, count: Count, _rival: Option<Count>, thresholds: &Thresholds) -> bool {
        count > if tier == Tier::Dram { thresholds.hot } else { thresholds.warm }
    }
}

/// TinyLFU's, with a margin: only what was read half as often again as the record that would have to go, this read not
/// counted. Whoever was just read has one read more than at any other time; without the margin, equals would change
/// places for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beats;

impl Gate for Beats {
    const NAME: &'static str = "beats";
    const COMPARES: bool = true;
    fn admits(&self, _tier: Tier, count: Count, rival: Option<Count>, _thresholds: &Thresholds) -> bool {
        rival.is_none_or(|rival| {
            let rival = rival.in_sixteenths();
            count.in_sixteenths() > rival + rival / 2 + Count::ONE.in_sixteenths()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_let_in_whom_they_should() {
        let thresholds = Thresholds { hot: Count::whole(5), warm: Count::whole(2) };
        let hot = |tier, count| Hot.admits(tier, Count::whole(count), Some(Count::default()), &thresholds);
        assert!(hot(Tier::Dram, 6) && !hot(Tier::Dram, 5) && hot(Tier::Pmem, 3) && !hot(Tier::Pmem, 2));
        let beats = |count, rival: Option<u32>| {
            Beats.admits(Tier::Dram, Count::whole(count), rival.map(Count::whole), &thresholds)
        };
        assert!(beats(5, Some(2)) && !beats(4, Some(2)) && beats(0, None));
        assert!(beats(2, Some(0)) && !beats(1, Some(0)), "the read that asks is not counted");
        assert!(Everyone.admits(Tier::Dram, Count::default(), Some(Count::MAX), &thresholds));
    }
}
