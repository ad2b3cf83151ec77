//! Linear hashing's arithmetic: which bucket a hash belongs to, given only the number of buckets.
//!
//! With `n` buckets and `d = floor(log2 n)`, the first `n - 2^d` buckets have been split: they and their buddies
//! (numbers from `2^d`) are told apart by `d + 1` bits of the hash, the others by `d`. So the number of buckets is
//! the whole state (level and split pointer), and one atomic word publishes a split.

/// The bucket of a hash among `buckets` (at least 1).
#[inline]
pub fn bucket_of(hash: u64, buckets: u64) -> u64 {
    debug_assert!(buckets > 0);
    // `| 1` leaves the highest bit where it is and spares the compiler the case of 0.
    let mask = u64::MAX >> (buckets | 1).leading_zeros();
    let bucket = hash & mask;
    if bucket < buckets { bucket } else { bucket & (mask >> 1) }
}

/// How many low bits of the hash tell this bucket from all others.
pub fn depth_of(bucket: u64, buckets: u64) -> u32 {
    debug_assert!(bucket < buckets);
    let depth = buckets.ilog2();
    let low = bucket & !(u64::MAX << depth);
    if low < buckets - (1 << depth) { depth + 1 } else { depth }
}

/// The bucket that splits next; its buddy will be number `buckets`, told from it by bit `floor(log2 buckets)`.
pub fn next_split(buckets: u64) -> u64 {
    buckets - (1 << buckets.ilog2())
}

/// The next cursor after a bucket of this depth, counting in reversed bits; 0 after the last.
///
/// In the order of reversed bits a bucket covers one contiguous range of hashes, and a split cuts that range in two.
/// So a cursor stays on a boundary whatever is split between two steps.
pub fn next_cursor(cursor: u64, depth: u32) -> u64 {
    let above = u64::MAX.checked_shl(depth).unwrap_or(0);
    (cursor | above).reverse_bits().wrapping_add(1).reverse_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_moves_only_entries_of_the_split_bucket() {
        for n in 1..200u64 {
            for hash in (0..2000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let (old, new) = (bucket_of(hash, n), bucket_of(hash, n + 1));
                assert!(old < n);
                if new != old {
                    assert_eq!((old, new), (next_split(n), n));
                }
                let goes = hash >> n.ilog2() & 1 == 1;
                assert_eq!(old == next_split(n) && goes, new == n);
            }
        }
    }

    #[test]
    fn the_cursor_visits_every_bucket_once() {
        for n in 1..300u64 {
            let mut seen = vec![0; n as usize];
            let mut cursor = 0;
            loop {
                let bucket = bucket_of(cursor, n);
                seen[bucket as usize] += 1;
                cursor = next_cursor(cursor, depth_of(bucket, n));
                if cursor == 0 {
                    break;
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "{n} buckets: {seen:?}");
        }
    }

    #[test]
    fn the_cursor_covers_every_hash_while_buckets_split() {
        // After a step the reversed hashes below the reversed cursor are done: none twice, none left out.
        for start in 1..40u64 {
            let (mut n, mut cursor, mut done) = (start, 0u64, 0u128);
            loop {
                let bucket = bucket_of(cursor, n);
                let depth = depth_of(bucket, n);
                let from = bucket.reverse_bits() as u128;
                assert_eq!(from, done, "a step starts where the last one ended");
                done = from + (1u128 << (64 - depth));
                cursor = next_cursor(cursor, depth);
                n += 3;
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(done, 1 << 64);
        }
    }
}
