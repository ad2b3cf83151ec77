//! A line in which one bit has flipped is mended: its check tells which.

use terrace_media::ByteRegion;

use super::PmTable;
use super::line::{CHECK, Line, share};

impl Line {
    /// With the one bit set right that makes its words and its check agree; `None` if there is none.
    pub fn healed(&self, first: usize, seed: u64) -> Option<Self> {
        let wrong = self.0[CHECK] ^ self.check(first, seed);
        let with = |slot: usize, bit: u32| {
            let mut line = *self;
            line.0[slot] ^= 1 << bit;
            line
        };
        if wrong.count_ones() == 1 {
            return Some(with(CHECK, wrong.trailing_zeros()));
        }
        let bits = (first..CHECK).flat_map(|slot| (0..u64::BITS).map(move |bit| (slot, bit)));
        let mut flipped = bits.filter(|(slot, bit)| {
            let word = self.0[*slot];
            share(*slot, word) ^ share(*slot, word ^ 1 << bit) == wrong
        });
        flipped.next().map(|(slot, bit)| with(slot, bit))
    }
}

impl<R: ByteRegion> PmTable<R> {
    /// Mends a line; its stripe is locked. Whether it holds together now.
    #[cold]
    pub(super) fn heal(&self, at: u64) -> bool {
        if !self.is_line(at) {
            return false;
        }
        let (line, first) = (self.read_line(at), self.first_slot(at));
        let mut healed = match line.check(first, self.seed(at)) == line.0[CHECK] {
            true => line,
            false => match line.healed(first, self.seed(at)) {
                Some(healed) => healed,
                None => return false,
            },
        };
        if first != 0 {
            let word = self.link_word(at);
            if (healed.0[0] ^ word).count_ones() > 1 {
                return false;
            }
            healed.0[0] = word;
        }
        tracing::warn!("a bit of the index had flipped, at byte {at} of the heap; it is mended");
        self.medium.region.write_nt(self.medium.at(at), &healed.bytes());
        self.medium.region.fence();
        self.healed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whichever_bit_flips_it_is_found() {
        let mut line = Line::empty(77);
        [5, 6 << 40, 7].iter().enumerate().for_each(|(slot, word)| line.set(slot, *word));
        for slot in 0..8 {
            for bit in 0..64 {
                let mut bad = line;
                bad.0[slot] ^= 1 << bit;
                assert_eq!(bad.healed(0, 77), Some(line), "slot {slot}, bit {bit}");
            }
        }
        let mut bad = line;
        bad.0[1] ^= 3;
        assert_eq!(bad.healed(0, 77), None);
    }
}
