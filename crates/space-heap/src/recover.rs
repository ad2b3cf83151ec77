//! Opening what is there: the fronts of all chunks are read, page by page, by several threads.
//!
//! ```text
//! word of a record, or of a step that counts --> found          |  adopted: it stays
//! word of a step that does not, of a part    --> noted          |  not adopted: freed, once all is decided
//! in a session's run, and not whole          --> torn: freed    |
//! anything else                              --> damage, or nobody can tell
//! ```
//!
//! # Invariants
//! What a dead process stored and did not fence is made durable as it is read: others change on its account.
//!
//! Nothing on the medium changes before every winner is known. Whatever is then freed or restored may be cut short and is done again by
//! the next opening: of a key's records the newest stays.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::*};

use parking_lot::Mutex;
use terrace_blocks::u64_at;
use terrace_engine::manifest::{MANIFEST_BYTES, Manifest};
use terrace_engine::record::{Kind, Lifetime};
use terrace_engine::space::{self, Counted, Durable};
use terrace_engine::version::{SLOTS_MAX, Version};
use terrace_engine::{Failure, Scanned, StoreError};
use terrace_index::Address;
use terrace_media::ByteRegion;

use crate::large::{number_of, parts};
use crate::layout::{FRONT_BYTES, Front, LINE_BYTES, PAGE_HEADER_BYTES, PageHeader, Sort, StoredPage};
use crate::space::HeapSpace;
use crate::table::PmTable;

/// What sessions had under way.
pub(crate) struct UnderWay {
    /// The newest version of each session's steps that count.
    intents: Vec<u64>,
    /// Chunks that a crash may have torn.
    runs: HashSet<u64>,
}

/// What an opening has found so far. Beside it a chunk that is not free is taken, in its page's table, and one that was adopted is seen.
#[derive(Default)]
pub(crate) struct Found {
    /// Chunks of which nobody can tell what they are.
    lost: HashSet<u64>,
    /// Dying records that stay: where, and their versions.
    dying: Vec<(u64, u64)>,
    /// Heads of records that are to be made anew: where, and their words. A dying one may have the version that removes it in place of its
    /// hash, and a bit may have flipped: who looks at the head alone would pass the record over for ever.
    heads: Vec<(u64, [u64; 2])>,
}

/// What a chunk holds.
enum Chunk {
    Free,
    Record(space::Found),
    /// A record that does not count, a part of a value, or what a crash tore.
    Other,
    Lost,
}

impl<R: ByteRegion> HeapSpace<R> {
    fn corrupt(&self, what: &str) -> StoreError {
        StoreError::Corrupt(format!("{what}: nobody can tell what it held; nothing was changed"))
    }

    fn read_sessions(&self) -> Result<(), StoreError> {
        let sessions = self.medium.geometry.sessions;
        let intents: Result<Vec<u64>, ()> =
            (0..sessions).map(|slot| self.medium.agree_on_intent(slot)).collect();
        let intents = intents.map_err(|()| self.corrupt("a session's intent is damaged in both copies"))?;
        let runs = self.medium.torn_at_most();
        self.under_way.get_or_init(|| UnderWay { intents, runs });
        Ok(())
    }
    fn is_in_a_run(&self, offset: u64) -> bool {
        self.under_way.get().is_some_and(|under_way| under_way.runs.contains(&offset))
    }

    /// Has `threads` look at every page, until one of them fails.
    fn each_page(
        &self,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        look: &(dyn Fn(u32) -> Result<(), StoreError> + Sync),
    ) -> Result<(), StoreError> {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let failure: Mutex<Option<StoreError>> = Mutex::new(None);
        let count = self.pages.table.len();
        let bytes = |pages: usize| pages as u64 * self.pages.page_bytes as u64;
        let work = || {
            loop {
                let page = next.fetch_add(1, Relaxed);
                if page >= count || failure.lock().is_some() {
                    // Each thread for what it has read.
                    self.medium.region.fence();
                    return;
                }
                if let Err(error) = look(page as u32) {
                    failure.lock().get_or_insert(error);
                    return;
                }
                progress(bytes(done.fetch_add(1, Relaxed) + 1), bytes(count));
            }
        };
        if threads <= 1 || count < 16 {
            work();
        } else {
            std::thread::scope(|scope| {
                (1..threads).for_each(|_| drop(scope.spawn(work)));
                work();
            });
        }
        failure.into_inner().map_or(Ok(()), Err)
    }

    /// Learns a page's class and shows its chunks.
    fn scan_page(&self, page: u32, found: &(dyn Fn(space::Found) + Sync)) -> Result<(), StoreError> {
        let mut line = [0; LINE_BYTES];
        let start = u64::from(page) * self.pages.page_bytes as u64;
        self.medium.region.read(self.medium.at(start), &mut line);
        self.medium.region.flush(self.medium.at(start), LINE_BYTES);
        let header = match PageHeader::decode(&line, self.medium.store_id, page) {
            StoredPage::Used(header) => header,
            StoredPage::Empty(header) => {
                let mut alloc = self.pages.alloc();
                alloc.seq = alloc.seq.max(header.map_or(0, |header| header.seq));
                return Ok(());
            }
            StoredPage::Index(_) | StoredPage::Damaged => {
                return Err(self.corrupt(&format!("page {page} of the heap is damaged")));
            }
        };
        let class = if self.pages.has_objects() { Some(0) } else { self.pages.classes.known(header.lines) };
        let Some(class) = class.filter(|_| header.has_objects() == self.pages.has_objects()) else {
            return Err(
                self.corrupt(&format!("page {page} of the heap has chunks of {} lines", header.lines))
            );
        };
        self.pages.set_class(page, class, header.seq);
        self.learn_map(page)?;
        {
            let mut alloc = self.pages.alloc();
            alloc.seq = alloc.seq.max(header.seq);
        }
        self.pages.note_scanned(start);
        let taken = &self.pages.table[page as usize].taken;
        for (size, chunk) in self.pages.chunks(page) {
            let offset = self.pages.offset(page, size, chunk);
            match self.look(offset) {
                Chunk::Free => continue,
                Chunk::Record(record) => found(record),
                Chunk::Other => {}
                Chunk::Lost => drop(self.found.lock().lost.insert(offset)),
            }
            let end = if self.pages.has_objects() { chunk + size } else { chunk + 1 };
            taken.set_all(chunk, end);
        }
        Ok(())
    }

    /// Learns where the chunks of a page of objects start.
    fn learn_map(&self, page: u32) -> Result<(), StoreError> {
        let Some(starts) = &self.pages.table[page as usize].starts else { return Ok(()) };
        let map = self.medium.read_map(page);
        let at = u64::from(page) * self.pages.page_bytes as u64 + PAGE_HEADER_BYTES as u64;
        self.medium.region.flush(self.medium.at(at), map.len());
        let is_whole = starts.learn(self.pages.use_of(page), &map, self.pages.page_bytes / LINE_BYTES);
        let damaged = || self.corrupt(&format!("the map of page {page} of the heap is damaged"));
        is_whole.then_some(()).ok_or_else(damaged)
    }

    fn look(&self, offset: u64) -> Chunk {
        let mut bytes = [0; FRONT_BYTES];
        self.medium.region.read(self.medium.at(offset), &mut bytes);
        self.medium.region.flush(self.medium.at(offset), LINE_BYTES);
        let place = self.pages.place(offset);
        let word = u64_at(&bytes, 0);
        if word == place.free() {
            return Chunk::Free;
        }
        let front = place.front(&bytes);
        let fills = self.fills(offset, &front);
        if self.is_in_a_run(offset) {
            // One burst has stored all of it, or a part.
            self.medium.region.flush(self.medium.at(offset), self.chunk_room(offset).unwrap_or_default());
            // What stood there before may be whole behind a new word.
            let is_of_record = match place.sort_of(word, front.version) {
                Some(Sort::Dying) => true,
                sort => sort.is_some() && front.sound,
            };
            if !is_of_record || !fills || self.whole(offset).is_none() {
                return Chunk::Other;
            }
        }
        let sort = place.sort_of(word, front.version);
        match sort {
            _ if front.sound && !fills => Chunk::Lost,
            Some(Sort::Step) if front.sound && !self.counts(front.version) => Chunk::Other,
            Some(Sort::Dying) => self.look_at_dying(offset, &front),
            _ if front.sound => Chunk::Record(found(offset, &front, sort.is_some())),
            _ if word == place.word(Sort::Piece, front.hash) => {
                self.last_value.fetch_max(front.hash, Relaxed);
                Chunk::Other
            }
            // Its record may tell what the front does not.
            Some(_) => self.look_at_record(offset, &front),
            None => Chunk::Lost,
        }
    }

    /// Whether a record takes all lines of its chunk: of objects each does, or a start is missing or one too many.
    fn fills(&self, offset: u64, front: &Front) -> bool {
        !self.pages.has_objects()
            || self.pages.number(offset).is_some_and(|(_, lines, _)| front.lines() == lines)
    }

    /// Whether the step of this version counts.
    fn counts(&self, version: u64) -> bool {
        let intent =
            self.under_way.get().and_then(|under_way| under_way.intents.get(Version(version).slot()));
        intent.is_some_and(|intent| *intent >= version)
    }

    fn look_at_dying(&self, offset: u64, front: &Front) -> Chunk {
        if front.sound {
            // Nobody had said yet which version removes it.
            self.found.lock().dying.push((offset, front.version));
            return Chunk::Record(found(offset, front, true));
        }
        if front.hash > front.version && self.counts(front.hash) {
            return Chunk::Other;
        }
        let chunk = self.look_at_record(offset, front);
        if let Chunk::Record(record) = &chunk {
            self.found.lock().dying.push((offset, record.version));
        }
        chunk
    }

    /// The same of a record whose front does not hold together.
    fn look_at_record(&self, offset: u64, front: &Front) -> Chunk {
        let Some(bytes) = self.whole(offset) else { return Chunk::Lost };
        let Some(view) = self.view(offset, &bytes).filter(|_| self.fills(offset, front)) else {
            return Chunk::Lost;
        };
        let (hash, check) = (
            self.hasher.key(view.head.meta.db(), view.key).hash,
            self.hasher.check(view.head.meta.db(), view.key),
        );
        self.found.lock().heads.push((offset, self.pages.place(offset).head(hash, check, &bytes)));
        Chunk::Record(found(offset, &Front { hash, check, expire_at: view.head.expire_at, ..*front }, true))
    }

    /// What whole-database flushes have forgotten, as a manifest says.
    pub(crate) fn note_flushes(&self, manifest: &Manifest) {
        for (known, flushed) in self.flushed.iter().zip(&manifest.flush_versions) {
            known.store(*flushed, Relaxed);
        }
    }

    /// Brings the index back that the heap keeps, and learns of pages what their headers say.
    pub(crate) fn reopen_with(&self, table: &PmTable<R>, manifest: &Manifest) -> Result<Counted, StoreError> {
        let (mut of_index, mut unknown, mut free) = (Vec::new(), Vec::new(), Vec::new());
        let mut newest = 0;
        for page in 0..self.pages.table.len() as u32 {
            let mut line = [0; LINE_BYTES];
            let start = u64::from(page) * self.pages.page_bytes as u64;
            self.medium.region.read(self.medium.at(start), &mut line);
            self.medium.region.flush(self.medium.at(start), LINE_BYTES);
            let header = match PageHeader::decode(&line, self.medium.store_id, page) {
                StoredPage::Index(header) => {
                    self.pages.set_index(page, header.seq);
                    of_index.push((header.ordinal, page));
                    Some(header)
                }
                StoredPage::Used(header) => {
                    let class = self.pages.classes.known(header.lines).ok_or_else(|| {
                        self.corrupt(&format!("page {page} of the heap has chunks of {} lines", header.lines))
                    })?;
                    self.pages.set_class(page, class, header.seq);
                    unknown.push(page);
                    Some(header)
                }
                StoredPage::Empty(header) => {
                    free.push(page);
                    header
                }
                StoredPage::Damaged => {
                    return Err(self.corrupt(&format!("page {page} of the heap is damaged")));
                }
            };
            newest = header.map_or(newest, |header| newest.max(header.seq));
        }
        self.medium.region.fence();
        {
            let mut alloc = self.pages.alloc();
            alloc.seq = newest;
            free.reverse();
            alloc.free = free;
        }
        for page in &unknown {
            self.pages.table[*page as usize].unknown.store(true, Release);
        }
        // No number of a value that is there is as high: all were given below a floor of versions that was stored before.
        self.last_value.store(manifest.version_floor, Relaxed);
        self.unknown_pages.store(unknown.len() as u64 + u64::from(!unknown.is_empty()), Relaxed);
        unknown.reverse();
        self.learning.begin(unknown, manifest.version_floor);
        let counted = table.reopen(&of_index, &manifest.flush_versions)?;
        self.records.store(counted.keys.iter().sum(), Relaxed);
        Ok(counted)
    }

    /// Stores the words of a chunk's head behind the first; durable after a fence of this thread.
    pub(crate) fn store_head(&self, offset: u64, [hash, rest]: [u64; 2]) {
        self.medium.region.store_u64(self.medium.at(offset) + 8, hash);
        self.medium.region.store_u64(self.medium.at(offset) + 16, rest);
        self.medium.region.flush(self.medium.at(offset) + 8, 16);
    }

    fn adopt_at(&self, offset: u64) {
        let Some((page, class, chunk)) = self.pages.number(offset) else { return };
        if self.pages.table[page as usize].seen.set(chunk) {
            self.found.lock().lost.remove(&offset);
            self.pages.note_taken(&mut self.pages.alloc(), page, class, chunk);
            self.pages.table[page as usize].seen.set(chunk);
        }
    }

    fn adopt_parts(&self, description: &[u8]) {
        self.last_value.fetch_max(number_of(description), Relaxed);
        parts(description).for_each(|offset| self.adopt_at(offset));
        self.live_bytes.fetch_add(space::LargeValues::extent_bytes(self, description), Relaxed);
    }
}

fn found(offset: u64, front: &Front, is_known: bool) -> space::Found {
    space::Found {
        hash: front.hash,
        check: front.check,
        version: front.version,
        address: Address::new(offset),
        words: front.meta.slot_words() as u32,
        kind: if is_known { front.meta.kind() } else { Kind::Poison },
        db: front.meta.db(),
        life: Lifetime { expire_at: front.expire_at, alone: front.meta.is_alone() },
    }
}

impl<R: ByteRegion> Durable for HeapSpace<R> {
    const SELF_KEPT: bool = true;

    fn persisted_seq(&self) -> u64 {
        0
    }
    fn last_seq(&self) -> u64 {
        0
    }
    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
    fn save_manifest(&self, bytes: &[u8]) -> std::io::Result<()> {
        let mut manifest = self.manifest.lock();
        manifest.0.copy_from_slice(&bytes[..MANIFEST_BYTES]);
        self.medium.save_manifest(&manifest.0, manifest.1);
        if let Some(manifest) = Manifest::decode(bytes) {
            self.note_flushes(&manifest);
            if let Some(table) = &self.table {
                table.flush(&manifest.flush_versions);
            }
        }
        Ok(())
    }
    fn failure(&self) -> Option<Failure> {
        None
    }
    fn scan_media(
        &self,
        _trusted_seq: u64,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        found: &(dyn Fn(space::Found) + Sync),
    ) -> Result<(), StoreError> {
        self.read_sessions()?;
        debug_assert!(self.medium.geometry.sessions <= SLOTS_MAX, "a version names its session");
        self.each_page(threads, progress, &|page| self.scan_page(page, found))
    }
    fn scan_again(
        &self,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        found: &(dyn Fn(space::Found) + Sync),
    ) -> Result<(), StoreError> {
        self.each_page(threads, progress, &|page| {
            for (size, chunk) in self.pages.chunks(page) {
                if let Chunk::Record(record) = self.look(self.pages.offset(page, size, chunk)) {
                    found(record);
                }
            }
            Ok(())
        })
    }
    fn scanned(&self) -> Scanned {
        self.pages.scanned()
    }
    fn recovery_bytes(&self, index_bytes: u64) -> u64 {
        self.dram_bytes.load(Relaxed).saturating_sub(index_bytes + self.tables_bytes()).max(1 << 20)
    }
    fn read_keys(
        &self,
        addresses: &[Address],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        for (i, address) in addresses.iter().enumerate() {
            let bytes = self.whole(address.raw());
            found(i, bytes.as_deref().and_then(|bytes| self.view(address.raw(), bytes)).map(|view| view.key));
        }
        Ok(())
    }
    fn adopt(&self, found: &space::Found) {
        let offset = found.address.raw();
        self.adopt_at(offset);
        let page = &self.pages.table[self.pages.page_of(offset) as usize];
        if found.life.expires() {
            page.min_expire.fetch_min(found.life.expire_at, Release);
        }
        self.records.fetch_add(1, Relaxed);
        self.live_bytes.fetch_add(u64::from(found.words) * 8, Relaxed);
        if found.kind == Kind::Extent
            && let Some(bytes) = self.whole(offset)
            && let Some(view) = self.view(offset, &bytes)
        {
            self.adopt_parts(view.value);
        }
    }
    fn adopt_extent(&self, description: &[u8]) {
        self.adopt_parts(description);
    }
    fn reopen(&self, manifest: &Manifest) -> Result<Option<Counted>, StoreError> {
        self.table.as_ref().map(|table| self.reopen_with(table, manifest)).transpose()
    }
    fn clear_torn(&self) -> Result<(), StoreError> {
        let mut all = self.found.lock();
        if let Some(offset) = all.lost.iter().min() {
            return Err(self.corrupt(&format!("the chunk at {offset} of the heap is damaged")));
        }
        // Before the words of those that were dying: a word says of the hash which it is.
        for (offset, head) in all.heads.drain(..) {
            self.store_head(offset, head);
        }
        self.medium.region.fence();
        for (offset, version) in all.dying.drain(..) {
            self.medium.store_word(offset, self.pages.place(offset).word(Sort::Record, version));
        }
        self.medium.region.fence();
        Ok(())
    }
    fn finish_recovery(&self) -> Result<(), StoreError> {
        if self.table.is_some() {
            return Ok(());
        }
        let unadopted = self.pages.unadopted();
        self.medium.free(unadopted.iter().map(|offset| (*offset, self.pages.place(*offset).free())));
        // No chunk is torn any more.
        let none = [0; crate::layout::RUN_CHUNKS];
        let slots = (0..self.medium.geometry.sessions).filter(|slot| self.medium.run(*slot) != none);
        slots.for_each(|slot| self.medium.store_run(slot, &none));
        self.pages.list_found();
        Ok(())
    }
}
