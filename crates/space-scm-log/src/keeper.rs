//! What only one thread at a time does, and what it keeps: the hash table, and pages that are filled for it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use terrace_engine::Barrier;
use terrace_engine::op::DATABASES;
use terrace_engine::record::RecordMeta;
use terrace_index::Address;
use terrace_log::TailCursor;
use terrace_media::ByteRegion;

use crate::apply::{Item, Plan};
use crate::directory::Directory;
use crate::layout::{EDGE_BYTES, Kind, Root};
use crate::space::ScmSpace;

/// Where a page is filled.
#[derive(Clone, Copy, Debug)]
pub struct Bump {
    page: u32,
    at: usize,
}

impl Bump {
    /// Whether it is in this page.
    pub fn is_of(&self, page: u32) -> bool {
        self.page == page
    }
}

/// Where a round is.
#[derive(Default)]
pub enum Round {
    /// None is under way.
    #[default]
    Idle,
    /// What waits for it is all issued once every session has left the epochs before this one.
    Issuing { seq: u64, epoch: u64 },
    /// Versions up to `upto` are, and those that come are newer.
    Passing { seq: u64, upto: u64, epoch: u64 },
    /// All that was published by then is to be settled.
    Settling { seq: u64, upto: u64, barrier: Barrier },
    /// What the logs hold up to there is known, and reaches the table slice by slice.
    Applying { seq: u64, upto: u64, flushed: [u64; DATABASES] },
}

/// What a round has to do, and room for what it needs: nothing of it is allocated again for each round.
#[derive(Default)]
pub struct Work<C> {
    /// As they were read.
    pub items: Vec<Item>,
    /// Those that are to be done, oldest first: the version of each, and which it is.
    pub order: Vec<(u64, u32)>,
    /// So many of them are done.
    pub done: usize,
    /// How far each session's chain was read for it.
    pub tails: Vec<TailCursor>,
    /// The newest item of each hash, while older ones are dropped.
    pub newest: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    /// The items that reach the table at once, and what they come to.
    pub slice: Vec<Item>,
    pub plan: Plan<C>,
}

/// More room than for so many items is not kept.
const KEPT_ITEMS: usize = 96 << 10;

impl<C> Work<C> {
    /// Nothing is left to do.
    pub fn clear(&mut self) {
        self.items.clear();
        self.order.clear();
        self.newest.clear();
        self.items.shrink_to(KEPT_ITEMS);
        self.order.shrink_to(KEPT_ITEMS);
        self.newest.shrink_to(KEPT_ITEMS);
        self.done = 0;
    }
}

/// Hashes are hashed already.
#[derive(Default)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// See the module.
#[derive(Default)]
pub struct Keeper<C> {
    pub root: Root,
    pub round: Round,
    pub work: Work<C>,
    /// So many items reach the table at once; 0 before the first ones.
    pub slice: usize,
    /// How far each session's chain was read.
    pub tails: Vec<TailCursor>,
    /// No session of this opening has issued a version up to here.
    pub start: u64,
    /// When the last round ended.
    pub ended_ms: u64,
    /// A round waits until every session has left this epoch: then what it has let go itself is free.
    pub let_go: Option<u64>,
    /// Words of the directory from here on may be in a cache only, where a dead process left them.
    pub unsecured: Option<u64>,
    /// What was live when pages had been cleaned in vain for long.
    pub live_in_vain: Option<u64>,
    /// A page of the directory's own.
    pub own: Option<Bump>,
    pub moved: Option<Bump>,
    /// Free pages that sessions can't take: without some nothing could be cleaned.
    pub spare: Vec<u32>,
    /// Records that leave the front: where each is, its version, its second word, its key's hash.
    pub leaving: Vec<(Address, u64, RecordMeta, u64)>,
    /// Frames, and pages, that are free once every session has left the epochs before this one.
    pub leaving_frames: VecDeque<(u64, Vec<u32>)>,
    pub leaving_pages: VecDeque<(u64, u32)>,
    /// Where searches go on: for what has expired, for what to count anew, for victims.
    pub next_expired: u32,
    pub next_unknown: u32,
    pub next_victim: u64,
    pub next_own_victim: (u8, Vec<u8>),
    /// Whether the next victims are records that the directory holds itself.
    pub takes_own: bool,
    /// Pages that rounds leave may be taken.
    pub is_cleaning: bool,
    /// Steps that found nothing to do, since the last round.
    pub idle: u32,
}

impl<C> Keeper<C> {
    /// Whether a page is being filled.
    pub fn fills(&self, page: u32) -> bool {
        [self.own, self.moved].into_iter().flatten().any(|bump| bump.page == page)
    }
}

/// Pages that are kept for cleaning: one of each kind that it fills, and one to go on with.
const SPARE_PAGES: usize = 4;
/// Those that a round leaves to it.
pub(crate) const LEFT_BY_ROUNDS: usize = 2;

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// A page is free: it is kept, if there are too few.
    pub(crate) fn give_page(&self, keeper: &mut Keeper<T::Changes>, page: u32) {
        if keeper.spare.len() < SPARE_PAGES { keeper.spare.push(page) } else { self.log.give_block(page) }
    }
    /// Keeps as many pages as there are to be.
    pub(crate) fn fill_spare(&self, keeper: &mut Keeper<T::Changes>) {
        while keeper.spare.len() < SPARE_PAGES
            && let Some(page) = self.log.take_block()
        {
            keeper.spare.push(page);
        }
    }
    /// Bytes that are left where a page is filled.
    pub(crate) fn rest_of(&self, bump: Bump) -> usize {
        self.medium.geometry.page_bytes - EDGE_BYTES - bump.at
    }
    /// Takes so many bytes of a page of this kind, of the spare ones if no other is free; `None` if there is no page for them, or none but
    /// these spare ones.
    pub(crate) fn take_place(
        &self,
        bump: &mut Option<Bump>,
        (spare, left): (&mut Vec<u32>, usize),
        kind: Kind,
        bytes: usize,
    ) -> Option<u64> {
        let end = self.medium.geometry.page_bytes - EDGE_BYTES;
        if bump.is_none_or(|bump| bump.at + bytes > end) {
            let take_spare = || if spare.len() > left { spare.pop() } else { None };
            let page = self.log.take_block().or_else(take_spare)?;
            self.pages.begin(&self.medium, page, kind);
            *bump = Some(Bump { page, at: EDGE_BYTES });
        }
        let bump = bump.as_mut()?;
        let place = self.medium.page_at(bump.page) + bump.at as u64;
        bump.at += bytes;
        Some(place)
    }
}
