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
use super::probe::Spot;
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
        let mut spots: [Option<Spot<'_>>; N] = [None; N];
        for (key, spot) in keys.iter().zip(&mut spots) {
            let found = self.spot(key.hash, ground);
            prefetch(found.bucket());
            *spot = Some(found);
        }
        let mut firsts: [Option<Address>; N] = [None; N];
        let mut overflows = [0; N];
        let mut any_overflows = 0;
        for (i, (key, spot)) in keys.iter().zip(spots).enumerate() {
            let Some(spot) = spot else { continue };
            let start = self.start_at(spot, ground, key.hash);
            firsts[i] = self.first(&start);
            match firsts[i] {
                Some(address) => touch(address),
                None => {
                    overflows[i] = self.overflow(&start);
                    any_overflows |= overflows[i];
                }
            }
        }
        if any_overflows != 0 {
            for (i, key) in keys.iter().enumerate() {
                if overflows[i] != 0 {
                    firsts[i] = self.first_in_overflow(key.hash, overflows[i]);
                    match firsts[i] {
                        Some(address) => touch(address),
                        None => self.visit_candidates(key.hash, &mut *touch),
                    }
                }
            }
        }
        for (i, (key, first)) in keys.iter().zip(firsts).enumerate() {
            out[i] = match first {
                Some(address) if verify(i, address) == Verdict::Match => Lookup::Found(address),
                _ => self.probe(key, |address| verify(i, address)),
            };
        }
    }
}
