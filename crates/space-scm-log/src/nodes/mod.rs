//! Nodes: records in the order of their keys (BonsaiKV sections 3 and 4).
//!
//! ```text
//! DRAM   tree: fence -> slot          a line for each slot: fingerprints, bitmap, version
//!
//! PMem   page of nodes: [ fence, bitmap, fingerprints | 40 entries ] ..      entry: key and value of 8 bytes, or a hash, and where the
//!                                                                            record's entry in the log's pages starts
//! ```
//!
//! A look-up reads DRAM, and of the medium one entry. Nodes are changed in rounds: entries go to places that do not count yet, and one word
//! makes them count and lets old ones go. A node that overflows shares with its neighbours: they are written anew, and the old ones go.
//!
//! | file | what |
//! |---|---|
//! | `layout` | the format |
//! | `dram`, `texts` | what DRAM has of nodes, and which slots are free |
//! | `find` | look-ups |
//! | `replicas`, `stamps`, `eras` | copies of entries on NUMA nodes that read them often |
//! | `plan`, `shape` | what edits come to: entries in place, or nodes made anew |
//! | `store` | storing that |
//! | `reopen` | a restart |
//! | `examine` | reading all of it without opening it |
//! | `repair`, `damaged`, `mend` | mending it |
//! | `index` | nodes, and what is in front of them, as the machine sees them |

mod damaged;
mod dram;
mod eras;
pub(crate) mod examine;
mod find;
mod index;
mod layout;
mod mend;
mod plan;
mod reopen;
pub(crate) mod repair;
mod replicas;
#[cfg(all(test, shuttle))]
mod schedules;
mod shape;
mod stamps;
mod store;
mod texts;

use std::sync::Arc;

use parking_lot::Mutex;
use terrace_engine::StoreError;
use terrace_engine::fetch_view;
use terrace_engine::hash::KeyHasher;
use terrace_engine::op::DATABASES;
use terrace_engine::record::Head;
use terrace_engine::space::{Fetch, Want};
use terrace_index::{Address, BTree, Cursors, Index, Key, Lookup, OrderedIndex, Verdict, WithStrays};
use terrace_media::{Buffer, ByteRegion};

use crate::apply::{Edit, Item, Plan};
use crate::directory::{Directory, Held, IsForgotten};
use crate::index::ScmIndex;
use crate::keeper::Keeper;
use crate::layout::{EDGE_BYTES, Root};
use crate::medium::Medium;
use crate::space::{ScmSpace, TIER};
use dram::Slots;
use eras::Eras;
use find::place_of;
pub use plan::NodeChanges;
pub use replicas::Far;
use replicas::Replicas;
pub use stamps::Coherence;
use texts::Texts;

/// See the module.
pub struct Nodes<R> {
    medium: Arc<Medium<R>>,
    hasher: KeyHasher,
    tree: BTree,
    slots: Slots,
    entries: usize,
    slot_bytes: usize,
    texts: Mutex<Texts>,
    /// Where iterations go on.
    cursors: Cursors,
    /// Copies on other NUMA nodes, if there are any.
    replicas: Option<Replicas<R>>,
}

impl<R: ByteRegion> Nodes<R> {
    /// `far`: the NUMA nodes that the memory lies on, if those are several.
    pub fn new(medium: Arc<Medium<R>>, hasher: KeyHasher, far: Option<Far<R>>) -> Self {
        let page_bytes = medium.geometry.page_bytes;
        let entries = layout::entries_of(page_bytes);
        let slot_bytes = layout::slot_bytes(entries);
        let per_page = (page_bytes - 2 * EDGE_BYTES) / slot_bytes;
        let replicas = far.and_then(|far| Replicas::new(far, &medium));
        let eras = replicas.as_ref().map(|of| Eras::new(of.page_homes().clone(), of.stamps().clone()));
        let slots = Slots::new(medium.pages(), per_page, eras);
        let texts = Mutex::default();
        let cursors = Cursors::default();
        Self { medium, hasher, tree: BTree::new(), slots, entries, slot_bytes, texts, cursors, replicas }
    }
    /// The least bytes of a page.
    pub fn page_bytes_min() -> usize {
        2 * EDGE_BYTES + 2 * layout::slot_bytes(layout::entries_of(0))
    }
}

impl<R: ByteRegion> Directory<R> for Nodes<R> {
    const NAME: &'static str = "bonsai";
    /// Larger rounds would meet few nodes twice, and DRAM is what nodes save.
    const FEW_BYTES: usize = 2 << 20;
    /// Nodes are in pages too, where the hash table has memory of its own.
    const FULL_PERCENT: u64 = 95;
    type Front = WithStrays<BTree>;
    type Changes = NodeChanges;

    fn nodes(&self) -> u32 {
        self.tree.len() as u32
    }
    fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }
    /// A node comes with the first record.
    fn make(_: &ScmSpace<R, Self>) -> Result<(), StoreError> {
        Ok(())
    }
    fn reopen(
        space: &ScmSpace<R, Self>,
        keeper: &mut Keeper<NodeChanges>,
        root: &Root,
    ) -> Result<(), StoreError> {
        space.reopen_nodes(keeper, root)
    }
    /// An opening has done that already.
    fn secure(&self, _from: u64) -> Option<u64> {
        None
    }
    /// Twice its share of a node: those that it was in are free later.
    fn coming_bytes(&self) -> u64 {
        2 * self.slot_bytes.div_ceil(self.entries * 3 / 4) as u64
    }
    fn round_begins(&self) {
        self.slots.round_begins();
    }
    fn every_session_has_left(&self) {
        self.slots.every_session_has_left();
    }

    #[inline]
    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup {
        self.find(key, verify)
    }
    /// The descents of a batch take turns: what they need is loaded then.
    fn prefetch(&self, _: &Key<'_>) {}
    fn candidates(&self, key: &Key<'_>, show: impl FnMut(Address)) {
        self.may_be(key, show);
    }
    fn touch_batch<'k>(&self, count: usize, key: impl Fn(usize) -> Key<'k>, touch: impl FnMut(Address)) {
        self.likely(count, key, touch);
    }
    fn is_near(&self) -> Option<Box<dyn Fn(u32) -> bool + Send>> {
        self.replicas.as_ref().map(|replicas| Box::new(replicas.is_near()) as Box<_>)
    }
    fn is_beside(&self, key: u64, record: u64) -> bool {
        key == record
    }
    fn leads_to(&self, key: &Key<'_>, place: u64) -> bool {
        let mut is_there = false;
        self.places(key, |found| {
            is_there |= found == place;
            !is_there
        });
        is_there
    }
    fn fetch(&self, address: Address, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Option<Held> {
        let place = place_of(address)?;
        // Who looks a key up is told of what is damaged once nothing else is the key's.
        let Some(entry) = self.read_near(place) else { return Some(Held::Record(Fetch::Differs)) };
        if let Some(place) = entry.place() {
            let differs = key.is_some_and(|key| key.hash != entry.key);
            return Some(if differs { Held::Record(Fetch::Differs) } else { Held::At(place, entry.version) });
        }
        if key.is_some_and(|key| !entry.is_of(key.bytes)) {
            return Some(Held::Record(Fetch::Differs));
        }
        let db = match key {
            Some(key) => key.db,
            None => self.slot_at(place).map_or(0, |slot| self.slots.descriptor(slot).read().db()),
        };
        Some(Held::Record(find::with_record(&entry, db, TIER, |view| fetch_view(view, key, want, out))))
    }
    fn touch(&self, address: Address) -> bool {
        let Some(place) = place_of(address) else { return false };
        match &self.replicas {
            None => self.medium.region.prefetch(self.medium.at(place), layout::ENTRY_BYTES),
            Some(replicas) => replicas.prefetch(self, place),
        }
        true
    }

    fn owners_of_parts(&self, word: u64, mut show: impl FnMut(u64)) {
        let mut bytes = Vec::new();
        let Some(view) = self.medium.read_entry(word, &mut bytes) else { return };
        let key = self.hasher.key(view.head.meta.db(), view.key);
        self.places(&key, |place| {
            show(place);
            true
        });
    }
    fn plan(
        space: &ScmSpace<R, Self>,
        items: &mut [Item],
        flushed: &[u64; DATABASES],
        plan: &mut Plan<NodeChanges>,
    ) {
        space.plan_nodes(items, flushed, plan);
    }
    fn store(
        space: &ScmSpace<R, Self>,
        keeper: &mut Keeper<NodeChanges>,
        plan: &mut Plan<NodeChanges>,
        coming: Option<&Root>,
    ) -> bool {
        space.store_nodes(keeper, plan, coming)
    }

    fn root_is_there(space: &ScmSpace<R, Self>, keeper: &mut Keeper<NodeChanges>) {
        space.remove_ended(&mut keeper.work.plan.changes);
    }

    fn own_of_page(
        space: &ScmSpace<R, Self>,
        page: u32,
        flushed: &[u64; DATABASES],
        mut show: impl FnMut(usize, Option<Item>, IsForgotten),
    ) {
        let nodes = &space.directory;
        let mut moved = std::collections::HashSet::new();
        for slot in nodes.slots.of_page(page) {
            let owner = nodes.texts.lock().owner(slot);
            let is_node = owner.is_none() && nodes.slots.descriptor(slot).read().is_node();
            let of = owner.or(is_node.then_some(slot));
            let Some(of) = of else { continue };
            let item = Item { hash: u64::from(of), version: 0, edit: Edit::Rewrite { page } };
            let is_forgotten = is_node && nodes.has_forgotten(slot, flushed);
            // A node goes once, with its text.
            show(nodes.slot_bytes, moved.insert(of).then_some(item), is_forgotten);
        }
    }
    fn page_leaves(&self, page: u32) {
        self.slots.withdraw(page);
    }
    fn has(&self, key: &Key<'_>, address: Address) -> bool {
        let mut is_there = false;
        self.may_be(key, |found| is_there |= found == address);
        is_there
    }
    fn scan(index: &ScmIndex<R, Self>, cursor: u64, out: &mut Vec<Address>) -> u64 {
        index.scan_keys(cursor, out)
    }
    fn ordered(index: &ScmIndex<R, Self>) -> Option<&dyn OrderedIndex> {
        Some(index)
    }
    fn can_move(&self, page: u32, live_bytes: u64) -> bool {
        self.slots.free(Some(page)) as u64 * self.slot_bytes as u64 >= live_bytes
    }
    fn for_each(&self, see_place: &mut dyn FnMut(u64), show: &mut dyn FnMut(&Head)) {
        let (mut bytes, mut of_record) = (Vec::new(), Vec::new());
        for db in 0..DATABASES as u8 {
            self.each_node(db, &mut |slot| {
                see_place(self.place_of_slot(slot));
                let bitmap = self.slots.descriptor(slot).read().bitmap();
                self.each_entry(slot, bitmap, &mut bytes, |_, found| {
                    let Some((_, entry)) = found else { return };
                    match entry.place() {
                        Some(place) => {
                            see_place(place);
                            let view = self.record_of(&entry, place, &mut of_record);
                            view.iter().for_each(|view| show(&view.head));
                        }
                        None => find::with_record(&entry, db, TIER, |view| show(&view.head)),
                    }
                });
            });
        }
    }
    fn victims(&self, from: &mut (u8, Vec<u8>), show: &mut dyn FnMut(u8, &[u8]) -> bool) {
        self.show_victims(from, show);
    }
    fn dram_bytes(&self) -> u64 {
        self.slots.dram_bytes() + self.tree.memory_bytes() + self.texts.lock().dram_bytes()
    }
    fn details(&self) -> Vec<(&'static str, u64)> {
        let (nodes, free) = (self.tree.len(), self.slots.free(None) as u64);
        let mut details = vec![
            ("bonsai_nodes", nodes),
            ("bonsai_free_slots", free),
            ("bonsai_node_bytes", (nodes + free) * self.slot_bytes as u64),
            ("bonsai_tree_bytes", self.tree.memory_bytes()),
            ("bonsai_line_bytes", self.slots.dram_bytes()),
        ];
        details.extend(self.replicas.iter().flat_map(Replicas::details));
        details
    }
}
