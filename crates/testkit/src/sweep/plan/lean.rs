//! What a history does more of, for a while: alone, even mixtures never fill a store or empty it.

use terrace_media_sim::Rng;

/// Percentages, or what else the name says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lean {
    pub deletes: u64,
    pub expiries: u64,
    /// Values that are extents.
    pub large: u64,
    pub atomic: u64,
    /// Conditional writes, and writes that answer the old value.
    pub conditions: u64,
    /// Of 200 steps.
    pub restarts: u64,
    pub jumps: u64,
    /// Of 300 operations.
    pub flushes: u64,
    /// Background steps in one go, at most.
    pub background: u64,
    pub keys: u64,
    /// Each batch is one operation and answered before the next step: a full store may refuse any of them.
    pub settles: bool,
}

impl Lean {
    /// The next one, of a history that is of large values for the most part, or not.
    pub fn of(rng: &mut Rng, large: bool) -> Self {
        let lean = Self::new(rng);
        if !large {
            return lean;
        }
        // Values that stay long enough for their blocks to move twice, and steps enough for that.
        Self { large: 50, deletes: 5, expiries: 0, flushes: 0, background: 6, ..lean }
    }

    fn new(rng: &mut Rng) -> Self {
        let mut one_of = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
        let lean = Self {
            deletes: one_of(&[5, 15, 40]),
            expiries: one_of(&[0, 8, 25]),
            large: one_of(&[0, 4, 15]),
            atomic: one_of(&[0, 6, 20]),
            conditions: one_of(&[0, 15, 50]),
            restarts: one_of(&[0, 0, 2, 6]),
            jumps: one_of(&[0, 2, 6]),
            flushes: one_of(&[0, 0, 0, 1, 4]),
            background: one_of(&[1, 3, 6]),
            keys: one_of(&[3, 6, 12, 16]),
            settles: false,
        };
        match rng.below(6) {
            // Fills the store until it refuses or evicts.
            0 => Self { large: 70, deletes: 2, expiries: 0, flushes: 0, keys: 16, settles: true, ..lean },
            // Little but deletions, of everything: tombstones, and room again.
            1 => Self { large: 0, deletes: 75, keys: 16, ..lean },
            // A mixture in a store that is rather full.
            2 => Self { large: 30, deletes: 25, keys: 16, settles: true, ..lean },
            _ => lean,
        }
    }
}
