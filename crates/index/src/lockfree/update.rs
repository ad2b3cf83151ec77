//! Changes of one key and of several.
//!
//! # Thread safety
//! Whoever changes entries of a hash holds its stripe, so those entries stay until it changes them. What happens in the list
//! itself (swinging links, marking, taking out) is lock-free: writers of other stripes and readers never wait for it.
//! `verify` and `decide` run under the stripe; a panic in them unlocks with nothing changed.
//!
//! # Invariants
//! - An entry is deleted by its mark, and the thread whose swing takes its node out of the list gives the node back, once.
//! - Readers of the keys of an `update_many` are shut out from just before `decide` until all is changed.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use super::LockFree;
use super::probe::{Found, Pass};
use super::walk::{Hit, Place};
use super::word::Word;
use crate::{Address, Change, Key, Lookup, Verdict};

impl LockFree {
    #[inline]
    pub(super) fn change<R>(
        &self,
        key: &Key<'_>,
        mut verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, R),
    ) -> R {
        let _locked = self.stripes.lock(key.hash);
        let found = self.look_up(key.hash, &mut verify);
        let (change, result) = decide(found.lookup);
        self.apply(key.hash, found, change);
        result
    }

    /// Applies a change to what was found. Needs the stripe.
    fn apply(&self, hash: u64, found: Found<'_>, change: Change) {
        match (change, found.hit) {
            (Change::Keep, _) => {}
            (Change::Set(address), Some(hit)) => hit.node.address.store(address.raw(), Release),
            (Change::Set(address), None) | (Change::Insert(address), _) => {
                self.insert(hash, address, found.end)
            }
            (Change::Remove, Some(hit)) => self.delete(hash, &hit),
            (Change::Remove, None) => panic!("decide answered Remove where nothing was found"),
        }
    }

    /// Adds an entry behind all others of its hash. Needs the stripe.
    fn insert(&self, hash: u64, address: Address, mut end: Option<Place<'_>>) {
        let number = self.nodes.take();
        let node = self.nodes.get(number);
        node.position.store(hash.reverse_bits(), Release);
        node.address.store(address.raw(), Release);
        loop {
            let place = match end.take() {
                Some(place) => place,
                None => match self.pass(hash, |_| None::<()>) {
                    Pass::Complete(place) => place,
                    Pass::Stopped(()) | Pass::Disturbed => continue,
                },
            };
            let link = Word(node.link.load(Acquire));
            node.link.store(link.to_target_of(place.word).0, Release);
            if place.swing(place.word.to_node(number)) {
                return self.count_insert();
            }
        }
    }

    /// Deletes an entry. Needs the stripe.
    pub(super) fn delete(&self, hash: u64, hit: &Hit<'_>) {
        let mut link = Word(hit.node.link.load(Acquire));
        loop {
            debug_assert!(!link.is_marked(), "only the stripe's holder marks");
            match hit.node.link.compare_exchange(link.0, link.marked().0, AcqRel, Acquire) {
                Ok(_) => break,
                // Something was put in or taken out behind it.
                Err(now) => link = Word(now),
            }
        }
        self.count.decrement();
        if hit.place.swing(hit.place.word.to_target_of(link)) {
            self.nodes.give_back(hit.number);
        } else {
            // Something else changed before it: a pass comes by and takes it out, if nobody has.
            while let Pass::Disturbed = self.pass(hash, |_| None::<()>) {}
        }
    }

    pub(super) fn change_many<R>(
        &self,
        keys: &[Key<'_>],
        mut verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
    ) -> R {
        let mut locked = self.stripes.lock_many(keys.iter().map(|key| key.hash));
        let look_up = |(i, key): (usize, &Key<'_>)| self.look_up(key.hash, &mut |a| verify(i, a)).lookup;
        let lookups: Vec<Lookup> = keys.iter().enumerate().map(look_up).collect();
        let mut changes = vec![Change::Keep; keys.len()];
        locked.exclude_readers();
        let result = decide(&lookups, &mut changes);
        let impossible =
            lookups.iter().zip(&changes).any(|(l, c)| (*l, *c) == (Lookup::Absent, Change::Remove));
        assert!(!impossible, "decide answered Remove where nothing was found");

        for ((key, &lookup), &change) in keys.iter().zip(&lookups).zip(&changes) {
            // Of two keys with one unread candidate the first may have taken it away.
            let hit = match lookup {
                Lookup::Absent => None,
                Lookup::Found(address) | Lookup::Unread(address) => self.find(key.hash, address),
            };
            if hit.is_some() || change != Change::Remove {
                self.apply(key.hash, Found { lookup, hit, end: None }, change);
            }
        }
        result
    }
}
