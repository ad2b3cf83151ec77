//! What is known of pages in DRAM, and stored of it in their lines (SCMKV section 3.4: the page information table).
//!
//! Bytes that are live are counted in DRAM and stored when a page's kind changes and at a clean stop. After a crash they are an estimate
//! until the page was walked.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::*};

use terrace_engine::Scanned;
use terrace_media::ByteRegion;

use crate::layout::{Kind, PageLine};
use crate::medium::Medium;

/// A page. The holder of the keeper's lock changes it, and the log's reclaimer when a block is archived.
#[derive(Default)]
pub struct Page {
    kind: AtomicU8,
    sequence: AtomicU64,
    pub generation: AtomicU64,
    /// Bytes that the table leads to.
    pub live: AtomicI64,
    /// Whether that was counted, and is no estimate.
    pub is_exact: AtomicBool,
    /// Nothing in it expires before.
    pub deadline: AtomicU64,
    pub order: AtomicU64,
    /// Of parts: the table leads to all that count once this round is over.
    pub round: AtomicU64,
    /// And there are so many that no record was put for.
    pub pins: AtomicU64,
    /// What whole-database flushes up to this version forgot is gone.
    pub purged: AtomicU64,
    /// It is empty, and free once every session has passed.
    pub is_leaving: AtomicBool,
    /// Something in it can't be read: it stays.
    pub is_stuck: AtomicBool,
    /// What it holds was gone through since the store was opened.
    pub is_scanned: AtomicBool,
}

impl Page {
    /// What it is.
    pub fn kind(&self) -> Kind {
        Kind::from_number(self.kind.load(Acquire)).unwrap_or_default()
    }
    /// Live bytes, about.
    pub fn live_bytes(&self) -> u64 {
        self.live.load(Relaxed).max(0) as u64
    }
}

/// All pages.
pub struct Pages {
    pub table: Box<[Page]>,
    last_order: AtomicU64,
}

impl Pages {
    pub fn new(count: usize) -> Self {
        let table: Box<[Page]> = (0..count).map(|_| Page::default()).collect();
        table.iter().for_each(|page| page.deadline.store(u64::MAX, Relaxed));
        Self { table, last_order: AtomicU64::new(0) }
    }
    pub fn page(&self, page: u32) -> &Page {
        &self.table[page as usize]
    }

    /// Takes over what a page's line says.
    pub fn take(&self, number: u32, line: &PageLine, is_exact: bool) {
        let page = self.page(number);
        page.sequence.store(line.sequence, Relaxed);
        page.generation.store(line.generation, Relaxed);
        let is_free = line.kind.holds_nothing();
        page.live.store(if is_free { 0 } else { line.live as i64 }, Relaxed);
        let is_exact = is_exact && line.is_exact;
        page.is_exact.store(is_exact || is_free, Relaxed);
        // What was put since the line was stored is not in it.
        page.deadline.store(if is_exact { line.deadline } else { 0 }, Relaxed);
        page.order.store(line.order, Relaxed);
        self.last_order.fetch_max(line.order, Relaxed);
        page.kind.store(line.kind as u8, Release);
    }
    /// It is a block of the log, whatever its line says.
    pub fn is_chained(&self, number: u32) {
        let page = self.page(number);
        // The opening of the log has read all of it.
        page.is_scanned.store(true, Relaxed);
        page.is_exact.store(false, Relaxed);
        page.deadline.store(0, Relaxed);
        page.kind.store(Kind::Free as u8, Release);
    }

    /// A free page becomes one of this kind; durable when it returns.
    #[track_caller]
    pub fn begin<R: ByteRegion>(&self, medium: &Medium<R>, number: u32, kind: Kind) {
        let page = self.page(number);
        page.live.store(0, Relaxed);
        page.is_exact.store(true, Relaxed);
        page.is_stuck.store(false, Relaxed);
        page.deadline.store(u64::MAX, Relaxed);
        page.purged.store(0, Relaxed);
        page.generation.store(0, Relaxed);
        self.change(medium, number, kind);
    }
    /// A page is of this kind from now on; durable when it returns.
    #[track_caller]
    pub fn change<R: ByteRegion>(&self, medium: &Medium<R>, number: u32, kind: Kind) {
        self.store_kind(medium, number, kind);
        self.show_kind(number, kind);
    }
    /// The same on the medium alone.
    #[track_caller]
    pub fn store_kind<R: ByteRegion>(&self, medium: &Medium<R>, number: u32, kind: Kind) {
        if kind != Kind::Free {
            self.page(number).order.store(self.last_order.fetch_add(1, Relaxed) + 1, Relaxed);
        }
        self.save_as(medium, number, kind);
    }
    /// And in DRAM, where it is seen.
    pub fn show_kind(&self, number: u32, kind: Kind) {
        self.page(number).kind.store(kind as u8, Release);
    }
    /// Stores a page's line as it is.
    #[track_caller]
    pub fn save<R: ByteRegion>(&self, medium: &Medium<R>, number: u32) {
        self.save_as(medium, number, self.page(number).kind());
    }
    #[track_caller]
    fn save_as<R: ByteRegion>(&self, medium: &Medium<R>, number: u32, kind: Kind) {
        let page = self.page(number);
        let line = PageLine {
            sequence: page.sequence.fetch_add(1, Relaxed) + 1,
            kind,
            generation: page.generation.load(Relaxed),
            is_exact: page.is_exact.load(Relaxed),
            live: page.live_bytes(),
            deadline: page.deadline.load(Relaxed),
            order: page.order.load(Relaxed),
        };
        medium.save_page_line(number, &line);
    }
    /// A page is free, and holds nothing; durable when it returns.
    #[track_caller]
    pub fn leave<R: ByteRegion>(&self, medium: &Medium<R>, number: u32) {
        self.begin(medium, number, Kind::Free);
        self.page(number).is_leaving.store(true, Relaxed);
    }
    /// Whether what is live in some page is an estimate.
    pub fn has_unknown(&self) -> bool {
        self.table.iter().any(|page| !page.kind().holds_nothing() && !page.is_exact.load(Relaxed))
    }
    /// How many were gone through since the store was opened.
    pub fn scanned(&self) -> Scanned {
        let pages = self.table.iter().filter(|page| page.is_scanned.load(Relaxed)).count() as u64;
        Scanned { pages, of: self.table.len() as u64 }
    }
    /// Bytes that all pages have live.
    pub fn live_bytes(&self) -> u64 {
        self.table.iter().map(Page::live_bytes).sum()
    }
    /// DRAM held.
    pub fn dram_bytes(&self) -> u64 {
        (self.table.len() * size_of::<Page>()) as u64
    }
}
