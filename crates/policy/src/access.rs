//! The access word: what a get leaves behind in the slot of the record that it found.
//!
//! ```text
//!   31            14 13  12 11          0
//!   | stamp:18      | seen:2 | count:12   |      count in sixteenths
//! ```
//!
//! The stamp is a tick (Eq. 1 of the paper), an epoch (counts that are halved) or a fine time (ALRU), as the policy likes.
//! It wraps: of a record that nobody touched or inspected for 2^18 steps, a too small age is computed, once.

const STAMP_MAX: u32 = (1 << 18) - 1;
const COUNT_BITS: u32 = 12;
const SEEN_SHIFT: u32 = COUNT_BITS;
const STAMP_SHIFT: u32 = COUNT_BITS + 2;
const SEEN_MAX: u32 = 3;

/// How often a record was read of late, in sixteenths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Count(u16);

impl Count {
    /// One read.
    pub const ONE: Self = Self(16);
    /// The largest that an access word holds: just under 256 reads.
    pub const MAX: Self = Self((1 << COUNT_BITS) - 1);

    /// Where counts that are halved stop. Higher ones would keep what was hot in its place for epochs after it cooled, and
    /// tell apart what is far above every threshold anyway.
    pub const COUNTED_MAX: Self = Self(8 * 16);

    /// So many sixteenths, at most [`Count::MAX`].
    #[inline]
    pub const fn sixteenths(n: u32) -> Self {
        if n > Self::MAX.0 as u32 { Self::MAX } else { Self(n as u16) }
    }
    /// So many reads, at most [`Count::MAX`].
    #[inline]
    pub const fn whole(n: u32) -> Self {
        if n > Self::MAX.0 as u32 / 16 { Self::MAX } else { Self((n * 16) as u16) }
    }
    /// In sixteenths.
    #[inline]
    pub const fn in_sixteenths(self) -> u32 {
        self.0 as u32
    }
    /// Rounded down to reads.
    #[inline]
    pub const fn floor(self) -> Self {
        Self(self.0 & !15)
    }
    /// Twice as much, at most [`Count::MAX`].
    #[inline]
    pub const fn doubled(self) -> Self {
        Self::sixteenths(self.0 as u32 * 2)
    }
}

/// Time as policies see it. It never goes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Eq. 1's clock: seconds, or a fixed number of accesses.
    pub tick: u32,
    /// How many times counts have been halved so far.
    pub epoch: u32,
    /// A finer clock, for policies that go by the last access alone.
    pub fine: u32,
}

/// The access word of a slot. What its fields mean is the policy's business; a new record's is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access(u32);

impl Access {
    /// The word as it lies in a slot.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0
    }
    /// The word that a slot holds.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
    /// A word of this stamp and count, not seen.
    #[inline]
    pub const fn new(stamp: u32, count: Count) -> Self {
        Self((stamp & STAMP_MAX) << STAMP_SHIFT | count.0 as u32)
    }
    /// The count as of the stamp.
    #[inline]
    pub const fn raw_count(self) -> Count {
        Count((self.0 & Count::MAX.0 as u32) as u16)
    }
    /// Touches since the flag was cleared last, up to 3.
    #[inline]
    pub const fn seen(self) -> u32 {
        self.0 >> SEEN_SHIFT & SEEN_MAX
    }
    /// The same word with another `seen`, at most 3.
    #[inline]
    pub const fn with_seen(self, seen: u32) -> Self {
        let seen = if seen > SEEN_MAX { SEEN_MAX } else { seen };
        Self(self.0 & !(SEEN_MAX << SEEN_SHIFT) | seen << SEEN_SHIFT)
    }
    /// Steps from the stamp to `now`, a clock of the same kind.
    #[inline]
    pub const fn age(self, now: u32) -> u32 {
        now.wrapping_sub(self.0 >> STAMP_SHIFT) & STAMP_MAX
    }
    /// Eq. 1 without its `+ 1`: the count divided by the age in ticks and one. A view: looking twice ages nothing twice.
    #[inline]
    pub const fn aged(self, tick: u32) -> Count {
        let (age, count) = (self.age(tick), self.raw_count());
        if age == 0 { count } else { Count((count.0 as u32 / (age + 1)) as u16) }
    }
    /// The count, halved once for each epoch since the stamp. A view.
    #[inline]
    pub const fn halved(self, epoch: u32) -> Count {
        let age = self.age(epoch);
        Count(self.raw_count().0 >> if age > 15 { 15 } else { age })
    }
    /// One touch more where counts are halved: count (up to [`Count::COUNTED_MAX`]), stamp and `seen`.
    #[inline]
    pub const fn counted(self, epoch: u32) -> Self {
        let count = self.halved(epoch).0 as u32 + Count::ONE.0 as u32;
        let max = Count::COUNTED_MAX.0 as u32;
        Self::new(epoch, Count::sixteenths(if count > max { max } else { count })).with_seen(self.seen() + 1)
    }
    /// Whether `new` is so different that a get should store it: another stamp, a flag more, or a count that moved by an
    /// eighth. What is held back is lost, so counts above 8 reads grow by one a stamp only: hot words are not written at
    /// every get, and how hot a record is beyond that matters to nobody.
    #[inline]
    pub const fn is_worth_storing(self, new: Self) -> bool {
        let (old_count, new_count) = (self.raw_count().0 as u32, new.raw_count().0 as u32);
        self.0 >> SEEN_SHIFT != new.0 >> SEEN_SHIFT
            || (new_count != old_count && new_count.abs_diff(old_count) * 8 >= old_count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn eq_1_divides_by_the_age_and_keeps_fractions() {
        let word = Access::new(100, Count::whole(6));
        assert_eq!(word.aged(100), Count::whole(6));
        assert_eq!(word.aged(101), Count::whole(3));
        assert_eq!(word.aged(103), Count::sixteenths(24));
        assert_eq!(word.aged(100 + 200), Count::default());
    }

    #[test]
    fn halving_is_a_shift_for_each_epoch() {
        let word = Access::new(7, Count::whole(8));
        assert_eq!(word.halved(7), Count::whole(8));
        assert_eq!(word.halved(9), Count::whole(2));
        assert_eq!(word.halved(7 + 100), Count::default());
        assert_eq!(word.counted(8).halved(8), Count::whole(5));
        assert_eq!(word.counted(7).halved(7), Count::COUNTED_MAX);
    }

    #[test]
    fn a_hot_word_is_not_written_at_every_get() {
        let mut word = Access::default();
        let mut stores = 0;
        for _ in 0..1000 {
            let new = word.counted(0);
            if word.is_worth_storing(new) {
                word = new;
                stores += 1;
            }
        }
        assert_eq!(word.raw_count(), Count::COUNTED_MAX);
        assert_eq!(stores, 8);
        assert!(word.is_worth_storing(word.counted(1)), "another stamp is always stored");
    }

    proptest! {
        #[test]
        fn fields_do_not_touch_each_other(stamp in 0..=STAMP_MAX, count in 0u32..5000, seen in 0u32..9, later in 0u32..1000) {
            let word = Access::new(stamp, Count::sixteenths(count)).with_seen(seen);
            prop_assert_eq!(word.raw_count().in_sixteenths(), count.min(4095));
            prop_assert_eq!(word.seen(), seen.min(3));
            prop_assert_eq!(word.age(stamp + later), later);
            prop_assert_eq!(Access::from_bits(word.to_bits()), word);
            prop_assert!(word.aged(stamp + later) <= word.raw_count());
            prop_assert!(word.halved(stamp + later) <= word.raw_count());
        }

        /// The stamp wraps, the age does not jump.
        #[test]
        fn ages_survive_the_wrap(stamp in any::<u32>(), later in 0u32..STAMP_MAX) {
            prop_assert_eq!(Access::new(stamp, Count::ONE).age(stamp.wrapping_add(later)), later);
        }
    }
}
