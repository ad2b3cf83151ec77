//! Memory beyond what the store counts: gaps of the allocator, clients' buffers. Where records lie on the heap, as in the engine `dram`,
//! the store gets as much less as keeps the process within what is allowed over the budget.
//!
//! ```text
//!                                        budget       allowed
//!     |---------------------------------|-----|------------|
//!      records, index | buffers' part   | beyond them    '-- what of it passes 3/4 of what is allowed over the budget is withheld
//!                                                            from records
//! ```

/// What a process may take over its budget: the larger of these.
const OVER_PERCENT: u64 = 5;
const OVER_BYTES: u64 = 16 << 20;
/// What was beyond counts less and less: at each look, by so large a part of what is not there any more. Bursts come again, and are over
/// before anything is evicted for them.
const FORGOTTEN: u64 = 1024;
/// However large a burst is, the store keeps all but so large a part of its budget.
const MOST: u64 = 4;

/// What the store does not get of its budget.
#[derive(Default)]
pub(crate) struct Withheld {
    /// The most that lay beyond what the store counts, lately.
    beyond: u64,
    bytes: u64,
}

impl Withheld {
    /// The process has so many bytes of anonymous memory, of which so many are records and index or budgeted for buffers: what the store
    /// does not get from now on, if that has changed.
    pub fn look(&mut self, has: u64, counted: u64, budget: u64) -> Option<u64> {
        let allowed = (budget / 100 * OVER_PERCENT).max(OVER_BYTES);
        let beyond = has.saturating_sub(counted);
        let gone = self.beyond.saturating_sub(beyond);
        self.beyond = beyond.max(self.beyond - gone.div_ceil(FORGOTTEN));
        let bytes = self.beyond.saturating_sub(allowed / 4 * 3).min(budget / MOST);
        let changed = bytes != self.bytes;
        self.bytes = bytes;
        changed.then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_others_take_the_store_does_not_get_until_it_is_free_again() {
        let mut withheld = Withheld::default();
        let budget = 128 * MIB;
        assert_eq!(withheld.look(112 * MIB, 100 * MIB, budget), None);
        assert_eq!(withheld.look(115 * MIB, 100 * MIB, budget), Some(3 * MIB));
        assert_eq!(withheld.look(135 * MIB, 120 * MIB, budget), None);
        let mut left = 3 * MIB;
        while let Some(bytes) = withheld.look(130 * MIB, 120 * MIB, budget) {
            assert!(bytes < left);
            left = bytes;
        }
        assert_eq!(left, 0);
    }

    #[test]
    fn a_burst_leaves_the_store_most_of_its_budget() {
        let most = |budget| Withheld::default().look(u64::MAX, 0, budget);
        assert_eq!(most(128 * MIB), Some(32 * MIB));
        assert_eq!(most(1000 * MIB), Some(250 * MIB));
    }
}
