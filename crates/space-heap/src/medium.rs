//! The memory under the heap, and where what lies in it: offsets of chunks are from the first page on.
//!
//! # Thread safety
//! Whoever took a chunk writes it; reads run at any time.

use std::collections::HashSet;
use std::sync::Arc;

use terrace_blocks::u64_at;
use terrace_engine::version::Version;
use terrace_media::ByteRegion;

use crate::layout::{FRONT_BYTES, LINE_BYTES, OBJECT_LINES, PageHeader, Place, RUN_CHUNKS, StoredPage};
use crate::map::Use;
use crate::table::TableFront;

/// Bytes for a copy of the manifest.
pub const MANIFEST_COPY_BYTES: u64 = 256;
const INTENT_BYTES: u64 = 16;
const RUN_BYTES: u64 = RUN_CHUNKS as u64 * 8;

/// What a heap measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Sessions that can ever be open at once.
    pub sessions: usize,
    /// How long chunks are. With an index in the heap they are of classes.
    pub granularity: Granularity,
    /// Entries in ten buckets above which the index grows, where it lies in the heap, too: see [`INDEX_LOAD`].
    pub index_load: Option<u64>,
}

/// How long the chunks of a heap are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    /// Of a class of lengths, those of a page of the same: slabs, as Memcached has them.
    #[default]
    Slab,
    /// As long as the record needs: an allocation a record, as Redis has them.
    Object,
}

impl std::str::FromStr for Granularity {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "slab" => Ok(Self::Slab),
            "object" => Ok(Self::Object),
            _ => Err(format!("{text:?}: expected slab or object")),
        }
    }
}

impl std::fmt::Display for Granularity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Slab => "slab",
            Self::Object => "object",
        })
    }
}

/// With so many an entry takes some 15 bytes, and most look-ups one line.
pub const INDEX_LOAD: u64 = 46;

impl Geometry {
    fn intents_bytes(&self) -> u64 {
        (self.sessions as u64 * INTENT_BYTES).next_multiple_of(LINE_BYTES as u64)
    }
    fn intent_at(&self, copy: u64, slot: usize) -> u64 {
        2 * MANIFEST_COPY_BYTES + copy * self.intents_bytes() + slot as u64 * INTENT_BYTES
    }
    fn run_at(&self, slot: usize) -> u64 {
        2 * (MANIFEST_COPY_BYTES + self.intents_bytes()) + slot as u64 * RUN_BYTES
    }
    fn table_at(&self) -> u64 {
        self.run_at(self.sessions).next_multiple_of(MANIFEST_COPY_BYTES)
    }
    /// Bytes in front of the first page.
    pub fn front_bytes(&self) -> u64 {
        let table = TableFront::new(0, self.page_bytes).bytes();
        (self.table_at() + if self.index_load.is_some() { table } else { 0 })
            .next_multiple_of(MANIFEST_COPY_BYTES)
    }
}

/// What a run says of an extent: where it starts, and how many lines it has.
pub fn extent_word(start: u64, end: u64) -> u64 {
    start / LINE_BYTES as u64 * 65536 + (end - start) / LINE_BYTES as u64
}
/// Where such an extent starts and ends.
pub fn extent(word: u64) -> (u64, u64) {
    let start = word / 65536 * LINE_BYTES as u64;
    (start, start + word % 65536 * LINE_BYTES as u64)
}

/// A region from byte `base` on.
pub struct Medium<R> {
    pub region: Arc<R>,
    base: u64,
    pub geometry: Geometry,
    pub store_id: u64,
    pages_at: u64,
}

impl<R: ByteRegion> Medium<R> {
    /// # Panics
    /// If the part starts inside a line.
    pub fn new(region: Arc<R>, base: u64, geometry: Geometry, store_id: u64) -> Self {
        assert!(base.is_multiple_of(LINE_BYTES as u64), "a heap starts at a line");
        Self { region, base, geometry, store_id, pages_at: base + geometry.front_bytes() }
    }
    /// Where a copy of the manifest starts in the region.
    pub fn manifest_at(&self, copy: u64) -> u64 {
        self.base + copy * MANIFEST_COPY_BYTES
    }
    /// Where what an index on the medium keeps in front of the pages lies.
    pub fn table_front(&self) -> TableFront {
        TableFront::new(self.base + self.geometry.table_at(), self.geometry.page_bytes)
    }
    /// Where the heap starts in the region.
    pub fn start(&self) -> u64 {
        self.base
    }
    /// Where a byte of the pages lies in the region.
    #[inline]
    pub fn at(&self, offset: u64) -> u64 {
        self.pages_at + offset
    }
    /// Pages that there is room for in so many bytes of the region.
    pub fn pages_in(&self, region_bytes: u64) -> usize {
        (region_bytes.saturating_sub(self.pages_at) / self.geometry.page_bytes as u64) as usize
    }

    /// Makes durable what a dead process had stored of manifest, intents and runs.
    pub fn secure_front(&self) {
        self.region.flush(self.base, self.geometry.front_bytes() as usize);
        self.region.fence();
    }

    /// The newest version of a session's steps that count, in both copies when this returns; an error if neither holds together.
    pub fn agree_on_intent(&self, slot: usize) -> Result<u64, ()> {
        let (first, second) = (self.intent(0, slot), self.intent(1, slot));
        let version = first.max(second).ok_or(())?;
        if first != second {
            // The other one first: what is stored next may be cut off in what would be the only one.
            let older = u64::from(first == Some(version));
            [older, 1 - older].into_iter().for_each(|copy| self.store_intent_copy(copy, slot, version));
        }
        Ok(version)
    }
    /// What a copy says; `None` if it does not hold together.
    pub fn intent(&self, copy: u64, slot: usize) -> Option<u64> {
        let at = self.base + self.geometry.intent_at(copy, slot);
        let (version, check) = (self.region.load_u64(at), self.region.load_u64(at + 8));
        let is_new = (version, check) == (0, 0);
        (is_new || check == self.intent_check(version)).then_some(version)
    }
    /// Stores the newest version of its session's steps; durable when it returns. One copy after the other: a crash tears one at most.
    pub fn store_intent(&self, version: u64) {
        self.put_intent(Version(version).slot(), version);
    }
    /// The same for a session whatever its version says.
    pub fn put_intent(&self, slot: usize, version: u64) {
        (0..2).for_each(|copy| self.store_intent_copy(copy, slot, version));
    }
    fn store_intent_copy(&self, copy: u64, slot: usize, version: u64) {
        let at = self.base + self.geometry.intent_at(copy, slot);
        let check = if version == 0 { 0 } else { self.intent_check(version) };
        self.region.store_u64(at, version);
        self.region.store_u64(at + 8, check);
        self.region.flush(at, INTENT_BYTES as usize);
        self.region.fence();
    }
    fn intent_check(&self, version: u64) -> u64 {
        let mixed = (version ^ self.store_id.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 31
    }

    /// The chunks that a session may have been filling.
    pub fn run(&self, slot: usize) -> [u64; RUN_CHUNKS] {
        std::array::from_fn(|i| self.region.load_u64(self.base + self.geometry.run_at(slot) + i as u64 * 8))
    }
    /// The chunks that a crash may have torn. Of a class a session fills those of its run one by one, from the last to the first: what was
    /// filled before another one was whole by then.
    pub fn torn_at_most(&self) -> HashSet<u64> {
        let mut torn = HashSet::new();
        if self.geometry.granularity == Granularity::Object {
            let runs = (0..self.geometry.sessions).flat_map(|slot| self.run(slot));
            runs.filter(|word| *word != 0).for_each(|word| torn.extend(self.torn_of_extent(word)));
            return torn;
        }
        for slot in 0..self.geometry.sessions {
            let mut begun: Vec<u16> = Vec::new();
            for offset in self.run(slot).into_iter().filter(|offset| *offset != 0) {
                match self.place_of(offset) {
                    Some((_, lines)) if begun.contains(&lines) => continue,
                    Some((place, lines)) if self.region.load_u64(self.at(offset)) != place.free() => {
                        begun.push(lines)
                    }
                    Some(_) | None => {}
                }
                torn.insert(offset);
            }
        }
        torn
    }
    /// The same of an extent: the last chunk in it, and the one before that if nothing stands in the last one (see [`map`](crate::map)).
    fn torn_of_extent(&self, word: u64) -> impl Iterator<Item = u64> + use<R> {
        let (start, end) = extent(word);
        let found =
            self.place_of(start).filter(|(_, lines)| *lines == OBJECT_LINES).and_then(|(place, _)| {
                let of = Use { seq: place.seq, page: place.page };
                let first = place.offset as usize / LINE_BYTES;
                let behind = first + (end - start) as usize / LINE_BYTES;
                let all = self.geometry.page_bytes / LINE_BYTES;
                let starts = self.stored_starts(of).filter(|_| behind <= all)?;
                let before =
                    |line: usize| starts.bits.clear_before(line).checked_sub(1).filter(|line| *line >= first);
                let last = before(behind)?;
                let is_filled = self.is_filled(of.place(last), starts.bits.next(last + 1, all, true) - last);
                let at = start - u64::from(place.offset);
                let chunks = [Some(last), before(last).filter(|_| !is_filled)];
                Some(chunks.map(|line| line.map(|line| at + (line * LINE_BYTES) as u64)))
            });
        found.into_iter().flatten().flatten()
    }
    /// Whether a whole record fills a chunk of so many lines.
    fn is_filled(&self, place: Place, lines: usize) -> bool {
        let mut bytes = vec![0; lines * LINE_BYTES];
        let at = u64::from(place.page) * self.geometry.page_bytes as u64 + u64::from(place.offset);
        self.region.read(self.at(at), &mut bytes);
        let front = place.front(&std::array::from_fn::<u8, FRONT_BYTES, _>(|i| bytes[i]));
        // A record that was let go may be whole behind a free word.
        let is_free = u64_at(&bytes, 0) == place.free();
        !is_free && front.lines() == lines && front.sound && place.view(&bytes).is_some()
    }
    /// A chunk's place and lines, as its page's header says.
    fn place_of(&self, offset: u64) -> Option<(Place, u16)> {
        let (page, at) = (offset / self.geometry.page_bytes as u64, offset % self.geometry.page_bytes as u64);
        if page >= self.pages_in(self.region.len()) as u64 || !at.is_multiple_of(8) {
            return None;
        }
        let mut line = [0; LINE_BYTES];
        self.region.read(self.at(page * self.geometry.page_bytes as u64), &mut line);
        match PageHeader::decode(&line, self.store_id, page as u32) {
            StoredPage::Used(header) => {
                Some((Place { seq: header.seq, page: page as u32, offset: at as u32 }, header.lines))
            }
            StoredPage::Index(_) | StoredPage::Empty(_) | StoredPage::Damaged => None,
        }
    }
    /// Stores them; durable when it returns.
    pub fn store_run(&self, slot: usize, run: &[u64; RUN_CHUNKS]) {
        self.region
            .write_nt(self.base + self.geometry.run_at(slot), run.map(u64::to_le_bytes).as_flattened());
        self.region.fence();
    }
}
