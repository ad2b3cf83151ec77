//! Work that no session waits for, and what is told of the space.

use std::sync::atomic::Ordering::*;

use terrace_engine::space::{Background, Context, FoundKeys, ReadAtOnce, Sizing};
use terrace_engine::{MoreRoom, Progress, StoreError, TierStats};
use terrace_index::{AnyIndex, Index};
use terrace_media::ByteRegion;

use crate::directory::Directory;
use crate::keeper::{Keeper, Round};
use crate::layout::Kind;
use crate::space::ScmSpace;

/// Pages looked at in one step of the search for what has expired.
const PAGES_A_STEP: u32 = 4;
/// A stop gives up after so many steps that gained no page.
const VAIN_STEPS: u32 = 1000;
/// Keys found in one step, about.
const FOUND: usize = 256;

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// Pages that may hold records: those of the log's chains, too.
    fn holds_records(&self, page: u32) -> bool {
        let page = self.pages.page(page);
        matches!(page.kind(), Kind::Free | Kind::Archived | Kind::Moved) && !page.is_leaving.load(Relaxed)
    }
}

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// Keys of records in pages, the oldest first.
    fn victims_of_pages(&self, keeper: &mut Keeper<T::Changes>, count: usize, found: &mut FoundKeys<'_>) {
        let mut left = count;
        for _ in 0..self.pages.table.len() {
            let of_records = (0..self.pages.table.len() as u32).filter(|page| {
                let kind = self.pages.page(*page).kind();
                matches!(kind, Kind::Archived | Kind::Moved) && self.pages.page(*page).live_bytes() > 0
            });
            // The oldest first, and round again.
            let order = |page: &u32| self.pages.page(*page).order.load(Relaxed);
            let next = of_records.clone().filter(|page| order(page) > keeper.next_victim).min_by_key(order);
            let Some(page) = next.or_else(|| of_records.min_by_key(order)) else { return };
            keeper.next_victim = order(&page);
            self.records_of(page, |place, view| {
                let key = self.directory.key_of(view);
                if left > 0 && self.directory.leads_to(&key, place) && !self.is_in_front(view) {
                    left -= 1;
                    found(view.head.meta.db(), view.key);
                }
            });
            if left < count {
                // What is left of the page comes next.
                keeper.next_victim -= u64::from(left == 0);
                return;
            }
        }
    }
}

impl<R: ByteRegion, T: Directory<R>> ReadAtOnce for ScmSpace<R, T> {}

impl<R: ByteRegion, T: Directory<R>> Background for ScmSpace<R, T> {
    fn step(&self, _index: &AnyIndex, context: &dyn Context) -> Progress {
        let Some(mut keeper) = self.keeper.try_lock() else { return Progress::Idle };
        let reclaimed = self.reclaim(&mut keeper, context);
        if self.has_failure() {
            return Progress::Idle;
        }
        let round = self.round_step(&mut keeper, context);
        let cleaned = self.clean_step(&mut keeper, context);
        let learned = match cleaned {
            Progress::Idle => self.learn_step(&mut keeper),
            _ => Progress::Idle,
        };
        let all = [reclaimed, round, cleaned, learned];
        let of = |wanted: Progress| all.contains(&wanted);
        match (of(Progress::Worked), of(Progress::Blocked)) {
            (true, _) => Progress::Worked,
            (false, true) => Progress::Blocked,
            (false, false) => Progress::Idle,
        }
    }

    fn find_expired(&self, _index: &AnyIndex, context: &dyn Context, found: &mut FoundKeys<'_>) -> Progress {
        let Some(mut keeper) = self.keeper.try_lock() else { return Progress::Idle };
        let now_ms = context.now_ms();
        let count = self.pages.table.len() as u32;
        let (mut keys, mut looked) = (0, 0);
        for _ in 0..count {
            if keys >= FOUND || looked >= PAGES_A_STEP {
                return Progress::Worked;
            }
            let number = keeper.next_expired % count;
            keeper.next_expired = number + 1;
            let page = self.pages.page(number);
            if page.deadline.load(Acquire) > now_ms || !self.holds_records(number) {
                continue;
            }
            looked += 1;
            let mut next = u64::MAX;
            page.deadline.store(u64::MAX, Release);
            self.records_of(number, |place, view| {
                let expire_at = view.head.expire_at;
                if expire_at == 0 || !self.directory.leads_to(&self.directory.key_of(view), place) {
                    return;
                }
                next = next.min(expire_at.max(now_ms + 1));
                // One that is in the front was deleted, or is written over: a round is to come.
                let is_due = expire_at <= now_ms && !self.is_in_front(view);
                if is_due && view.head.version > context.flush_version(view.head.meta.db()) {
                    keys += 1;
                    found(view.head.meta.db(), view.key);
                }
            });
            page.deadline.fetch_min(next, AcqRel);
        }
        Progress::Idle
    }

    fn find_victims(
        &self,
        _index: &AnyIndex,
        _context: &dyn Context,
        count: usize,
        found: &mut FoundKeys<'_>,
    ) {
        let Some(mut keeper) = self.keeper.try_lock() else { return };
        let mut left = count;
        // By turns: either may be all that there is.
        keeper.takes_own = !keeper.takes_own;
        if keeper.takes_own {
            self.directory.victims(&mut keeper.next_own_victim, &mut |db, key| {
                let key = self.directory.hasher().key(db, key);
                if !self.has_in_front(&key) {
                    found(db, key.bytes);
                    left -= 1;
                }
                left > 0
            });
        }
        if left == count {
            self.victims_of_pages(&mut keeper, left, found);
        }
    }

    fn is_full(&self) -> bool {
        self.lacks_page.load(Relaxed) && (self.is_over(self.longest() as u64) || self.gains_nothing())
    }

    fn close(&self, _index: &AnyIndex, context: &dyn Context) -> Result<(), StoreError> {
        let mut keeper = self.keeper.lock();
        let mut vain = 0;
        while self.last_given.load(SeqCst) > self.completed.load(SeqCst) {
            keeper.idle = u32::MAX - 1;
            self.reclaim(&mut keeper, context);
            let round = self.round_step(&mut keeper, context);
            let cleaned = self.clean_step(&mut keeper, context);
            let is_applying = matches!(keeper.round, Round::Applying { .. });
            let is_vain = is_applying && round == Progress::Blocked && cleaned != Progress::Worked;
            vain = if is_vain && keeper.leaving_pages.is_empty() { vain + 1 } else { 0 };
            if vain > VAIN_STEPS {
                return Err(StoreError::Corrupt(
                    "no page can be freed for the hash table; what was acknowledged is in the log".into(),
                ));
            }
            if let Some(failure) = self.failed.get() {
                return Err(StoreError::Corrupt(format!(
                    "{}; what was acknowledged is in the log",
                    failure.what
                )));
            }
        }
        while self.secure_step(&mut keeper) == Progress::Worked {}
        while self.learn_step(&mut keeper) == Progress::Worked {}
        for page in 0..self.pages.table.len() as u32 {
            if !self.pages.page(page).kind().holds_nothing() {
                self.pages.save(&self.medium, page);
            }
        }
        Ok(())
    }
}

impl<R: ByteRegion, T: Directory<R>> Sizing for ScmSpace<R, T> {
    fn tiers(&self) -> Vec<TierStats> {
        let pages = self.pages.table.len() as u64;
        let page = self.medium.geometry.page_bytes as u64;
        let free = self.log.free_blocks() as u64;
        vec![
            TierStats {
                tier: "dram",
                capacity_bytes: self.dram.bytes(),
                used_bytes: self.dram.used.load(Relaxed) * self.dram.bytes() / self.dram.count() as u64,
                records: self.front.len(),
                ..TierStats::default()
            },
            TierStats {
                tier: "pmem",
                medium: self.description.clone(),
                capacity_bytes: pages * page,
                used_bytes: (pages - free.min(pages)) * page,
                live_bytes: self.live_bytes.load(Relaxed).max(0) as u64,
                media: self.medium.region.counters().snapshot(),
                more_room: self.medium.region.len_max().map_or(MoreRoom::Never, |_| MoreRoom::WhenOpened),
                ..TierStats::default()
            },
        ]
    }
    fn resize_tier(&self, tier: &str, _bytes: u64) -> Result<(), StoreError> {
        let how = match self.medium.region.len_max() {
            Some(_) => "opened with a larger --pmem the store grows, and it does not shrink",
            None => "this memory keeps its size",
        };
        Err(StoreError::Options(format!("tier {tier} can't be resized while this engine runs: {how}")))
    }
    fn dram_bytes(&self) -> u64 {
        self.dram.bytes() + self.pages.dram_bytes() + self.directory.dram_bytes()
    }
    fn details(&self) -> Vec<(&'static str, u64)> {
        let mut told = vec![("scm_rounds", self.completed.load(Relaxed))];
        told.extend(self.directory.details());
        told.push(("scm_cleaned_pages", self.cleaned.load(Relaxed)));
        told.push(("scm_moved_bytes", self.moved_bytes.load(Relaxed)));
        told
    }
}
