//! An index made of a map that keeps keys.
//!
//! # Thread safety
//! Updates hold the lock of their key's stripe; see `stripes`. `verify` and `decide` run under it, and a panic in them unlocks
//! with nothing changed. Readers take no lock, but for a record that turned out to be another's: then the entry was just
//! replaced (or its record is damaged), and one look under the lock tells.
//!
//! # Invariants
//! The map has one entry a key, so [`Change::Insert`] is the same as [`Change::Set`]: an unread candidate is the key's own.

use std::ops::ControlFlow;

use super::map::Map;
use super::name::Name;
use super::stripes::{Odd, Stripe, Stripes};
use crate::cursors::Cursors;
use crate::{Address, Change, Index, Key, KeyVisitor, Lookup, OrderedIndex, Verdict};

/// The index `M::NAME`.
pub struct Striped<M> {
    pub(super) map: M,
    stripes: Stripes,
    pub(super) cursors: Cursors,
}

impl<M: Map> Striped<M> {
    /// An empty index over an empty map.
    pub fn new(map: M) -> Self {
        Self { map, stripes: Stripes::new(), cursors: Cursors::default() }
    }
    #[inline]
    fn stripe(&self, key: &Key<'_>) -> &Stripe {
        self.stripes.get(Stripes::number(key.hash))
    }
    #[inline]
    fn read(&self, key: &Key<'_>) -> Option<Address> {
        let name = Name::of(key);
        self.stripe(key).read(|| self.map.get(&name))
    }
    /// What the address that was read without a lock says.
    #[inline]
    fn settle(
        &self,
        key: &Key<'_>,
        address: Option<Address>,
        mut verify: impl FnMut(Address) -> Verdict,
    ) -> Lookup {
        match address.map(|address| (verify(address), address)) {
            None => Lookup::Absent,
            Some((Verdict::Match, address)) => Lookup::Found(address),
            Some((Verdict::NeedsRead, address)) => Lookup::Unread(address),
            Some((Verdict::Differs, _)) => {
                let _lock = self.stripe(key).lock.lock();
                self.look_up(&Name::of(key), verify).1
            }
        }
    }
    /// The entry's address and what its record says. The caller holds the lock, so a record that differs is not one that was
    /// just replaced: its entry counts as absent, and what is set takes its place.
    fn look_up(&self, name: &[u8], mut verify: impl FnMut(Address) -> Verdict) -> (Option<Address>, Lookup) {
        let Some(address) = self.map.get(name) else { return (None, Lookup::Absent) };
        let lookup = match verify(address) {
            Verdict::Match => Lookup::Found(address),
            Verdict::NeedsRead => Lookup::Unread(address),
            Verdict::Differs => Lookup::Absent,
        };
        (Some(address), lookup)
    }
    fn apply(&self, stripe: &Stripe, name: &[u8], old: Option<Address>, change: Change) {
        match change {
            Change::Keep => {}
            Change::Set(address) | Change::Insert(address) => {
                self.map.set(name, address);
                if old.is_none() {
                    stripe.came(name);
                }
            }
            Change::Remove => {
                self.map.remove(name);
                stripe.went(name);
            }
        }
    }
}

fn check(lookup: Lookup, change: Change) {
    let impossible = (lookup, change) == (Lookup::Absent, Change::Remove);
    assert!(!impossible, "decide answered Remove where nothing was found");
}

impl<M: Map> Index for Striped<M> {
    const NEEDS_KEY: bool = true;

    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup {
        self.settle(key, self.read(key), verify)
    }

    fn prefetch(&self, _key: &Key<'_>) {}

    fn candidates(&self, key: &Key<'_>, visit: impl FnMut(Address)) {
        self.read(key).into_iter().for_each(visit);
    }

    fn get_batch(
        &self,
        keys: &[Key<'_>],
        mut touch: impl FnMut(Address),
        mut verify: impl FnMut(usize, Address) -> Verdict,
        out: &mut [Lookup],
    ) {
        assert!(out.len() >= keys.len(), "one answer for each key");
        for (key, out) in keys.iter().zip(&mut *out) {
            *out = self.read(key).map_or(Lookup::Absent, |address| {
                touch(address);
                Lookup::Unread(address)
            });
        }
        for (i, key) in keys.iter().enumerate() {
            if let Lookup::Unread(address) = out[i] {
                out[i] = self.settle(key, Some(address), |address| verify(i, address));
            }
        }
    }

    fn update<R>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, R),
    ) -> R {
        let (name, stripe) = (Name::of(key), self.stripe(key));
        let _lock = stripe.lock.lock();
        let (old, lookup) = self.look_up(&name, verify);
        let (change, result) = decide(lookup);
        check(lookup, change);
        self.apply(stripe, &name, old, change);
        result
    }

    fn update_many<R>(
        &self,
        keys: &[Key<'_>],
        mut verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
    ) -> R {
        let mut numbers: Vec<usize> = keys.iter().map(|key| Stripes::number(key.hash)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let stripes: Vec<&Stripe> = numbers.iter().map(|&number| self.stripes.get(number)).collect();
        let _locks: Vec<_> = stripes.iter().map(|stripe| stripe.lock.lock()).collect();
        let names: Vec<Name> = keys.iter().map(Name::of).collect();
        let (olds, lookups): (Vec<_>, Vec<_>) =
            names.iter().enumerate().map(|(i, name)| self.look_up(name, |a| verify(i, a))).unzip();
        let mut changes = vec![Change::Keep; keys.len()];
        let result = decide(&lookups, &mut changes);
        lookups.iter().zip(&changes).for_each(|(&lookup, &change)| check(lookup, change));
        let _odd: Vec<Odd<'_>> = stripes.iter().map(|stripe| Odd::new(stripe)).collect();
        for (i, key) in keys.iter().enumerate() {
            self.apply(self.stripe(key), &names[i], olds[i], changes[i]);
        }
        result
    }

    fn contains(&self, key: &Key<'_>, address: Address) -> bool {
        self.read(key) == Some(address)
    }

    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        let (name, stripe) = (Name::of(key), self.stripe(key));
        let _lock = stripe.lock.lock();
        let there = self.map.get(&name) == Some(from);
        if there {
            self.map.set(&name, to);
        }
        there
    }

    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        let (name, stripe) = (Name::of(key), self.stripe(key));
        let _lock = stripe.lock.lock();
        let there = self.map.get(&name) == Some(address);
        if there {
            self.apply(stripe, &name, Some(address), Change::Remove);
        }
        there
    }

    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        Some(super::ordered::scan(self.map.ordered()?, &self.cursors, cursor, out))
    }

    fn for_each(&self, visit: &mut dyn FnMut(Address)) {
        self.map.for_each(&mut |_, address| visit(address));
    }

    fn visit_keys(&self, visit: &mut KeyVisitor<'_>) {
        let mut flow = ControlFlow::Continue(());
        self.map.for_each(&mut |name, address| {
            if flow.is_continue() {
                flow = visit(name[0], &name[1..], address);
            }
        });
    }

    fn len(&self) -> u64 {
        self.stripes.sums().0
    }

    fn memory_bytes(&self) -> u64 {
        let (entries, name_bytes) = self.stripes.sums();
        let fixed = size_of::<Self>() as u64 + self.stripes.memory_bytes() + self.cursors.memory_bytes();
        fixed + entries * M::ENTRY_BYTES + name_bytes
    }

    fn name(&self) -> &'static str {
        M::NAME
    }

    fn ordered(&self) -> Option<&dyn OrderedIndex> {
        self.map.ordered().is_some().then_some(self)
    }
}

impl<M: Map + Default> Default for Striped<M> {
    fn default() -> Self {
        Self::new(M::default())
    }
}

impl<M: Map> std::fmt::Debug for Striped<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({} entries)", M::NAME, self.len())
    }
}
