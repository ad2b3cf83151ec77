//! Look-ups of several keys in passes: buckets are prefetched, then records (of every sixth key or so an overflow bucket and
//! then the record), then all is verified.
//!
//! # Thread safety
//! As a probe's. Each answer was right at some moment during the call, not all of them at the same.
//!
//! # Why no entry is looked for twice
//! The passes remember what they found, and the last only verifies it: the entry was there during the call, so a match
//! is an answer. What is not as simple (nothing at first glance, another key's entry, a record that must be read) probes
//! again from the start.

use super::Clht;
use super::bucket::Bucket;
use super::probe::Ground;
use crate::memory::prefetch;
use crate::{Address, Key, Lookup, Verdict};

/// Keys that wait for memory together.
const GROUP: usize = 64;
/// Most batches are small: a group of these spares the initialisation of the large one.
const SMALL_GROUP: usize = 16;

impl Clht {
    /// Answers each key.
    #[inline]
    pub(super) fn probe_batch(
        &self,
        keys: &[Key<'_>],
        touch: &mut impl FnMut(Address),
        verify: &mut impl FnMut(usize, Address) -> Verdict,
        out: &mut [Lookup],
    ) {
        assert!(out.len() >= keys.len(), "one answer for each key");
        if keys.len() <= SMALL_GROUP {
            return self.probe_group::<SMALL_GROUP>(keys, touch, verify, out);
        }
        for (group, (keys, out)) in keys.chunks(GROUP).zip(out.chunks_mut(GROUP)).enumerate() {
            let mut verify = |i, address| verify(group * GROUP + i, address);
            self.probe_group::<GROUP>(keys, touch, &mut verify, out);
        }
    }

    /// Answers at most `N` keys.
    #[inline]
    fn probe_group<const N: usize>(
        &self,
        keys: &[Key<'_>],
        touch: &mut impl FnMut(Address),
        verify: &mut impl FnMut(usize, Address) -> Verdict,
        out: &mut [Lookup],
    ) {
        let ground = self.ground();
        let mut buckets = [self.segments.get(0); N];
        let buckets = &mut buckets[..keys.len()];
        for (key, bucket) in keys.iter().zip(buckets.iter_mut()) {
            *bucket = self.bucket(key.hash, ground);
            prefetch(*bucket);
        }
        let mut firsts: [Option<Address>; N] = [None; N];
        let firsts = &mut firsts[..keys.len()];
        self.touch_group::<N>(keys, ground, |i| buckets[i], firsts, touch);
        for (i, ((key, first), out)) in keys.iter().zip(&*firsts).zip(out).enumerate() {
            *out = match *first {
                Some(address) if verify(i, address) == Verdict::Match => Lookup::Found(address),
                _ => self.probe(key, |address| verify(i, address)),
            };
        }
    }

    /// Tells the likeliest candidate of each key; buckets were prefetched before.
    #[inline]
    pub(super) fn touch_keys(
        &self,
        count: usize,
        hash: impl Fn(usize) -> u64,
        touch: &mut impl FnMut(Address),
    ) {
        // Keys with nothing in the bucket's own line but a chain of overflow buckets: which, and the number of the first.
        let (mut chains, mut chained) = ([(0u32, 0u32); SMALL_GROUP], 0);
        let ground = self.ground();
        for i in 0..count {
            let hash = hash(i);
            let start = self.start_at(self.bucket(hash, ground), ground, hash);
            match self.first(&start) {
                Some(address) => touch(address),
                None => {
                    let number = self.overflow(&start);
                    if number != 0
                        && let Some(chain) = chains.get_mut(chained)
                    {
                        self.pool.prefetch(number);
                        *chain = (i as u32, number);
                        chained += 1;
                    }
                }
            }
        }
        for &(i, number) in &chains[..chained] {
            let hash = hash(i as usize);
            match self.first_in_overflow(hash, number) {
                Some(address) => touch(address),
                None => self.visit_candidates(hash, &mut *touch),
            }
        }
    }

    /// Finds the first candidate of at most `N` keys and tells it.
    #[inline]
    fn touch_group<'a, const N: usize>(
        &'a self,
        keys: &[Key<'_>],
        ground: Ground,
        bucket: impl Fn(usize) -> &'a Bucket,
        firsts: &mut [Option<Address>],
        touch: &mut impl FnMut(Address),
    ) {
        // Keys with nothing in the bucket's own line but a chain of overflow buckets: which, and the number of the first.
        let (mut chains, mut chained) = ([(0u32, 0u32); N], 0);
        for (i, (key, first)) in keys.iter().zip(&mut *firsts).enumerate() {
            let start = self.start_at(bucket(i), ground, key.hash);
            *first = self.first(&start);
            if let Some(address) = *first {
                touch(address);
            } else {
                let number = self.overflow(&start);
                if number != 0 {
                    self.pool.prefetch(number);
                    chains[chained] = (i as u32, number);
                    chained += 1;
                }
            }
        }
        for &(i, number) in &chains[..chained] {
            let i = i as usize;
            firsts[i] = self.first_in_overflow(keys[i].hash, number);
            match firsts[i] {
                Some(address) => touch(address),
                None => self.visit_candidates(keys[i].hash, &mut *touch),
            }
        }
    }
}
