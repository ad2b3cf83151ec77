//! An index whose type is only known at run time.
//!
//! A store's engine is compiled once for each type of index that it may have. For all indexes but the default one that is
//! [`Erased`], at the price of an indirect call for each call of the index and for each record that it asks about. Background work
//! sees every index as [`AnyIndex`], borrowed: it is compiled once for all of them.

use crate::{Address, Change, Clht, Index, Key, KeyVisitor, Lookup, OrderedIndex, Verdict};

/// [`Index`] as a trait of objects.
trait Object: Send + Sync {
    fn needs_key(&self) -> bool;
    fn get(&self, key: &Key<'_>, verify: &mut dyn FnMut(Address) -> Verdict) -> Lookup;
    fn prefetch(&self, key: &Key<'_>);
    fn candidates(&self, key: &Key<'_>, visit: &mut dyn FnMut(Address));
    fn touch_batch<'k>(&self, count: usize, key: &dyn Fn(usize) -> Key<'k>, touch: &mut dyn FnMut(Address));
    fn update(
        &self,
        key: &Key<'_>,
        verify: &mut dyn FnMut(Address) -> Verdict,
        decide: &mut dyn FnMut(Lookup) -> Change,
    );
    fn update_many(
        &self,
        keys: &[Key<'_>],
        verify: &mut dyn FnMut(usize, Address) -> Verdict,
        decide: &mut dyn FnMut(&[Lookup], &mut [Change]),
    );
    fn contains(&self, key: &Key<'_>, address: Address) -> bool;
    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool;
    fn remove(&self, key: &Key<'_>, address: Address) -> bool;
    fn insert_unreadable(&self, key: &Key<'_>, address: Address);
    fn replace_unreadable(&self, key: &Key<'_>, from: Address, to: Address) -> bool;
    fn remove_unreadable(&self, key: &Key<'_>, address: Address) -> bool;
    fn visit_keys(&self, visit: &mut KeyVisitor<'_>);
    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64>;
    fn for_each(&self, visit: &mut dyn FnMut(Address));
    fn len(&self) -> u64;
    fn memory_bytes(&self) -> u64;
    fn name(&self) -> &'static str;
    fn ordered(&self) -> Option<&dyn OrderedIndex>;
}

impl<I: Index> Object for I {
    fn needs_key(&self) -> bool {
        Index::needs_key(self)
    }
    fn get(&self, key: &Key<'_>, verify: &mut dyn FnMut(Address) -> Verdict) -> Lookup {
        Index::get(self, key, verify)
    }
    fn prefetch(&self, key: &Key<'_>) {
        Index::prefetch(self, key);
    }
    fn candidates(&self, key: &Key<'_>, visit: &mut dyn FnMut(Address)) {
        Index::candidates(self, key, visit);
    }
    fn touch_batch<'k>(&self, count: usize, key: &dyn Fn(usize) -> Key<'k>, touch: &mut dyn FnMut(Address)) {
        Index::touch_batch(self, count, key, touch);
    }
    fn update(
        &self,
        key: &Key<'_>,
        verify: &mut dyn FnMut(Address) -> Verdict,
        decide: &mut dyn FnMut(Lookup) -> Change,
    ) {
        Index::update(self, key, verify, |lookup| (decide(lookup), ()));
    }
    fn update_many(
        &self,
        keys: &[Key<'_>],
        verify: &mut dyn FnMut(usize, Address) -> Verdict,
        decide: &mut dyn FnMut(&[Lookup], &mut [Change]),
    ) {
        Index::update_many(self, keys, verify, decide);
    }
    fn contains(&self, key: &Key<'_>, address: Address) -> bool {
        Index::contains(self, key, address)
    }
    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        Index::replace(self, key, from, to)
    }
    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        Index::remove(self, key, address)
    }
    fn insert_unreadable(&self, key: &Key<'_>, address: Address) {
        Index::insert_unreadable(self, key, address);
    }
    fn replace_unreadable(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        Index::replace_unreadable(self, key, from, to)
    }
    fn remove_unreadable(&self, key: &Key<'_>, address: Address) -> bool {
        Index::remove_unreadable(self, key, address)
    }
    fn visit_keys(&self, visit: &mut KeyVisitor<'_>) {
        Index::visit_keys(self, visit);
    }
    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        Index::scan(self, cursor, out)
    }
    fn for_each(&self, visit: &mut dyn FnMut(Address)) {
        Index::for_each(self, visit);
    }
    fn len(&self) -> u64 {
        Index::len(self)
    }
    fn memory_bytes(&self) -> u64 {
        Index::memory_bytes(self)
    }
    fn name(&self) -> &'static str {
        Index::name(self)
    }
    fn ordered(&self) -> Option<&dyn OrderedIndex> {
        Index::ordered(self)
    }
}

/// Some index, behind a pointer.
pub struct Erased(Box<dyn Object>);

impl Erased {
    /// Forgets an index's type.
    pub fn new(index: impl Index) -> Self {
        Self(Box::new(index))
    }
}

/// Makes empty indexes: of the type that engines are compiled for, or of another, which they reach through a pointer.
#[derive(Clone, Copy)]
pub enum MakeIndex<'a> {
    /// The hash table.
    Clht(&'a dyn Fn() -> Clht),
    /// Another.
    Other(&'a dyn Fn() -> Erased),
}

/// Some index, where it is.
#[repr(transparent)]
pub struct AnyIndex(dyn Object);

impl AnyIndex {
    /// Forgets an index's type for a while.
    #[inline]
    pub fn of(index: &impl Index) -> &Self {
        let object: *const dyn Object = index;
        // SAFETY: the representation is that of the object, which is borrowed for as long.
        unsafe { &*(object as *const Self) }
    }
}

macro_rules! is_an_index {
    ($($index:ty),*) => {$(
        impl Index for $index {
            /// It may: [`needs_key`](Index::needs_key) tells.
            const NEEDS_KEY: bool = true;

            fn needs_key(&self) -> bool {
                self.0.needs_key()
            }
            fn get(&self, key: &Key<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
                self.0.get(key, &mut verify)
            }
            fn prefetch(&self, key: &Key<'_>) {
                self.0.prefetch(key);
            }
            fn candidates(&self, key: &Key<'_>, mut visit: impl FnMut(Address)) {
                self.0.candidates(key, &mut visit);
            }
            fn touch_batch<'k>(&self, count: usize, key: impl Fn(usize) -> Key<'k>, mut touch: impl FnMut(Address)) {
                self.0.touch_batch(count, &key, &mut touch);
            }
            fn update<R>(
                &self,
                key: &Key<'_>,
                mut verify: impl FnMut(Address) -> Verdict,
                decide: impl FnOnce(Lookup) -> (Change, R),
            ) -> R {
                let mut decision = Decision::Open(decide);
                self.0.update(key, &mut verify, &mut |lookup| {
                    let mut change = Change::Keep;
                    decision.make(|decide| {
                        let result;
                        (change, result) = decide(lookup);
                        result
                    });
                    change
                });
                decision.result()
            }
            fn update_many<R>(
                &self,
                keys: &[Key<'_>],
                mut verify: impl FnMut(usize, Address) -> Verdict,
                decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
            ) -> R {
                let mut decision = Decision::Open(decide);
                self.0.update_many(keys, &mut verify, &mut |lookups, changes| {
                    decision.make(|decide| decide(lookups, changes));
                });
                decision.result()
            }
            fn contains(&self, key: &Key<'_>, address: Address) -> bool {
                self.0.contains(key, address)
            }
            fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
                self.0.replace(key, from, to)
            }
            fn remove(&self, key: &Key<'_>, address: Address) -> bool {
                self.0.remove(key, address)
            }
            fn insert_unreadable(&self, key: &Key<'_>, address: Address) {
                self.0.insert_unreadable(key, address);
            }
            fn replace_unreadable(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
                self.0.replace_unreadable(key, from, to)
            }
            fn remove_unreadable(&self, key: &Key<'_>, address: Address) -> bool {
                self.0.remove_unreadable(key, address)
            }
            fn visit_keys(&self, visit: &mut KeyVisitor<'_>) {
                self.0.visit_keys(visit);
            }
            fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
                self.0.scan(cursor, out)
            }
            fn for_each(&self, visit: &mut dyn FnMut(Address)) {
                self.0.for_each(visit);
            }
            fn len(&self) -> u64 {
                self.0.len()
            }
            fn memory_bytes(&self) -> u64 {
                self.0.memory_bytes()
            }
            fn name(&self) -> &'static str {
                self.0.name()
            }
            fn ordered(&self) -> Option<&dyn OrderedIndex> {
                self.0.ordered()
            }
        }
    )*};
}

is_an_index!(Erased, AnyIndex);

/// What is decided exactly once, through a call that could be made twice.
enum Decision<F, R> {
    Open(F),
    Made(R),
    Broken,
}

impl<F, R> Decision<F, R> {
    fn make(&mut self, make: impl FnOnce(F) -> R) {
        // Broken stays where the decision panics.
        match std::mem::replace(self, Self::Broken) {
            Self::Open(decide) => *self = Self::Made(make(decide)),
            Self::Made(_) | Self::Broken => panic!("an index decides once"),
        }
    }
    fn result(self) -> R {
        match self {
            Self::Made(result) => result,
            Self::Open(_) | Self::Broken => panic!("an index decides"),
        }
    }
}
