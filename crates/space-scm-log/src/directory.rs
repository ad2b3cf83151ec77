//! What leads from keys to records that have left the front: a hash table ([`table`](crate::table)), or nodes in order
//! ([`nodes`](crate::nodes)).

use terrace_engine::StoreError;
use terrace_engine::hash::KeyHasher;
use terrace_engine::op::DATABASES;
use terrace_engine::record::{Head, RecordView};
use terrace_engine::space::{Fetch, Want};
use terrace_index::{Address, Index, Key, Lookup, OrderedIndex, Verdict};
use terrace_media::{Buffer, ByteRegion};

use crate::apply::{Item, Plan};
use crate::index::ScmIndex;
use crate::keeper::Keeper;
use crate::layout::Root;
use crate::space::ScmSpace;

/// Stands for what is damaged and was led to once: no entry starts there.
pub const LOST: u64 = 8;

/// See the module.
///
/// # Thread safety
/// One thread at a time changes it, who holds the lock of the [`Keeper`]. Readers take no lock, and leave what they have found before it is
/// written over: an epoch lies between.
pub trait Directory<R: ByteRegion>: Send + Sync + Sized + 'static {
    /// What its store's index is called.
    const NAME: &'static str;
    /// Bytes of frames that records which come one by one take, about.
    const FEW_BYTES: usize;
    /// So much of its store's pages may be live.
    const FULL_PERCENT: u64;
    /// The index in front of it.
    type Front: Index;
    /// What a plan has of its own, and room that it needs for that.
    type Changes: Default + Send;

    /// Nodes that count, for the root to say.
    fn nodes(&self) -> u32 {
        0
    }
    /// Hashes keys.
    fn hasher(&self) -> &KeyHasher;
    /// The hash of a record's key.
    fn hash_of(&self, view: &RecordView<'_>) -> u64 {
        self.key_of(view).hash
    }
    /// A record's key.
    fn key_of<'a>(&self, view: &RecordView<'a>) -> Key<'a> {
        self.hasher().key(view.head.meta.db(), view.key)
    }

    /// Makes it an empty one of a new store; durable when it returns.
    fn make(space: &ScmSpace<R, Self>) -> Result<(), StoreError>;
    /// Takes over what the medium holds, the pages being known. `root` is the newest: committed, or of a slice that was cut off.
    fn reopen(
        space: &ScmSpace<R, Self>,
        keeper: &mut Keeper<Self::Changes>,
        root: &Root,
    ) -> Result<(), StoreError>;
    /// Makes safe what a dead process may have stored, from one word on: the one behind that. `None`: all is.
    fn secure(&self, from: u64) -> Option<u64>;
    /// Bytes of pages that a record which comes may take here until the round is over that it comes with; 0 if that is next to nothing.
    fn coming_bytes(&self) -> u64 {
        0
    }
    /// A round begins, or waits for what it has let go itself.
    fn round_begins(&self) {}
    /// Every session has left since it began: what was let go before is free.
    fn every_session_has_left(&self) {}
    /// Looks a key up, verified as [`Index::get`] says.
    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup;
    /// Starts loading what [`get`](Self::get) needs first.
    fn prefetch(&self, key: &Key<'_>);
    /// The places that may be a key's.
    fn candidates(&self, key: &Key<'_>, show: impl FnMut(Address));
    /// The same of several keys, for which it loads what it needs at once.
    fn touch_batch<'k>(&self, count: usize, key: impl Fn(usize) -> Key<'k>, touch: impl FnMut(Address));
    /// Whether who looks for a key of the first hash may come upon a record of the second.
    fn is_beside(&self, key: u64, record: u64) -> bool;
    /// Whether a key's record is at this place.
    fn leads_to(&self, key: &Key<'_>, place: u64) -> bool;
    /// Whether this address is one that may be the key's.
    fn has(&self, key: &Key<'_>, address: Address) -> bool {
        self.leads_to(key, address.raw())
    }
    /// As [`Index::scan`], over all that the index has.
    fn scan(index: &ScmIndex<R, Self>, cursor: u64, out: &mut Vec<Address>) -> u64;
    /// The index as an ordered one, if it is one.
    fn ordered(_index: &ScmIndex<R, Self>) -> Option<&dyn OrderedIndex> {
        None
    }
    /// Says whether a page is near to the thread that asks, if that differs.
    fn is_near(&self) -> Option<Box<dyn Fn(u32) -> bool + Send>> {
        None
    }
    /// Reads what the directory itself holds at an address; `None` if the address is that of a record's entry.
    fn fetch(
        &self,
        _address: Address,
        _key: Option<&Key<'_>>,
        _want: Want,
        _out: &mut Buffer,
    ) -> Option<Held> {
        None
    }
    /// Starts loading that; `false` if the address is an entry's.
    fn touch(&self, _address: Address) -> bool {
        false
    }

    /// The places of records that may describe parts with this word.
    fn owners_of_parts(&self, word: u64, show: impl FnMut(u64));

    /// What edits come to.
    fn plan(
        space: &ScmSpace<R, Self>,
        items: &mut [Item],
        flushed: &[u64; DATABASES],
        plan: &mut Plan<Self::Changes>,
    );
    /// Stores what a plan has, in the order that a crash may cut anywhere; `coming` is the root that says so. `false` if there is no page
    /// for it: then nothing has changed.
    fn store(
        space: &ScmSpace<R, Self>,
        keeper: &mut Keeper<Self::Changes>,
        plan: &mut Plan<Self::Changes>,
        coming: Option<&Root>,
    ) -> bool;

    /// The root is there that a plan came with.
    fn root_is_there(_space: &ScmSpace<R, Self>, _keeper: &mut Keeper<Self::Changes>) {}

    /// Shows what counts in one of its own pages: the bytes of each object, and the edit that moves it elsewhere, if that is not another's.
    fn own_of_page(
        space: &ScmSpace<R, Self>,
        page: u32,
        flushed: &[u64; DATABASES],
        show: impl FnMut(usize, Option<Item>, IsForgotten),
    );
    /// One of its own pages holds nothing any more, and is another's soon.
    fn page_leaves(&self, _page: u32) {}
    /// Whether there is room elsewhere for so many bytes of one of its own pages, without another page.
    fn can_move(&self, _page: u32, _bytes: u64) -> bool {
        true
    }
    /// Shows the heads of all records that it leads to, and the places that it reads for that.
    fn for_each(&self, see_place: &mut dyn FnMut(u64), show: &mut dyn FnMut(&Head));
    /// Shows keys of records that it holds itself, from a database and a key on and round again, until `show` says to stop.
    fn victims(&self, _from: &mut (u8, Vec<u8>), _show: &mut dyn FnMut(u8, &[u8]) -> bool) {}
    /// DRAM that it takes.
    fn dram_bytes(&self) -> u64 {
        0
    }
    /// What is told of it, by name.
    fn details(&self) -> Vec<(&'static str, u64)>;
    /// Says once that it has become slow for so many keys, and why.
    fn tell_crowding(&self, _keys: u64) {}
}

/// What the directory has at an address of its own.
#[derive(Debug)]
pub enum Held {
    /// A record, or why there is none.
    Record(Fetch),
    /// Where the entry starts of the record of this version.
    At(u64, u64),
}

/// Whether an object holds something that a whole-database flush has forgotten.
pub type IsForgotten = bool;
