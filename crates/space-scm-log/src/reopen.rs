//! Opening what is there: pages as their lines say, the table as it stands, and what the log holds beyond it.

use std::sync::atomic::Ordering::*;

use terrace_engine::StoreError;
use terrace_engine::manifest::Manifest;
use terrace_engine::op::DATABASES;
use terrace_engine::space::{Counted, Entries};
use terrace_media::ByteRegion;

use crate::directory::Directory;
use crate::keeper::{Keeper, Work};
use crate::layout::{Kind, Root};
use crate::rounds::Applied;
use crate::space::ScmSpace;

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// Takes over the page table.
    pub(crate) fn find_pages(&self, manifest: &Manifest) -> Result<(), StoreError> {
        for page in 0..self.pages.table.len() as u32 {
            let Some(line) = self.medium.page_line(page) else {
                return Err(StoreError::Corrupt(format!(
                    "neither copy of what is known of page {page} is valid; nothing was changed"
                )));
            };
            self.pages.take(page, &line, manifest.clean);
            if line.kind == Kind::Lines {
                self.note_scanned(self.medium.page_at(page));
            }
        }
        for (block, _) in self.log.chained_blocks() {
            self.pages.is_chained(block);
        }
        self.log.withdraw(|block| self.pages.page(block).kind() != Kind::Free);
        self.fill_spare(&mut self.keeper.lock());
        self.count_pages();
        Ok(())
    }

    /// What is live in all pages.
    pub(crate) fn count_pages(&self) {
        self.live_bytes.store(self.pages.live_bytes() as i64, Relaxed);
    }

    /// Takes over the root, and says what counts there.
    pub(crate) fn find_root(&self, manifest: &Manifest) -> Result<Counted, StoreError> {
        let Some(root) = self.medium.newest_root() else {
            return Err(StoreError::Corrupt(
                "no copy of the hash table's root is valid; nothing was changed".into(),
            ));
        };
        let mut keeper = self.keeper.lock();
        keeper.root = root;
        if !root.is_committed {
            // All of it is made again.
            keeper.root.upto = root.from;
        }
        T::reopen(self, &mut keeper, &root)?;
        let newest = manifest.version_floor.max(manifest.databases_version).max(root.upto);
        keeper.start = manifest.flush_versions.iter().fold(newest, |newest, flushed| newest.max(*flushed));
        let seq = manifest.persisted_seq;
        self.begun.store(seq, SeqCst);
        self.completed.store(seq, SeqCst);
        self.last_given.store(seq, SeqCst);
        let forgotten = manifest.flush_versions.iter().copied().max().unwrap_or(0);
        self.forgotten.store(forgotten, Relaxed);
        if keeper.root.is_uncertain {
            self.recount(&mut keeper, &manifest.flush_versions);
            // Who makes a slice again takes its counts.
            keeper.root.is_uncertain = !root.is_committed;
        }
        Ok(counted(&keeper.root, &manifest.flush_versions))
    }

    /// Counts what the table leads to, for what the root says may be wrong. Reads all of it.
    fn recount(&self, keeper: &mut Keeper<T::Changes>, flushed: &[u64; DATABASES]) {
        tracing::warn!("something of the hash table was damaged: all keys are counted anew");
        let (mut keys, mut expiring) = ([0; DATABASES], [0; DATABASES]);
        let mut see = |place| self.note_scanned(place);
        self.directory.for_each(&mut see, &mut |head| {
            let db = usize::from(head.meta.db());
            if head.version > flushed[db] {
                keys[db] += 1;
                expiring[db] += u64::from(head.expire_at != 0);
            }
        });
        (keeper.root.keys, keeper.root.expiring) = (keys, expiring);
        // It is stored with the next round; until then it is done again.
        keeper.root.is_uncertain = false;
    }

    /// The page of this place is read, a part of it after the other.
    pub(crate) fn note_scanned(&self, place: u64) {
        if let Some(page) = self.medium.page_of(place) {
            self.pages.page(page).is_scanned.store(true, Relaxed);
        }
    }

    /// Makes the table lead to what the log holds above the root.
    pub(crate) fn redo_log(
        &self,
        newest: u64,
        flushed: &[u64; DATABASES],
        entries: &Entries<'_>,
    ) -> Result<Counted, StoreError> {
        for (mine, found) in self.flushed.iter().zip(flushed) {
            mine.store(*found, Relaxed);
        }
        let mut keeper = self.keeper.lock();
        let from = keeper.root.upto;
        let coming = self.medium.newest_root().filter(|root| !root.is_committed && root.upto > from);
        let middle = coming.map_or(from, |root| root.upto);
        let newest = newest.max(middle);
        let (mut again, mut beyond) = (Vec::new(), Vec::new());
        entries(&mut |version, offset, bytes| {
            let Some(item) = self.item_of(version, offset, bytes) else { return };
            if coming.is_some_and(|root| version <= root.round) && version > from {
                again.push(item);
            }
            if version > middle {
                beyond.push(item);
            }
        })?;
        self.is_redoing.store(true, Relaxed);
        if let Some(root) = coming {
            // What its round left out must be left out again: its counts are without it.
            keeper.work.items = again;
            self.arrange(&mut keeper.work);
            let Work { items, order, .. } = &keeper.work;
            let of_slice = order.iter().filter(|(version, _)| *version <= root.upto);
            let mut again: Vec<_> = of_slice.map(|(_, i)| items[*i as usize]).collect();
            self.nobody_reads();
            while !self.apply(&mut keeper, &mut again, (root.upto, root.round), &root.flushed, Some(&root)) {
                self.make_room(&mut keeper)?;
            }
        }
        if newest > middle || flushed != &keeper.root.flushed {
            let upto = newest.max(keeper.root.upto);
            keeper.work.items = beyond;
            self.arrange(&mut keeper.work);
            loop {
                self.nobody_reads();
                match self.apply_slice(&mut keeper, upto, flushed) {
                    Applied::All => break,
                    Applied::Some => {}
                    Applied::Nothing => self.make_room(&mut keeper)?,
                }
            }
            keeper.work.clear();
        }
        self.is_redoing.store(false, Relaxed);
        if keeper.root.is_uncertain {
            self.recount(&mut keeper, flushed);
        }
        keeper.start = keeper.start.max(newest);
        self.count_pages();
        Ok(counted(&keeper.root, flushed))
    }

    /// There are no sessions yet: what was let go is free.
    pub(crate) fn nobody_reads(&self) {
        self.directory.round_begins();
        self.directory.every_session_has_left();
    }

    /// Cleans a page, before there are sessions.
    pub(crate) fn make_room(&self, keeper: &mut Keeper<T::Changes>) -> Result<(), StoreError> {
        if let Some(failure) = self.failed.get() {
            return Err(StoreError::Corrupt(format!("{}; nothing is lost", failure.what)));
        }
        if self.clean_alone(keeper) {
            return Ok(());
        }
        Err(StoreError::Corrupt(
            "no page can be freed for the hash table, though some are kept for that; nothing is lost".into(),
        ))
    }
}

fn counted(root: &Root, flushed: &[u64; DATABASES]) -> Counted {
    let of = |counts: &[u64; DATABASES]| {
        std::array::from_fn(|db| if flushed[db] > root.flushed[db] { 0 } else { counts[db] })
    };
    Counted { keys: of(&root.keys), expiring: of(&root.expiring), tombstones: 0, poisoned: 0 }
}
