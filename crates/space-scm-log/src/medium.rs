//! The memory under the store, and where its parts lie. Places of entries, chains and parts count from the first page on.

use std::io;
use std::sync::Arc;

use terrace_blocks::{Stored, u32_at, u64_at};
use terrace_engine::manifest::{MANIFEST_BYTES, Manifest};
use terrace_media::ByteRegion;

use crate::layout::{EDGE_BYTES, Kind, LINE_BYTES, PageLine, ROOT_BYTES, Root};

/// Bytes for a copy of the manifest.
const MANIFEST_COPY_BYTES: u64 = 256;
/// Roots: two of the newest that is committed, and one that is coming between them. So what damages neighbouring lines leaves one of the two.
pub(crate) const ROOTS: u64 = 3;
pub(crate) const COMMITTED: [u64; 2] = [0, 2];
const COMING: [u64; 1] = [1];
/// Behind the manifest: how many bytes the store was made with, and has now.
const SIZE_AT: usize = MANIFEST_BYTES;
const CRC_AT: usize = SIZE_AT + 16;
const NOW_AT: usize = CRC_AT + 8;
const MAGIC: &[u8; 8] = b"TRCSCMM1";
/// Of a store that has grown. Programs that know of none take its copies for damaged, and leave it alone.
const GROWN_MAGIC: &[u8; 8] = b"TRCSCMM2";
/// Bytes of the log's own header, in front of the pages.
const LOG_HEAD_BYTES: u64 = 128;

/// What a store measured when it was made: kept by whoever opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Buckets of the hash table, a power of two.
    pub buckets: u64,
    /// Bytes of the whole area.
    pub bytes: u64,
}

impl Geometry {
    fn roots_at(&self) -> u64 {
        2 * MANIFEST_COPY_BYTES
    }
    fn lines_at(&self) -> u64 {
        self.roots_at() + ROOTS * ROOT_BYTES as u64
    }
    fn buckets_at(&self) -> u64 {
        self.lines_at() + self.pages() as u64 * 2 * LINE_BYTES as u64
    }
    fn log_at(&self) -> u64 {
        (self.buckets_at() + self.buckets * 8).next_multiple_of(LINE_BYTES as u64)
    }
    /// Bytes in front of the pages, but for the lines of those.
    fn front_bytes(&self) -> u64 {
        self.lines_at() + self.buckets * 8 + LINE_BYTES as u64 + LOG_HEAD_BYTES
    }
    /// Pages that there is room for.
    pub fn pages(&self) -> usize {
        let page = (self.page_bytes + 2 * LINE_BYTES) as u64;
        (self.bytes.saturating_sub(self.front_bytes()) / page) as usize
    }
    /// Pages of the store when it has so many bytes: what lies in front of them does not change.
    fn pages_of(&self, bytes: u64) -> usize {
        let page = self.page_bytes as u64;
        let grown = bytes.saturating_sub(self.log_at() + LOG_HEAD_BYTES) / page;
        if bytes > self.bytes { (grown as usize).max(self.pages()) } else { self.pages() }
    }
    /// Pages whose lines go into one, its own place among them.
    fn lines_a_page(&self) -> u32 {
        ((self.page_bytes - 2 * LINE_BYTES) / (2 * LINE_BYTES)) as u32
    }
    /// The page that has the line of this one, if that is not in front of the pages.
    fn lines_page(&self, page: u32) -> Option<u32> {
        page.checked_sub(self.pages() as u32).map(|beyond| page - beyond % self.lines_a_page())
    }
    /// The least bytes with so many pages.
    pub fn least_bytes(&self, pages: usize) -> u64 {
        self.front_bytes() + (pages * (self.page_bytes + 2 * LINE_BYTES)) as u64
    }
}

/// A region from byte `base` on.
pub struct Medium<R> {
    pub region: Arc<R>,
    base: u64,
    pub geometry: Geometry,
    pub store_id: u64,
    pages_at: u64,
    /// Bytes that the store has now.
    bytes: u64,
    /// And pages: worked out once, for look-ups ask for it.
    pages: usize,
}

impl<R> Medium<R> {
    /// What the manifest takes at the start.
    pub const MANIFESTS_BYTES: u64 = 2 * MANIFEST_COPY_BYTES;
}

impl<R: ByteRegion> Medium<R> {
    /// # Panics
    /// If the part starts inside a line.
    pub fn new(region: Arc<R>, base: u64, geometry: Geometry, store_id: u64) -> Self {
        assert!(base.is_multiple_of(LINE_BYTES as u64), "a store starts at a line");
        let pages_at = base + geometry.log_at() + LOG_HEAD_BYTES;
        let (bytes, pages) = (geometry.bytes, geometry.pages());
        let mut medium = Self { region, base, geometry, store_id, pages_at, bytes, pages };
        if let Some(bytes) = medium.stored_size() {
            (medium.bytes, medium.pages) = (bytes, geometry.pages_of(bytes));
        }
        medium
    }
    /// Pages that it has.
    pub fn pages(&self) -> usize {
        self.pages
    }
    /// Whether a page has lines of pages.
    pub fn is_lines(&self, page: u32) -> bool {
        self.geometry.lines_page(page) == Some(page)
    }
    /// The pages that have lines.
    pub fn lines_pages(&self) -> impl Iterator<Item = u32> {
        let made = self.geometry.pages();
        (made..self.pages).step_by(self.geometry.lines_a_page() as usize).map(|page| page as u32)
    }
    /// Where in the region the store starts, and how long it is.
    pub fn area(&self) -> (u64, u64) {
        (self.base, self.bytes)
    }
    /// Where in the region the log's area starts, and how long it is.
    pub fn log_area(&self) -> (u64, u64) {
        let pages = self.pages as u64 * self.geometry.page_bytes as u64;
        (self.base + self.geometry.log_at(), LOG_HEAD_BYTES + pages)
    }
    /// Where a byte of the log's area lies, from the first page on.
    pub fn place_of_log(&self, offset: u64) -> u64 {
        offset - LOG_HEAD_BYTES
    }
    /// Where a place lies in the region.
    #[inline]
    pub fn at(&self, place: u64) -> u64 {
        self.pages_at + place
    }
    /// Starts loading so many bytes of a place.
    #[inline]
    pub fn fetch(&self, place: u64, len: usize) {
        self.region.prefetch(self.at(place), len);
    }
    /// Where a page starts.
    pub fn page_at(&self, page: u32) -> u64 {
        u64::from(page) * self.geometry.page_bytes as u64
    }
    /// The page of a place, if there is one.
    #[inline]
    pub fn page_of(&self, place: u64) -> Option<u32> {
        let page = place / self.geometry.page_bytes as u64;
        (page < self.pages as u64).then_some(page as u32)
    }
    /// Bytes from a place to where what its page holds must end.
    #[inline]
    pub fn rest_of_page(&self, place: u64) -> usize {
        let page = self.geometry.page_bytes as u64;
        (page - place % page).saturating_sub(LINE_BYTES as u64) as usize
    }
    /// Where a bucket's word lies in the region.
    #[inline]
    pub fn bucket_at(&self, bucket: u64) -> u64 {
        self.base + self.geometry.buckets_at() + bucket * 8
    }
    fn line_at(&self, page: u32, copy: u64) -> u64 {
        let (first, number) = match self.geometry.lines_page(page) {
            None => (self.base + self.geometry.lines_at(), page),
            Some(lines) => (self.at(self.page_at(lines)) + EDGE_BYTES as u64, page - lines),
        };
        first + (u64::from(number) * 2 + copy) * LINE_BYTES as u64
    }
    pub(crate) fn root_at(&self, copy: u64) -> u64 {
        self.base + self.geometry.roots_at() + copy * ROOT_BYTES as u64
    }

    /// What the newer of a page's two lines says that holds together.
    pub fn page_line(&self, page: u32) -> Option<PageLine> {
        if self.is_lines(page) {
            let line =
                PageLine { kind: Kind::Lines, is_exact: true, deadline: u64::MAX, ..PageLine::default() };
            return Some(line);
        }
        let copies = [0, 1].map(|copy| {
            let mut bytes = [0; LINE_BYTES];
            self.region.read(self.line_at(page, copy), &mut bytes);
            PageLine::decode(&bytes, self.store_id, page)
        });
        copies.into_iter().flatten().max_by_key(|line| line.sequence)
    }
    /// Stores a page's line, in one copy after the other: a crash tears one at most, and what is damaged is in the other. Durable when it
    /// returns.
    #[track_caller]
    pub fn save_page_line(&self, page: u32, line: &PageLine) {
        let bytes = line.encode(self.store_id, page);
        for copy in [line.sequence % 2, 1 - line.sequence % 2] {
            self.region.write_nt(self.line_at(page, copy), &bytes);
            self.region.fence();
        }
    }

    pub(crate) fn root(&self, copy: u64) -> Option<Root> {
        let mut bytes = [0; ROOT_BYTES];
        self.region.read(self.root_at(copy), &mut bytes);
        Root::decode(&bytes, self.store_id)
    }
    /// The newest root that holds together, and of its copies one that says how many nodes there are.
    pub fn newest_root(&self) -> Option<Root> {
        (0..ROOTS).filter_map(|copy| self.root(copy)).max_by_key(|root| (root.sequence, root.nodes))
    }
    /// Whether a root is there that is committed: a crash damages one of the two places at most.
    pub fn has_committed_root(&self) -> bool {
        (0..ROOTS).filter_map(|copy| self.root(copy)).any(|root| root.is_committed)
    }
    /// Stores it: one that is committed in its two places, one after the other, another in the third. Durable when it returns.
    #[track_caller]
    pub fn save_root(&self, root: &Root) {
        let bytes = root.encode(self.store_id);
        for copy in if root.is_committed { &COMMITTED[..] } else { &COMING[..] } {
            self.region.write_nt(self.root_at(*copy), &bytes);
            self.region.fence();
        }
    }

    /// Makes durable what a dead process had stored of all that lies in front of the pages, the hash table left out, and of other lines.
    pub fn secure_front(&self) {
        let front = self.geometry.buckets_at() as usize;
        self.region.flush(self.base, front);
        self.secure_lines();
        self.region.fence();
    }

    fn secure_lines(&self) {
        for page in self.lines_pages() {
            self.region.flush(self.at(self.page_at(page)), self.geometry.page_bytes);
        }
    }

    /// Whether so many bytes are more than it has by a page that takes records.
    pub fn gains_by(&self, bytes: u64) -> bool {
        (self.pages..self.geometry.pages_of(bytes)).any(|page| !self.is_lines(page as u32))
    }
    /// Makes it so many bytes long; all of that is durable when it returns. The size counts that the manifest's copies say, and says so
    /// when all that it takes in is there: lines of pages, and blank headers for the log. The log learns it afterwards.
    ///
    /// # Errors
    /// The region's: then nothing has changed.
    pub fn grow(&mut self, bytes: u64) -> io::Result<()> {
        let Some(manifest) = self.stored_manifest() else { return Ok(()) };
        let end = self.base + bytes;
        if self.region.len() < end {
            self.region.resize(end)?;
        }
        let before = self.pages;
        (self.bytes, self.pages) = (bytes, self.geometry.pages_of(bytes));
        for page in before as u32..self.pages as u32 {
            self.make_page(page);
        }
        self.region.fence();
        self.save_manifest(&manifest.encode());
        Ok(())
    }
    /// A page that nobody knows of yet. Whatever a longer file had there, the log finds no header.
    fn make_page(&self, page: u32) {
        let first = self.at(self.page_at(page));
        for at in [first, first + (self.geometry.page_bytes - EDGE_BYTES) as u64] {
            let mut edge = [0; EDGE_BYTES];
            self.region.read(at, &mut edge);
            if edge != [0; EDGE_BYTES] {
                self.region.write_nt(at, &[0; EDGE_BYTES]);
            }
        }
        if !self.is_lines(page) {
            let line = PageLine { sequence: 1, deadline: u64::MAX, ..PageLine::default() };
            let bytes = line.encode(self.store_id, page);
            for copy in [0, 1] {
                self.region.write_nt(self.line_at(page, copy), &bytes);
            }
        }
    }

    /// The checksum of the sizes in a manifest's copy.
    fn size_crc(&self, bytes: &[u8]) -> u32 {
        let made =
            crc32c::crc32c_append(crc32c::crc32c(&self.store_id.to_le_bytes()), &bytes[SIZE_AT..CRC_AT]);
        if bytes[SIZE_AT..].starts_with(MAGIC) {
            return made;
        }
        crc32c::crc32c_append(made, &bytes[NOW_AT..NOW_AT + 8])
    }
    /// Stores the manifest, in one copy after the other; durable when it returns.
    pub fn save_manifest(&self, manifest: &[u8]) {
        self.save_manifest_at([0, 1], manifest);
    }
    fn save_manifest_at(&self, copies: [u64; 2], manifest: &[u8]) {
        let mut copy = [0; MANIFEST_COPY_BYTES as usize];
        copy[..MANIFEST_BYTES].copy_from_slice(&manifest[..MANIFEST_BYTES]);
        let has_grown = self.bytes > self.geometry.bytes;
        copy[SIZE_AT..SIZE_AT + 8].copy_from_slice(if has_grown { GROWN_MAGIC } else { MAGIC });
        copy[SIZE_AT + 8..CRC_AT].copy_from_slice(&self.geometry.bytes.to_le_bytes());
        if has_grown {
            copy[NOW_AT..NOW_AT + 8].copy_from_slice(&self.bytes.to_le_bytes());
        }
        let crc = self.size_crc(&copy);
        copy[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        for number in copies {
            self.region.write_nt(self.base + number * MANIFEST_COPY_BYTES, &copy);
            self.region.fence();
        }
    }
    /// Makes both copies the newest one that holds together, the other one first: who stores the next manifest may be cut off in what
    /// would be the only one.
    pub fn agree(&self) {
        let (first, second) = (self.sized_copy(0), self.sized_copy(1));
        if first == second {
            return;
        }
        let rank = |copy: &Option<(Manifest, u64)>| copy.map(|(manifest, size)| (manifest.sequence, size));
        let (newest, older) = if rank(&first) >= rank(&second) { (first, 1) } else { (second, 0) };
        if let Some((manifest, _)) = newest {
            self.save_manifest_at([older, 1 - older], &manifest.encode());
        }
    }
    /// The newest manifest that holds together.
    pub fn stored_manifest(&self) -> Option<Manifest> {
        let copies = [self.manifest_copy(0), self.manifest_copy(1)];
        copies.into_iter().flatten().max_by_key(|manifest| manifest.sequence)
    }
    /// What stands in the places of the manifest.
    pub fn stored_copies(&self) -> [Stored<Manifest>; 2] {
        [0, 1].map(|number| {
            let mut bytes = [0; MANIFEST_COPY_BYTES as usize];
            self.region.read(self.base + number * MANIFEST_COPY_BYTES, &mut bytes);
            match self.manifest_copy(number) {
                Some(manifest) => Stored::Valid(manifest),
                None if bytes.iter().all(|byte| *byte == 0) => Stored::Empty,
                None => Stored::Bad,
            }
        })
    }
    fn manifest_copy(&self, number: u64) -> Option<Manifest> {
        self.sized_copy(number).map(|(manifest, _)| manifest)
    }
    /// How many bytes the store has, as a copy of the manifest says that holds together. Of two the higher one counts, whatever else they
    /// say: a size is stored when all that it takes in is there, and none gets smaller.
    pub fn stored_size(&self) -> Option<u64> {
        [self.sized_copy(0), self.sized_copy(1)].into_iter().flatten().map(|(_, size)| size).max()
    }
    /// A copy of the manifest, and the size that it says, if it holds together.
    fn sized_copy(&self, number: u64) -> Option<(Manifest, u64)> {
        let mut copy = [0; MANIFEST_COPY_BYTES as usize];
        self.region.read(self.base + number * MANIFEST_COPY_BYTES, &mut copy);
        let made = u64_at(&copy, SIZE_AT + 8);
        let bytes = match &copy[SIZE_AT..SIZE_AT + 8] {
            magic if magic == MAGIC => made,
            magic if magic == GROWN_MAGIC => u64_at(&copy, NOW_AT),
            _ => return None,
        };
        let sound =
            u32_at(&copy, CRC_AT) == self.size_crc(&copy) && made == self.geometry.bytes && bytes >= made;
        Manifest::decode(&copy[..MANIFEST_BYTES]).filter(|_| sound).map(|manifest| (manifest, bytes))
    }
    /// Whether nothing in front of the pages, or among their lines, keeps the store from being opened.
    pub fn is_whole(&self) -> bool {
        let has_line = |page: usize| self.page_line(page as u32).is_some();
        self.newest_root().is_some() && (0..self.pages).all(has_line)
    }
    /// Whether the store was never open: its first manifest was not stored whole in both copies.
    ///
    /// # Errors
    /// If it was and neither copy holds together.
    pub fn is_new(&self) -> io::Result<bool> {
        let mut second = [0; MANIFEST_COPY_BYTES as usize];
        self.region.read(self.base + MANIFEST_COPY_BYTES, &mut second);
        match self.stored_manifest() {
            Some(_) => Ok(false),
            None if second.iter().all(|byte| *byte == 0) => Ok(true),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "neither copy of the manifest is valid")),
        }
    }
}
