//! Which hashes were evicted of late: S3-FIFO's ghost queue without a queue.

const WAYS: usize = 4;

/// A table of hashes, each with the number of the eviction that put it there; a newer one takes the oldest's place.
#[derive(Clone, Debug, Default)]
pub struct Ghost {
    entries: Vec<(u32, u32)>,
    /// Evictions so far; an entry of 0 is empty.
    evictions: u32,
}

impl Ghost {
    fn bucket(&self, hash: u32) -> std::ops::Range<usize> {
        let buckets = self.entries.len() / WAYS;
        let at = ((u64::from(hash) * buckets as u64) >> 32) as usize * WAYS;
        at..at + WAYS
    }
    /// Makes room for the memory of this many evictions; what is known is forgotten when it has to grow.
    pub(super) fn reserve(&mut self, evictions: usize) {
        let wanted = (evictions * 2).next_power_of_two().max(WAYS);
        if self.entries.len() < wanted {
            self.entries = vec![(0, 0); wanted];
        }
    }
    pub(super) fn insert(&mut self, hash: u32) {
        if self.entries.is_empty() {
            return;
        }
        self.evictions = self.evictions.wrapping_add(1).max(1);
        let bucket = self.bucket(hash);
        let now = self.evictions;
        if let Some(oldest) = self.entries[bucket]
            .iter_mut()
            .max_by_key(|entry| if entry.1 == 0 { u32::MAX } else { now.wrapping_sub(entry.1) })
        {
            *oldest = (hash, now);
        }
    }
    /// Whether the hash was among the last `within` evictions; if so it is forgotten.
    pub(super) fn take(&mut self, hash: u32, within: usize) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let (bucket, now) = (self.bucket(hash), self.evictions);
        for entry in &mut self.entries[bucket] {
            if entry.1 != 0 && entry.0 == hash {
                let known = (now.wrapping_sub(entry.1) as usize) < within;
                *entry = (0, 0);
                return known;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u32) -> u32 {
        i.wrapping_mul(0x9E37_79B1)
    }

    #[test]
    fn remembers_the_last_ones_only() {
        let mut ghost = Ghost::default();
        assert!(!ghost.take(hash(1), 100), "an empty ghost knows nothing");
        ghost.reserve(100);
        (0..1000).for_each(|i| ghost.insert(hash(i)));
        assert!((0..900).all(|i| !ghost.take(hash(i), 100)));
        let known = (900..1000).filter(|&i| ghost.take(hash(i), 100)).count();
        assert!(known > 90, "{known} of the last 100");
        assert!(!ghost.take(hash(999), 100), "taken once");
    }
}
