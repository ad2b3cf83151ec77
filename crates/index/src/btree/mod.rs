//! `btree`, the ordered index: a B+tree with optimistic lock coupling that keeps its keys.
//!
//! ```text
//!                    [ root, always the same node ]
//!                     |         |            |            separators: the shortest strings that divide
//!                  [ inner ]  [ inner ]   [ inner ]
//!                   |     |
//!              [ leaf ]->[ leaf ]-> ...                   prefix cut off, 8-byte heads, 48-bit addresses
//!                   |
//!              [ overflow ]-> ...                         very long keys only
//! ```
//!
//! | file | what |
//! |---|---|
//! | `node`, `packed`, `compact`, `simd`, `heap` | the layout of a node, its arrays, the rests of keys that are longer than a head |
//! | `text`, `view` | a key; a node at a version, and the search in it |
//! | `lock` | the lock and the version that readers confirm |
//! | `descend`, `get`, `floor`, `batch`, `range`, `scratch` | reading, without locks |
//! | `update`, `edit` | changes of keys |
//! | `grow`, `cut`, `spread`, `shrink`, `contents`, `layout` | changes of the tree's form |
//! | `pool` | where nodes come from |
//!
//! What makes it fast, and what it costs:
//! 1. A search reads the header's line, a block of twelve heads and one payload, whatever the node holds (`node`, `view`).
//!    In an inner node whose separators are short, as most are, it reads three lines and compares sixteen heads at a time
//!    (`compact`); such a node has 112 children and not 40 to 60. Splits look near the middle for a short separator.
//! 2. It compares 5 hints, 2 heads of a block and 4 heads, without a branch on any of them: processors run ahead into the
//!    next look-up while this one's leaf is on its way. How far, is a matter of instructions: about 65 a compact node, 90
//!    a leaf. One by one all of a leaf, and all of an inner node that may not be cached, is asked for, which is one miss and
//!    not three; in batches only those lines.
//! 3. A child's number is followed unconfirmed and one check of the parent's version answers for number and child both.
//! 4. Keys longer than a head cost nothing where they end alike: the end is stored once a leaf (*plain*). Where they don't,
//!    each has its rest in the heap, read only where heads are equal.
//! 5. A range copies the words of a leaf, confirms them once, and takes them apart while it shows them; the next leaf is
//!    asked for before. Its memory belongs to the thread and is used again (`scratch`).
//! 6. Hints and a shared header line cost 24 bytes a node.
//! 7. A full leaf first shares with its neighbour (`spread`): leaves are some 80% full after random inserts.
//!
//! Lock order: inner nodes from the root down, then leaves from left to right, then the pool's mutex.

mod batch;
mod compact;
mod contents;
mod cut;
mod descend;
mod edit;
mod floor;
mod get;
mod grow;
mod heap;
mod layout;
mod lock;
mod node;
mod packed;
mod pool;
mod range;
mod scratch;
mod shrink;
#[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
mod simd;
mod spread;
mod text;
mod update;
mod view;

use std::ops::{Bound, ControlFlow};

use crate::count::Count;
use crate::cursors::Cursors;
use crate::{Address, Change, Direction, Index, Key, Lookup, OrderedIndex, Verdict};
use contents::{Contents, Part};
use pool::Pool;
use text::Text;

/// The root's number, for ever.
const ROOT: u32 = 1;

/// Databases that have leaves of their own from the beginning. One where schedules are explored, so that the root is a leaf
/// at first.
const DATABASES: u8 = if cfg!(shuttle) { 1 } else { 16 };

/// The ordered index: a B+tree of nodes of 1 KiB that keeps its keys. About 20 bytes an entry for keys of 8 bytes that came
/// in random order.
///
/// Beyond what [`Index`] and [`OrderedIndex`] promise:
/// - A key has one entry. So `Insert` does what `Set` does, and an unread candidate is surely the key's.
/// - An entry whose record `verify` says differs, twice in a row or under the lock, counts as absent; `Set` replaces it.
/// - Readers wait for no `decide` but that of `update_many`, and start over where the leaf they read has changed.
/// - Memory of removed entries is used again, but given back only when the index is dropped.
/// - A cursor stands for a key. As many as `scan` remembers may be in use at once; one that it has forgotten, or never gave
///   out, starts again from the first key.
/// - Keys may have any length. One that has more than 48 bytes after what all keys of its leaf share takes nodes of its own
///   for the rest.
///
/// # Panics
/// An insert panics if there is no memory for a node; locks are released and nothing has changed. A panic in `decide` or
/// `verify` changes nothing either (the places that `update_many` prepared for absent keys stay until their leaf is
/// merged; they show nowhere).
pub struct BTree {
    pool: Pool,
    count: Count,
    cursors: Cursors,
}

impl BTree {
    /// An empty tree.
    ///
    /// # Panics
    /// If there is no memory for some 20 KiB of nodes.
    pub fn new() -> Self {
        let tree = Self { pool: Pool::new(), count: Count::new(), cursors: Cursors::default() };
        let root = tree.pool.take();
        assert_eq!(root, ROOT, "the first node is the root");
        let none = Contents::default();
        let empty = Part { level: 0, link: 0, low: &[], high: None, contents: &none, range: 0..0 };
        if DATABASES == 1 {
            empty.prepare(&tree.pool, empty.measure()).write(tree.pool.get(root));
            return tree;
        }
        // A leaf for each database. The keys of a leaf then share the database's byte, also at the ends.
        let leaves: Vec<u32> = (0..DATABASES).map(|_| tree.pool.take()).collect();
        let mut children = Contents::default();
        for (db, &number) in (0..DATABASES).zip(&leaves) {
            let (low, high) = (&[db][..], &[db + 1][..]);
            let (link, high) = leaves.get(usize::from(db) + 1).map_or((0, None), |&next| (next, Some(high)));
            let leaf = Part { link, low, high, ..empty.clone() };
            leaf.prepare(&tree.pool, leaf.measure()).write(tree.pool.get(number));
            if db > 0 {
                children.push(low, u64::from(number));
            }
        }
        let top = Part { level: 1, link: leaves[0], contents: &children, range: 0..children.len(), ..empty };
        top.prepare(&tree.pool, top.measure()).write(tree.pool.get(root));
        tree
    }
    /// Nodes in use now, overflow nodes included; each is of 1 KiB.
    pub fn nodes(&self) -> u64 {
        self.pool.in_use()
    }
}

impl Default for BTree {
    fn default() -> Self {
        Self::new()
    }
}

impl Index for BTree {
    const NEEDS_KEY: bool = true;

    #[inline]
    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup {
        self.look_up(Text::new(key), verify)
    }

    #[inline]
    fn prefetch(&self, key: &Key<'_>) {
        self.prefetch_leaf(Text::new(key));
    }

    #[inline]
    fn candidates(&self, key: &Key<'_>, mut visit: impl FnMut(Address)) {
        if let Some(address) = self.find(Text::new(key)) {
            visit(address);
        }
    }

    fn get_batch(
        &self,
        keys: &[Key<'_>],
        touch: impl FnMut(Address),
        verify: impl FnMut(usize, Address) -> Verdict,
        out: &mut [Lookup],
    ) {
        self.look_up_batch(keys, touch, verify, out);
    }

    fn update<R>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, R),
    ) -> R {
        self.change(key, verify, decide)
    }

    fn update_many<R>(
        &self,
        keys: &[Key<'_>],
        verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
    ) -> R {
        self.change_many(keys, verify, decide)
    }

    fn contains(&self, key: &Key<'_>, address: Address) -> bool {
        self.find(Text::new(key)) == Some(address)
    }

    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        self.swing(Text::new(key), from, to)
    }

    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        self.remove_exact(Text::new(key), address)
    }

    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        let next = self.walk(&self.cursors.find(cursor).unwrap_or_default(), out);
        Some(if next.is_empty() { 0 } else { self.cursors.save(&next) })
    }

    fn for_each(&self, visit: &mut dyn FnMut(Address)) {
        let (mut from, mut addresses) = (Vec::new(), Vec::new());
        loop {
            from = self.walk(&from, &mut addresses);
            addresses.drain(..).for_each(&mut *visit);
            if from.is_empty() {
                return;
            }
        }
    }

    fn len(&self) -> u64 {
        self.count.sum()
    }

    fn memory_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.pool.bytes() + self.cursors.memory_bytes()
    }

    fn name(&self) -> &'static str {
        "btree"
    }

    fn ordered(&self) -> Option<&dyn OrderedIndex> {
        Some(self)
    }
}

impl OrderedIndex for BTree {
    fn range(
        &self,
        db: u8,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    ) {
        self.run(db, from, direction, visit);
    }
}

impl std::fmt::Debug for BTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let levels = self.root().shape.level() + 1;
        write!(f, "BTree({} entries, {} nodes, {levels} levels)", self.len(), self.nodes())
    }
}
