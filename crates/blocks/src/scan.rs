//! Opening what is on the medium: every slot's header and trailer, then the footers of the blocks that count.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use parking_lot::Mutex;
use terrace_engine::record::Kind;
use terrace_engine::{Scanned, StoreError};
use terrace_media::READINGS_MAX;

use crate::blocks::Blocks;
use crate::footer::{footer, read_footer};
use crate::gather::read_table;
use crate::held::Held;
use crate::layout::{
    BLOCK_HEADER_BYTES, BlockKind, BlockTrailer, FooterEntry, Header, Stored, TRAILER_BYTES, checked,
};
use crate::lower::Lower;
use crate::place::Place;
use crate::slots::State;
use crate::written::stored_count;

/// Takes a record of a block that counts: its slot, what the footer says of it, the words of its place.
pub type FoundRecord<'a> = &'a (dyn Fn(u32, &FooterEntry, u32) + Sync);

/// What a slot was read to hold.
#[derive(PartialEq)]
pub(crate) enum Reading {
    Free {
        /// Its header was cleared, and is whole but for that.
        used: bool,
    },
    /// Header and trailer are zeros: never written, or lost.
    Blank,
    /// A flush that a crash tore, or a block that was being freed: the log has all of it, or nobody needs it.
    Torn {
        /// What stands in the place of its header is none, not even a cleared one.
        headless: bool,
    },
    Extents {
        seq: u64,
        /// Where its pieces were written, if that was elsewhere.
        gathered: Option<Vec<Held>>,
    },
    /// What a clean stop saved, or began to: a scan makes it worthless.
    Snapshot {
        seq: u64,
    },
    Whole {
        trailer: BlockTrailer,
        list: Vec<FooterEntry>,
    },
    /// It was whole once.
    Damaged(&'static str),
}

impl<L: Lower> Blocks<L> {
    /// Finds what the tier holds. Blocks up to `trusted_seq` were flushed whole, says the manifest. `threads` read; `progress`
    /// gets bytes done and in all.
    ///
    /// # Errors
    /// The device's; [`StoreError::Corrupt`] if a block that was whole is damaged.
    pub fn scan_blocks(
        &self,
        trusted_seq: u64,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        found: FoundRecord<'_>,
    ) -> Result<(), StoreError> {
        self.last_seq.fetch_max(trusted_seq, SeqCst);
        let count = stored_count(&self.lower, self.store_id)
            .map_err(StoreError::io("reading how many blocks were written"))?;
        self.written.found(count, &self.slots);
        self.each_slot(threads, progress, &|number| self.scan_slot(number, trusted_seq, found))?;
        // A use that was begun as the store died may have left words of its header that don't show their number: no more uses than
        // there are slots. One that got such a number again would complete that header, and not its own, if it died as early.
        if self.last_seq.load(SeqCst) > 0 {
            self.last_seq.fetch_add(self.slots.len() as u64, SeqCst);
        }
        Ok(())
    }

    /// How many blocks hold records that [`scan_blocks`](Self::scan_blocks) reported, of how many there are.
    pub fn scanned(&self) -> Scanned {
        Scanned { pages: self.scanned.load(Relaxed), of: self.slots.len() as u64 }
    }

    /// Reports the records of all blocks that count, as [`scan_blocks`](Self::scan_blocks) did: their footers are read again.
    ///
    /// # Errors
    /// The device's; [`StoreError::Corrupt`] if a footer no longer reads as it did.
    pub fn scan_again(
        &self,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        found: FoundRecord<'_>,
    ) -> Result<(), StoreError> {
        self.each_slot(threads, progress, &|number| {
            let slot = &self.slots[number as usize];
            if slot.state() != State::Sealed {
                return Ok(());
            }
            let (seq, count) = (slot.seq.load(Relaxed), slot.count.load(Relaxed));
            for _ in 0..READINGS_MAX {
                let bytes = slot.footer_bytes();
                let read = read_footer(&self.lower, self.block_offset(number), self.block_bytes, bytes)
                    .map_err(|source| StoreError::Io { what: format!("reading block {number}"), source })?;
                if let Some((trailer, list)) = read
                    && (trailer.seq, trailer.count) == (seq, count)
                {
                    report(number, &trailer, &list, found);
                    return Ok(());
                }
            }
            Err(damaged(number, "its footer does not read as it did before"))
        })
    }

    /// Has `threads` look at every slot, until one of them fails. What a dead process left in caches, and was looked at, is
    /// durable then.
    pub(crate) fn each_slot(
        &self,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        look: &(dyn Fn(u32) -> Result<(), StoreError> + Sync),
    ) -> Result<(), StoreError> {
        let next = AtomicUsize::new(0);
        let done = AtomicU64::new(0);
        let failure: Mutex<Option<StoreError>> = Mutex::new(None);
        let total = self.slots.len() as u64 * self.block_bytes as u64;
        let work = || {
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= self.slots.len() || failure.lock().is_some() {
                    break;
                }
                if let Err(error) = look(number as u32) {
                    *failure.lock() = Some(error);
                    return;
                }
                let before = done.fetch_add(self.block_bytes as u64, Relaxed);
                progress(before + self.block_bytes as u64, total);
            }
            // Block media were synced before; here a fence covers what its own thread wrote back.
            if L::DIRECT
                && let Err(source) = self.lower.sync()
            {
                let what = "writing back what the last process left".into();
                failure.lock().get_or_insert(StoreError::Io { what, source });
            }
        };
        if threads <= 1 || self.slots.len() < 64 {
            work();
        } else {
            std::thread::scope(|scope| {
                for _ in 1..threads {
                    scope.spawn(work);
                }
                work();
            });
        }
        failure.into_inner().map_or(Ok(()), Err)
    }

    /// Reads a slot. A whole block proves itself; anything else counts when two readings agree: a page from elsewhere may look
    /// free, one from earlier like an earlier use of the slot.
    pub(crate) fn agreed_reading(&self, number: u32, trusted_seq: u64) -> Result<Reading, StoreError> {
        let mut reading = self.read_slot(number, trusted_seq)?;
        let mut agreed = matches!(reading, Reading::Whole { .. });
        for _ in 1..READINGS_MAX {
            if agreed {
                break;
            }
            let again = self.read_slot(number, trusted_seq)?;
            agreed = again == reading || matches!(again, Reading::Whole { .. });
            reading = again;
        }
        if !agreed {
            let what = format!("reading block {number}");
            return Err(StoreError::Io { what, source: terrace_media::agreed::differ() });
        }
        Ok(reading)
    }

    /// Reads a slot and takes what it holds into account.
    fn scan_slot(&self, number: u32, trusted_seq: u64, found: FoundRecord<'_>) -> Result<(), StoreError> {
        let slot = &self.slots[number as usize];
        match self.agreed_reading(number, trusted_seq)? {
            Reading::Blank if self.written.knows(number) => self.written.vanished(number),
            Reading::Free { used } => {
                slot.written.fetch_or(used, Relaxed);
            }
            Reading::Blank => {}
            Reading::Torn { headless } => {
                slot.begin(State::Freeing, 0, None, 0);
                if headless {
                    self.lost_headers.lock().push(number);
                }
            }
            Reading::Extents { seq, gathered } => {
                slot.written.store(true, Relaxed);
                slot.begin(State::Extents, seq, None, self.block_bytes as u32);
                if let Some(table) = gathered {
                    self.found_gathered(number, seq, &table);
                }
            }
            Reading::Snapshot { seq } => {
                slot.written.store(true, Relaxed);
                slot.begin(State::Freeing, seq, None, 0);
            }
            Reading::Whole { trailer, list } => {
                self.scanned.fetch_add(1, Relaxed);
                self.found_block(number, &trailer, &list, found);
            }
            Reading::Damaged(what) => return Err(damaged(number, what)),
        }
        Ok(())
    }

    /// One reading of a slot.
    fn read_slot(&self, number: u32, trusted_seq: u64) -> Result<Reading, StoreError> {
        let size = self.block_bytes;
        let start = self.block_offset(number);
        if start >= self.written_end {
            return Ok(Reading::Blank);
        }
        let failed = |source| StoreError::Io { what: format!("reading block {number}"), source };
        let mut head = [0; BLOCK_HEADER_BYTES];
        self.lower.read(start, &mut head).map_err(failed)?;
        let header = Header::decode(&head, self.store_id, number);
        let mut tail = [0; TRAILER_BYTES];
        self.lower.read(start + (size - TRAILER_BYTES) as u64, &mut tail).map_err(failed)?;
        let trailer = BlockTrailer::decode(&tail, size);
        self.lower.secure(start, BLOCK_HEADER_BYTES);
        self.lower.secure(start + (size - TRAILER_BYTES) as u64, TRAILER_BYTES);
        let seq = match header {
            Stored::Empty if head == [0; BLOCK_HEADER_BYTES] && tail == [0; TRAILER_BYTES] => {
                return Ok(Reading::Blank);
            }
            Stored::Empty => {
                // Also one that was never begun in full: see `gather`.
                let before = Header::cleared(&head, self.store_id, number);
                self.last_seq.fetch_max(before.map_or(0, |header| header.seq), SeqCst);
                return Ok(self.read_free(before, trailer, trusted_seq));
            }
            Stored::Valid(header) => {
                self.last_seq.fetch_max(header.seq, SeqCst);
                match header.kind {
                    // The end of a large value may look like a trailer.
                    BlockKind::Extents => return Ok(Reading::Extents { seq: header.seq, gathered: None }),
                    BlockKind::Gathered => return self.read_gathered(number, header.seq),
                    BlockKind::Snapshot => return Ok(Reading::Snapshot { seq: header.seq }),
                    BlockKind::Records => header.seq,
                }
            }
            _ => match trailer {
                // A torn flush leaves a trailer of a seq that is not trusted, or none: this one was whole once.
                Stored::Valid(trailer) if trailer.seq <= trusted_seq => {
                    return Ok(Reading::Damaged("its header's checksum does not match"));
                }
                _ => return Ok(Reading::Torn { headless: true }),
            },
        };
        let trailer = match trailer {
            Stored::Valid(trailer) if trailer.seq == seq => trailer,
            // Freeing a block clears both words; a crash between them leaves this.
            Stored::Empty if BlockTrailer::cleared(&tail, size).is_some_and(|cleared| cleared.seq == seq) => {
                return Ok(Reading::Torn { headless: false });
            }
            _ if seq <= trusted_seq => return Ok(Reading::Damaged("its trailer's checksum does not match")),
            _ => return Ok(Reading::Torn { headless: false }),
        };
        if seq <= trusted_seq {
            let footer = read_footer(&self.lower, start, size, 0).map_err(failed)?;
            return Ok(match footer {
                Some((again, list)) if again == trailer => Reading::Whole { trailer, list },
                _ => Reading::Damaged(
                    "its footer does not match its checksum or its records, so its keys can't be identified",
                ),
            });
        }
        // Not known to have been flushed whole: only if all of it is there.
        let mut block = vec![0; size];
        self.lower.read(start, &mut block).map_err(failed)?;
        self.lower.secure(start, size);
        let end = (trailer.data_end as usize).clamp(BLOCK_HEADER_BYTES, size);
        let whole = crc32c::crc32c(&block[BLOCK_HEADER_BYTES..end]) == trailer.data_crc;
        Ok(match footer(&block, size) {
            Some((again, list)) if whole && again == trailer => Reading::Whole { trailer, list },
            _ => Reading::Torn { headless: false },
        })
    }

    /// One reading of a block that large values were gathered to.
    fn read_gathered(&self, number: u32, seq: u64) -> Result<Reading, StoreError> {
        let start = self.block_offset(number);
        let table = read_table(&self.lower, (start, self.block_bytes), (self.store_id, seq))
            .map_err(|source| StoreError::Io { what: format!("reading block {number}"), source })?;
        // It was durable before the header was written.
        if table.is_none() {
            tracing::error!("block {number}: its table is damaged; the large values in it answer errors");
        }
        Ok(Reading::Extents { seq, gathered: Some(table.unwrap_or_default()) })
    }

    /// A block that counts.
    fn found_block(&self, number: u32, trailer: &BlockTrailer, list: &[FooterEntry], found: FoundRecord<'_>) {
        let slot = &self.slots[number as usize];
        slot.written.store(true, Relaxed);
        slot.begin(State::Sealed, trailer.seq, None, trailer.data_end);
        slot.count.store(trailer.count, Relaxed);
        slot.expiring.store(trailer.deadlines, Relaxed);
        self.list_deadlines(number, trailer.max_version, list, trailer.data_end);
        slot.min_version.store(list.iter().map(|entry| entry.version).min().unwrap_or(0), Relaxed);
        if trailer.count > 0 {
            let average = (trailer.data_end as u64 / u64::from(trailer.count)).next_multiple_of(64);
            self.typical_bytes.store(average, Relaxed);
        }
        report(number, trailer, list, found);
    }

    /// A slot whose header is cleared, or gone.
    fn read_free(&self, cleared: Option<Header>, trailer: Stored<BlockTrailer>, trusted_seq: u64) -> Reading {
        let used = cleared.is_some();
        let Stored::Valid(trailer) = trailer else { return Reading::Free { used } };
        self.last_seq.fetch_max(trailer.seq, SeqCst);
        match cleared {
            // What looks like a trailer is a large value's.
            Some(header) if header.kind != BlockKind::Records => Reading::Free { used },
            // Freeing clears two words, and a crash may keep one.
            Some(header) if header.seq == trailer.seq => Reading::Torn { headless: false },
            _ if trailer.seq <= trusted_seq => Reading::Damaged("its header is gone"),
            _ => Reading::Torn { headless: !used },
        }
    }

    /// The index refers to this record: it is live, and the large value that it describes.
    pub fn adopt_record(&self, place: Place, words: u32, kind: Kind) {
        let slot = &self.slots[place.slot as usize];
        slot.live_bytes.fetch_add(i64::from(words) * 8, Relaxed);
        if kind != Kind::Extent {
            return;
        }
        let mut bytes = vec![0; words as usize * 8];
        // Twice, before what it describes is given up: it may be the reading that went wrong.
        for _ in 0..2 {
            let offset = self.block_offset(place.slot) + u64::from(place.offset);
            if let Err(source) = self.lower.read(offset, &mut bytes) {
                let what = format!("reading a large value's record in block {}", place.slot);
                self.adoption_failed.lock().get_or_insert(StoreError::Io { what, source });
                return;
            }
            if let Some(view) = checked(slot.seq.load(Relaxed), place.slot, place.offset, &bytes) {
                self.adopt_pieces(view.value);
                return;
            }
        }
    }

    /// The keys of these records, each block being read once for neighbours.
    ///
    /// # Errors
    /// The device's.
    pub fn read_record_keys(
        &self,
        places: impl Iterator<Item = Place>,
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        let mut bytes = vec![0; self.block_bytes];
        let mut loaded = None;
        for (i, Place { slot, offset }) in places.enumerate() {
            let seq = self.slots[slot as usize].seq.load(Relaxed);
            // Twice, before a record is given up: it may be the reading that went wrong.
            for attempt in 0..2 {
                if loaded != Some(slot) || attempt > 0 {
                    let failed = StoreError::io(format!("reading block {slot}"));
                    self.lower.read(self.block_offset(slot), &mut bytes).map_err(failed)?;
                    loaded = Some(slot);
                }
                let view = bytes.get(offset as usize..).and_then(|bytes| checked(seq, slot, offset, bytes));
                if view.is_some() || attempt > 0 {
                    found(i, view.filter(|view| view.head.meta.kind() != Kind::Poison).map(|view| view.key));
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Reports a block's records, each with the words of its place.
fn report(number: u32, trailer: &BlockTrailer, list: &[FooterEntry], found: FoundRecord<'_>) {
    for (i, entry) in list.iter().enumerate() {
        let end = list.get(i + 1).map_or(trailer.data_end, |next| next.offset);
        found(number, entry, end.saturating_sub(entry.offset) / 8);
    }
}

/// A block that counts and can't be read.
pub(crate) fn damaged(number: u32, what: &str) -> StoreError {
    StoreError::Corrupt(format!(
        "block {number} was written whole and is damaged: {what}; run `terrace check --repair DIR` to give up what it held"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_media::HeapRegion;

    use super::*;
    use crate::byte_tier::ByteTier;

    const STORE: u64 = 1;
    const TRUSTED: u64 = 9;

    fn blocks() -> Blocks<ByteTier<HeapRegion>> {
        let bytes = 64 << 10;
        let lower = ByteTier::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, bytes, String::new());
        again(lower)
    }

    fn again(lower: ByteTier<HeapRegion>) -> Blocks<ByteTier<HeapRegion>> {
        Blocks::new(lower, 1024, STORE).unwrap()
    }

    fn scan(blocks: &Blocks<ByteTier<HeapRegion>>) -> Result<(), StoreError> {
        blocks.scan_blocks(TRUSTED, 1, &|_, _| {}, &|_, _, _| {})
    }

    #[test]
    fn new_uses_of_slots_are_newer_than_all_that_is_found() {
        let found = |kind: BlockKind, is_begun: bool| {
            let blocks = blocks();
            let mut header = Header { store_id: STORE, seq: 70, slot: 2, kind }.encode();
            if !is_begun {
                header[..8].fill(0);
            }
            blocks.lower.write(blocks.block_offset(2), &header).unwrap();
            scan(&blocks).unwrap();
            (blocks.last_seq.load(SeqCst), 70 + blocks.slots.len() as u64)
        };
        let (last, expected) = found(BlockKind::Extents, true);
        assert_eq!(last, expected, "behind what the manifest trusts, and there all the same");
        let (last, expected) = found(BlockKind::Gathered, false);
        assert_eq!(last, expected, "a header that waits for its block to be whole");
    }

    #[test]
    fn a_block_with_the_trailer_of_another_use_is_damage() {
        for (trailer_seq, sound) in [(5, true), (4, false)] {
            let blocks = blocks();
            let header = Header { store_id: STORE, seq: 5, slot: 2, kind: BlockKind::Records };
            let trailer = BlockTrailer {
                seq: trailer_seq,
                count: 0,
                data_end: BLOCK_HEADER_BYTES as u32,
                max_version: 0,
                min_expire: u64::MAX,
                deadlines: 0,
                footer_crc: crc32c::crc32c(&[]),
                data_crc: crc32c::crc32c(&[]),
            };
            let start = blocks.block_offset(2);
            blocks.lower.write(start, &header.encode()).unwrap();
            blocks.lower.write(start + (1024 - TRAILER_BYTES) as u64, &trailer.encode()).unwrap();
            assert_eq!(scan(&blocks).is_ok(), sound, "a header of use 5, a trailer of use {trailer_seq}");
        }
    }
}
