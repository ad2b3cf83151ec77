//! Where an element falls: a register, and the length of its run of zeros.

/// Registers of a HyperLogLog.
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// Bits of the hash beyond the register's number: a run is at most one longer.
pub(super) const RUN_BITS: u32 = 64 - INDEX_BITS;
/// Redis's.
const SEED: u64 = 0xadc8_3b19;

/// The register that counts this element, and the value that it has at least from then on.
pub(super) fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur(element);
    let index = hash as usize % REGISTERS;
    // The bit above the rest ends the longest run.
    let rest = hash >> INDEX_BITS | 1 << RUN_BITS;
    (index, rest.trailing_zeros() as u8 + 1)
}

/// MurmurHash64A.
fn murmur(bytes: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> R;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ word).wrapping_mul(M);
    }
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> R
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The registers are those in which redis-server counts these elements (`PFDEBUG DECODE`).
    #[test]
    fn elements_fall_where_redis_puts_them() {
        let mut places = [b"a", b"b", b"c"].map(|element| place(element));
        places.sort_unstable();
        assert_eq!(places, [(8436, 1), (12711, 2), (15780, 1)]);
        assert_eq!(place(b""), place(b""));
    }
}
