//! What only one thread at a time does, and what it keeps: the hash table, and pages that are filled for it.

use std::collections::VecDeque;

use terrace_engine::Barrier;
use terrace_log::TailCursor;
use terrace_media::ByteRegion;

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
}

/// See the module.
#[derive(Default)]
pub struct Keeper {
    pub root: Root,
    pub round: Round,
    /// How far each session's chain was read.
    pub tails: Vec<TailCursor>,
    /// No session of this opening has issued a version up to here.
    pub start: u64,
    /// When the last round ended.
    pub ended_ms: u64,
    pub chains: Option<Bump>,
    pub moved: Option<Bump>,
    /// Free pages that sessions can't take: without some nothing could be cleaned.
    pub spare: Vec<u32>,
    /// Frames, and pages, that are free once every session has left the epochs before this one.
    pub leaving_frames: VecDeque<(u64, Vec<u32>)>,
    pub leaving_pages: VecDeque<(u64, u32)>,
    /// Where searches go on: for what has expired, for what to count anew, for victims.
    pub next_expired: u32,
    pub next_unknown: u32,
    pub next_victim: u64,
    /// Steps that found nothing to do, since the last round.
    pub idle: u32,
}

impl Keeper {
    /// Whether a page is being filled.
    pub fn fills(&self, page: u32) -> bool {
        [self.chains, self.moved].into_iter().flatten().any(|bump| bump.page == page)
    }
}

/// Pages that are kept for cleaning: one of each kind that it fills, and one to go on with.
const SPARE_PAGES: usize = 4;

impl<R: ByteRegion> ScmSpace<R> {
    /// A page is free: it is kept, if there are too few.
    pub(crate) fn give_page(&self, keeper: &mut Keeper, page: u32) {
        if keeper.spare.len() < SPARE_PAGES { keeper.spare.push(page) } else { self.log.give_block(page) }
    }
    /// Keeps as many pages as there are to be.
    pub(crate) fn fill_spare(&self, keeper: &mut Keeper) {
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
    /// Takes so many bytes of a page of this kind, of the spare ones if no other is free; `None` if there is no page for them.
    pub(crate) fn take_place(
        &self,
        bump: &mut Option<Bump>,
        spare: &mut Vec<u32>,
        kind: Kind,
        bytes: usize,
    ) -> Option<u64> {
        let end = self.medium.geometry.page_bytes - EDGE_BYTES;
        if bump.is_none_or(|bump| bump.at + bytes > end) {
            let page = self.log.take_block().or_else(|| spare.pop())?;
            self.pages.begin(&self.medium, page, kind);
            *bump = Some(Bump { page, at: EDGE_BYTES });
        }
        let bump = bump.as_mut()?;
        let place = self.medium.page_at(bump.page) + bump.at as u64;
        bump.at += bytes;
        Some(place)
    }
}
