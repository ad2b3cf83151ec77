//! Changes of one key and of several.
//!
//! # Thread safety
//! `verify` and `decide` run under the lock of the key's leaf, which keeps no reader waiting; a panic in them unlocks with
//! nothing changed. A change of several keys locks its leaves from left to right, so two of them never wait for each other
//! in a circle, and waits for no inner node meanwhile. Readers are shut out from just before `decide` until all is changed.
//!
//! # Invariants
//! Where `decide` runs there is room for what it may decide: an absent key has its place already, or its leaf takes it.

use super::get::address;
use super::lock::Locked;
use super::text::Text;
use super::view::{Position, View};
use super::{BTree, edit};
use crate::sync::Backoff;
use crate::{Address, Change, Key, Lookup, Verdict};

/// A locked leaf.
struct Leaf<'a> {
    lock: Locked<'a>,
    view: View<'a>,
}

impl Leaf<'_> {
    /// The raw address at a position, 0 where there is no entry or only a place.
    fn raw_at(&self, position: Position) -> u64 {
        if position.exact { self.view.address(position.below) } else { 0 }
    }
}

/// Judges the record at an address. An entry whose record isn't the key's any more counts for nothing.
fn judge(raw: u64, verify: impl FnOnce(Address) -> Verdict) -> Lookup {
    match address(raw) {
        None => Lookup::Absent,
        Some(address) => match verify(address) {
            Verdict::Match => Lookup::Found(address),
            Verdict::NeedsRead => Lookup::Unread(address),
            Verdict::Differs => Lookup::Absent,
        },
    }
}

impl BTree {
    /// Locks a text's leaf and finds it there.
    #[inline]
    fn lock_leaf(&self, text: Text<'_>) -> (Leaf<'_>, Position) {
        let backoff = Backoff::new();
        loop {
            let view = self.leaf(text);
            if let Some(lock) = Locked::at(view.node, view.version)
                && let Some(position) = view.position(text)
            {
                return (Leaf { lock, view }, position);
            }
            backoff.wait();
        }
    }

    #[inline]
    pub(super) fn change<R>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, R),
    ) -> R {
        let text = Text::new(key);
        let (mut leaf, position) = loop {
            let (leaf, position) = self.lock_leaf(text);
            if position.exact || leaf.view.takes(text) {
                break (leaf, position);
            }
            drop(leaf);
            self.place(text);
        };
        let raw = leaf.raw_at(position);
        let lookup = judge(raw, verify);
        let (change, result) = decide(lookup);
        match change {
            Change::Set(address) | Change::Insert(address) => {
                let Leaf { lock, view } = &mut leaf;
                if position.exact {
                    edit::set_address(lock, view, position.below, address.raw());
                } else {
                    edit::insert(lock, view, position.below, text, address.raw());
                }
                drop(leaf);
                if raw == 0 {
                    self.count.increment();
                }
            }
            Change::Remove => {
                assert!(lookup != Lookup::Absent, "decide answered Remove where nothing was found");
                self.take_out(leaf, position, text);
            }
            Change::Keep if position.exact && raw == 0 => self.take_out(leaf, position, text),
            Change::Keep => {}
        }
        result
    }

    /// Removes an entry, unlocks, and merges what became too small.
    fn take_out(&self, leaf: Leaf<'_>, position: Position, text: Text<'_>) {
        let counted = leaf.raw_at(position) != 0;
        let shape = edit::remove(leaf.lock, &leaf.view, position.below);
        if counted {
            self.count.decrement();
        }
        if shape.is_poor() {
            self.shrink(text);
        }
    }

    /// Swings an entry that has this very address.
    pub(super) fn swing(&self, text: Text<'_>, from: Address, to: Address) -> bool {
        let (mut leaf, position) = self.lock_leaf(text);
        if leaf.raw_at(position) != from.raw() {
            return false;
        }
        edit::set_address(&mut leaf.lock, &leaf.view, position.below, to.raw());
        true
    }

    /// Removes an entry that has this very address.
    pub(super) fn remove_exact(&self, text: Text<'_>, address: Address) -> bool {
        let (leaf, position) = self.lock_leaf(text);
        if leaf.raw_at(position) != address.raw() {
            return false;
        }
        self.take_out(leaf, position, text);
        true
    }

    pub(super) fn change_many<R>(
        &self,
        keys: &[Key<'_>],
        mut verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
    ) -> R {
        let texts: Vec<Text<'_>> = keys.iter().map(Text::new).collect();
        let (mut leaves, places) = self.lock_leaves(keys, &texts);
        let raw: Vec<u64> = places.iter().map(|&(leaf, position)| leaves[leaf].raw_at(position)).collect();
        let lookups: Vec<Lookup> =
            raw.iter().enumerate().map(|(i, &raw)| judge(raw, |address| verify(i, address))).collect();
        let mut changes = vec![Change::Keep; keys.len()];
        leaves.iter_mut().for_each(|leaf| leaf.lock.change());
        let result = decide(&lookups, &mut changes);
        let impossible =
            lookups.iter().zip(&changes).any(|(l, c)| (*l, *c) == (Lookup::Absent, Change::Remove));
        assert!(!impossible, "decide answered Remove where nothing was found");

        let mut empty = Vec::new();
        for (i, &(leaf, position)) in places.iter().enumerate() {
            let Leaf { lock, view } = &mut leaves[leaf];
            let to = match changes[i] {
                Change::Keep => raw[i],
                Change::Set(address) | Change::Insert(address) => address.raw(),
                Change::Remove => 0,
            };
            if to != raw[i] {
                edit::set_address(lock, view, position.below, to);
            }
            match (raw[i], to) {
                (0, 0) => empty.push(texts[i]),
                (0, _) => {
                    self.count.increment();
                }
                (_, 0) => {
                    self.count.decrement();
                    empty.push(texts[i]);
                }
                _ => {}
            }
        }
        drop(leaves);
        empty.into_iter().for_each(|text| self.tidy(text));
        result
    }

    /// Locks the leaves of all keys, each once, from left to right, and says where each key is. Every key has an entry, if
    /// only a place.
    fn lock_leaves(&self, keys: &[Key<'_>], texts: &[Text<'_>]) -> (Vec<Leaf<'_>>, Vec<(usize, Position)>) {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|&i| (keys[i].db, keys[i].bytes));
        let backoff = Backoff::new();
        loop {
            let mut leaves: Vec<Leaf<'_>> = Vec::new();
            let mut places = vec![(0, Position { below: 0, exact: false }); keys.len()];
            let mut missing = Vec::new();
            let complete = order.iter().all(|&i| {
                let view = self.leaf(texts[i]);
                if leaves.last().is_none_or(|last| last.view.number != view.number) {
                    let Some(lock) = Locked::at(view.node, view.version) else { return false };
                    leaves.push(Leaf { lock, view });
                }
                let Some(position) = leaves.last().and_then(|leaf| leaf.view.position(texts[i])) else {
                    return false;
                };
                if !position.exact {
                    missing.push(texts[i]);
                }
                places[i] = (leaves.len() - 1, position);
                true
            });
            if complete && missing.is_empty() {
                return (leaves, places);
            }
            drop(leaves);
            if missing.is_empty() {
                backoff.wait();
            }
            missing.into_iter().for_each(|text| self.place(text));
        }
    }

    /// Removes an entry that is only a place.
    fn tidy(&self, text: Text<'_>) {
        let (leaf, position) = self.lock_leaf(text);
        if position.exact && leaf.raw_at(position) == 0 {
            self.take_out(leaf, position, text);
        }
    }
}
