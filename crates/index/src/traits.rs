//! What every index promises.

use std::num::NonZeroU64;
use std::ops::{Bound, ControlFlow};

use crate::Snapshot;

/// Where a record lives, as the space that owns it understands it: 48 bits, never 0.
///
/// An index stores it and hands it back; it never interprets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(NonZeroU64);

impl Address {
    /// The number of bits an index must keep.
    pub const BITS: u32 = 48;

    /// An address from its 48 bits.
    ///
    /// # Panics
    /// If `raw` is 0 or needs more than 48 bits.
    #[inline]
    pub fn new(raw: u64) -> Self {
        let Some(address) = Self::from_raw(raw) else {
            panic!("address {raw:#x} is 0 or wider than 48 bits")
        };
        address
    }
    /// An address from its 48 bits; `None` if `raw` is 0 or needs more.
    #[inline]
    pub fn from_raw(raw: u64) -> Option<Self> {
        if raw >> Self::BITS != 0 {
            return None;
        }
        NonZeroU64::new(raw).map(Self)
    }
    /// The 48 bits.
    #[inline]
    pub fn raw(self) -> u64 {
        self.0.get()
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "@{:#x}", self.0)
    }
}

/// A key as an index sees it.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// 64 well-mixed bits of database and key.
    pub hash: u64,
    /// The database, 0 to 15.
    pub db: u8,
    /// The bytes, any length, any content. Empty where the caller knows only the hash, which only an index without
    /// [`NEEDS_KEY`](Index::NEEDS_KEY) takes.
    pub bytes: &'a [u8],
}

/// What a space says when asked whether the record at an address belongs to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Match,
    /// It belongs to another key.
    Differs,
    /// The record is on a device: only a read can tell.
    NeedsRead,
}

/// The outcome of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// No record of this key.
    Absent,
    /// The key's record, verified.
    Found(Address),
    /// No candidate matched, but this one could not be told without a read.
    Unread(Address),
}

/// What to do with an entry at the end of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leave the index as it is.
    Keep,
    /// Point the key at this address: replaces what was found, or inserts where the look-up was absent.
    Set(Address),
    /// Add an entry next to what was there (used where an unread candidate may belong to another key). An index that keeps
    /// keys knows that it doesn't: there this replaces what was found.
    Insert(Address),
    /// Remove what was found.
    Remove,
}

/// Is told an entry's database, key and address, and says whether to go on.
pub type KeyVisitor<'a> = dyn FnMut(u8, &[u8], Address) -> ControlFlow<()> + 'a;

/// A concurrent map from keys to addresses.
///
/// # Thread safety
/// Every method may run on any thread at any time. Updates of one key exclude each other; `decide` runs inside
/// that critical section and must not call back into the index. Readers never wait for writers, except for
/// [`update_many`](Self::update_many), which becomes visible as one step. `verify` may run more than once for the
/// same address, and may be asked about an address that has just been replaced: the caller keeps addresses
/// readable until every thread that could hold one has passed (epochs).
///
/// # Linearizability
/// A `get` that returns `Found(a)`: `a` was the key's address at some moment during the call.
/// `Absent`: at some moment during the call the key had no entry.
pub trait Index: Send + Sync + 'static {
    /// Whether every call needs the key's bytes and database, and not its hash alone. An index that keeps keys (an ordered
    /// one) needs them; then whoever has only a record's hash reads its key first.
    const NEEDS_KEY: bool;

    /// Whether this one does, where the type alone doesn't tell: [`NEEDS_KEY`](Self::NEEDS_KEY), but for
    /// [`Erased`](crate::Erased).
    fn needs_key(&self) -> bool {
        Self::NEEDS_KEY
    }

    /// Looks a key up. Among entries that need a read and one that matches, the match wins.
    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup;

    /// Starts loading what [`get`](Self::get) and [`update`](Self::update) will touch first.
    fn prefetch(&self, key: &Key<'_>);

    /// The addresses that may be the key's, most likely first, without verification; for prefetching records.
    fn candidates(&self, key: &Key<'_>, visit: impl FnMut(Address));

    /// Tells `touch` the likeliest addresses of `count` keys, without verification, to prefetch their records; what the index itself
    /// has to load for that was [prefetched](Self::prefetch) before, or is loaded for all of them at once.
    fn touch_batch<'k>(&self, count: usize, key: impl Fn(usize) -> Key<'k>, mut touch: impl FnMut(Address)) {
        for i in 0..count {
            self.candidates(&key(i), &mut touch);
        }
    }

    /// Looks several keys up: buckets are prefetched, then `touch` is told the likeliest candidates (to prefetch
    /// their records), then each key is verified. `out[i]` answers `keys[i]`.
    ///
    /// # Panics
    /// If `out` is shorter than `keys`.
    fn get_batch(
        &self,
        keys: &[Key<'_>],
        mut touch: impl FnMut(Address),
        mut verify: impl FnMut(usize, Address) -> Verdict,
        out: &mut [Lookup],
    ) {
        assert!(out.len() >= keys.len(), "one answer for each key");
        for key in keys {
            self.prefetch(key);
        }
        self.touch_batch(keys.len(), |i| keys[i], &mut touch);
        for (i, key) in keys.iter().enumerate() {
            out[i] = self.get(key, |address| verify(i, address));
        }
    }

    /// Looks a key up and changes its entry, all inside the index's critical section for that key. `decide` is called
    /// exactly once; its second value is returned.
    ///
    /// # Panics
    /// If `decide` answers `Remove` where nothing was found.
    fn update<R>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, R),
    ) -> R;

    /// As [`update`](Self::update) for several keys at once, visible to readers as one step: all are locked in one global
    /// order, looked up, decided together (`changes[i]` starts as `Keep`), changed, unlocked. Keys must differ.
    fn update_many<R>(
        &self,
        keys: &[Key<'_>],
        verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
    ) -> R;

    /// Whether the entry of this key with exactly this address is there. Takes no lock.
    fn contains(&self, key: &Key<'_>, address: Address) -> bool;

    /// Swings the entry of this key from one address to another; `false` if it isn't there (any more).
    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool;

    /// Removes the entry of this key with exactly this address; `false` if it isn't there (any more).
    fn remove(&self, key: &Key<'_>, address: Address) -> bool;

    /// One step of an iteration: appends the addresses of one bucket (with its overflow chain), or of a few neighbours, to
    /// `out` and returns the next cursor, 0 at the end. Start with 0. Every entry that was there throughout is returned at
    /// least once, and exactly once where no resize intervened. An ordered index remembers a bounded number of cursors;
    /// one that it has forgotten starts again from the beginning.
    ///
    /// `None`: this index can't go on from a cursor, and appended nothing. It answers so to every cursor or to none.
    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64>;

    /// Visits every entry that is there throughout at least once, whether or not the index has cursors. `visit` may run
    /// inside the index's critical sections: it must not call back into the index.
    fn for_each(&self, visit: &mut dyn FnMut(Address)) {
        let (mut cursor, mut addresses) = (0, Vec::new());
        loop {
            let next = self.scan(cursor, &mut addresses);
            addresses.drain(..).for_each(&mut *visit);
            match next {
                Some(0) | None => return,
                Some(next) => cursor = next,
            }
        }
    }

    /// Adds the entry of a record whose key can't be read any more: looked up by `key.hash`, `key.bytes` mean nothing.
    /// Whether it is the key that is looked up, `verify` tells. Only while nobody else uses the index.
    fn insert_unreadable(&self, key: &Key<'_>, address: Address) {
        const { assert!(!Self::NEEDS_KEY, "wrap the index in WithStrays") };
        self.update(key, |_| Verdict::Differs, |_| (Change::Set(address), ()));
    }

    /// As [`replace`](Self::replace), for a record whose key can't be read any more: `key.bytes` mean nothing. An index that
    /// [needs keys](Self::needs_key) walks all of its entries to find it.
    fn replace_unreadable(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        const { assert!(!Self::NEEDS_KEY, "wrap the index in WithStrays") };
        self.replace(key, from, to)
    }

    /// As [`remove`](Self::remove), for a record whose key can't be read any more, as
    /// [`replace_unreadable`](Self::replace_unreadable).
    fn remove_unreadable(&self, key: &Key<'_>, address: Address) -> bool {
        const { assert!(!Self::NEEDS_KEY, "wrap the index in WithStrays") };
        self.remove(key, address)
    }

    /// Visits every entry's database, key and address until `visit` breaks. Only for indexes that
    /// [need keys](Self::needs_key); one that isn't [ordered](Self::ordered) must bring its own.
    fn visit_keys(&self, visit: &mut KeyVisitor<'_>) {
        let Some(ordered) = self.ordered() else { return };
        for db in 0..=u8::MAX {
            let mut stopped = false;
            ordered.range(db, Bound::Unbounded, Direction::Forward, &mut |key, address| {
                let flow = visit(db, key, address);
                stopped = flow.is_break();
                flow
            });
            if stopped {
                return;
            }
        }
    }

    /// Entries, exact when no update is in flight.
    fn len(&self) -> u64;

    /// Whether there is no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// DRAM held, in bytes.
    fn memory_bytes(&self) -> u64;

    /// The name users give to `--index`.
    fn name(&self) -> &'static str;

    /// This index as an ordered one, if it is one.
    fn ordered(&self) -> Option<&dyn OrderedIndex> {
        None
    }

    /// This index as one that can be saved, if it is one; others are built anew from what the media hold.
    fn as_snapshot(&self) -> Option<&dyn Snapshot> {
        None
    }

    /// The same, to be loaded while nobody else uses it.
    fn as_snapshot_mut(&mut self) -> Option<&mut dyn Snapshot> {
        None
    }
}

/// Which way a range goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From smaller keys to greater ones.
    Forward,
    /// From greater keys to smaller ones.
    Backward,
}

/// A record that an index holds itself: a value without flags that does not expire.
#[derive(Clone, Copy, Debug)]
pub struct Inline<'a> {
    /// Its version.
    pub version: u64,
    /// The tier that the index lies in, as heads of records name it.
    pub tier: u8,
    /// The value.
    pub value: &'a [u8],
}

/// Is shown a key, its address, and its record if the index holds that.
pub type RecordVisitor<'a> = &'a mut dyn FnMut(&[u8], Address, Option<Inline<'_>>) -> ControlFlow<()>;

/// What an index offers beyond [`Index`] when it keeps its keys in order: by database, then byte by byte, a key before
/// every longer key that it begins (BonsaiKV section 3 asks for the predecessor search).
///
/// # Thread safety
/// Ranges and searches run while others write, and hold no lock while they call `visit`, which may therefore call back
/// into the index. A key that was there throughout is visited exactly once, in order; one that came or went meanwhile is
/// visited once or not at all. A range is not a snapshot.
pub trait OrderedIndex: Send + Sync {
    /// Visits the keys of a database from `from` on in this direction, until `visit` breaks or no key is left.
    /// The bytes lent to `visit` are the key's and end with the call.
    fn range(
        &self,
        db: u8,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    );

    /// The same, with the records that the index holds itself: whoever wants them need not ask at their addresses.
    fn range_with_records(&self, db: u8, from: Bound<&[u8]>, direction: Direction, visit: RecordVisitor<'_>) {
        self.range(db, from, direction, &mut |key, address| visit(key, address, None));
    }

    /// The greatest key of the database that is not above `key`; its bytes replace what `found` holds.
    fn floor(&self, db: u8, key: &[u8], found: &mut Vec<u8>) -> Option<Address> {
        self.nearest(db, key, Direction::Backward, found)
    }

    /// The smallest key of the database that is not below `key`; its bytes replace what `found` holds.
    fn ceiling(&self, db: u8, key: &[u8], found: &mut Vec<u8>) -> Option<Address> {
        self.nearest(db, key, Direction::Forward, found)
    }

    /// The first key of the range from `key`, itself included, in this direction; its bytes replace what `found` holds.
    fn nearest(&self, db: u8, key: &[u8], direction: Direction, found: &mut Vec<u8>) -> Option<Address> {
        found.clear();
        let mut nearest = None;
        self.range(db, Bound::Included(key), direction, &mut |bytes, address| {
            found.extend_from_slice(bytes);
            nearest = Some(address);
            ControlFlow::Break(())
        });
        nearest
    }
}
