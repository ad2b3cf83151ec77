//! Reading a heap that nobody has open, and mending what an opening refuses: for `terrace check`.
//!
//! It shares the format with the engine, and nothing of how an opening decides: what a chunk is, is told here once more.

use std::collections::HashSet;
use std::sync::Arc;

use terrace_blocks::{Stored, u32_at, u64_at};
use terrace_engine::manifest::Manifest;
use terrace_engine::record::RecordView;
use terrace_engine::version::Version;
use terrace_media::ByteRegion;

use crate::layout::{
    CHUNK_HEAD_BYTES, Classes, FRONT_BYTES, Front, LINE_BYTES, PAGE_HEADER_BYTES, PageHeader, Place, Sort,
    StoredPage, chunks_in,
};
use crate::map::{Starts, Use};
use crate::medium::{Geometry, Granularity, Medium};

/// A heap that nobody has open.
pub struct Inspector<R> {
    pub(crate) medium: Medium<R>,
    /// How long the region is to be.
    bytes: u64,
    classes: Classes,
}

/// What sessions had under way.
pub struct Sessions {
    /// The newest version of each session's steps that count; `None` if neither copy says.
    pub intents: Vec<Option<u64>>,
    /// Chunks that a crash may have torn.
    pub runs: HashSet<u64>,
}

/// A page's bytes.
pub struct PageImage {
    /// Its number.
    pub page: u32,
    /// What its header says, and its map if it has one.
    pub header: StoredPage,
    bytes: Vec<u8>,
    /// Where its chunks start and end.
    chunks: Vec<(usize, usize)>,
}

/// A large value, as its record describes it.
pub struct Described {
    /// Its length.
    pub bytes: u64,
    /// Over all of it.
    pub checksum: u32,
    /// What its parts have in their heads.
    pub number: u64,
    /// Where its parts start.
    pub parts: Vec<u64>,
}

impl Described {
    /// What a record's value says; `None` if that makes no sense.
    pub fn decode(description: &[u8]) -> Option<Self> {
        let parts: Vec<u64> = crate::large::parts(description).collect();
        let is_whole = description.len() >= 24 && u32_at(description, 12) as usize == parts.len();
        let number = crate::large::number_of(description);
        is_whole.then(|| Self {
            bytes: u64_at(description, 0),
            checksum: u32_at(description, 8),
            number,
            parts,
        })
    }
}

/// A chunk, as what stands there says.
pub enum Chunk<'a> {
    /// It may be filled.
    Free,
    /// A crash tore it while it was filled, or a step removed it: an opening frees it.
    Void,
    /// A record of a step that does not count: an opening frees it.
    Step {
        /// The record's version, which names its session.
        version: u64,
    },
    /// A part of a large value.
    Piece,
    /// A record, which counts if no newer one of its key does.
    Record {
        /// What is known of it.
        front: Front,
        /// All of it, unless it is damaged.
        view: Option<RecordView<'a>>,
    },
    /// Nothing that a store leaves there: an opening refuses it.
    Damaged,
}

/// How a page was mended.
pub enum Mended {
    /// Its header was made anew: the lines of a chunk, and the chunks that are what they can be.
    Header {
        /// Lines of a chunk.
        lines: u16,
        /// Chunks that make sense.
        chunks: usize,
    },
    /// Its header or its map was made anew, of a page whose chunks have any lengths: the chunks that there are.
    Map {
        /// Chunks that make sense.
        chunks: usize,
    },
    /// Nothing in it can be told: no chunk of it counts any more.
    GivenUp,
}

impl<R: ByteRegion> Inspector<R> {
    /// Of the heap in a region from byte `base` on; `None` if its measures make no sense.
    pub fn new(region: Arc<R>, base: u64, geometry: Geometry, store_id: u64) -> Option<Self> {
        let (lines, rest) = (geometry.page_bytes / LINE_BYTES, geometry.page_bytes % LINE_BYTES);
        let makes_sense =
            (8..1 << 15).contains(&lines) && rest == 0 && base.is_multiple_of(LINE_BYTES as u64);
        let medium = makes_sense.then(|| Medium::new(region, base, geometry, store_id))?;
        let bytes = medium.stored_manifest().map_or(medium.region.len(), |(_, bytes)| bytes);
        Some(Self { medium, bytes, classes: Classes::new(geometry.page_bytes) })
    }
    /// How long the region is to be, as the newest manifest says.
    pub fn region_bytes(&self) -> u64 {
        self.bytes
    }
    /// Pages that there are.
    pub fn pages(&self) -> u32 {
        self.medium.pages_in(self.bytes.min(self.medium.region.len())) as u32
    }
    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.medium.geometry.page_bytes
    }
    /// What must be whole of a page for its chunks to be told.
    pub fn front_of_page(&self) -> &'static str {
        match self.medium.geometry.granularity {
            Granularity::Slab => "header",
            Granularity::Object => "header or its map",
        }
    }
    /// Both copies of the manifest.
    pub fn manifests(&self) -> [Stored<Manifest>; 2] {
        [0, 1].map(|number| self.medium.stored_copy(number))
    }
    /// What sessions had under way.
    pub fn sessions(&self) -> Sessions {
        let slots = 0..self.medium.geometry.sessions;
        let intents = slots.map(|slot| {
            let [first, second] = [0, 1].map(|copy| self.medium.intent(copy, slot));
            first.max(second)
        });
        Sessions { intents: intents.collect(), runs: self.medium.torn_at_most() }
    }
    /// Reads a page.
    pub fn read(&self, page: u32) -> PageImage {
        let mut bytes = vec![0; self.page_bytes()];
        self.medium.region.read(self.medium.at(self.start(page)), &mut bytes);
        let header = PageHeader::decode(&line(&bytes), self.medium.store_id, page);
        let (header, chunks) = match header {
            StoredPage::Used(used) => match self.chunks_of(&used) {
                Some(chunks) => (header, chunks),
                None => (StoredPage::Damaged, Vec::new()),
            },
            header => (header, Vec::new()),
        };
        PageImage { page, header, bytes, chunks }
    }
    /// Where the chunks of a page start and end; `None` if nobody can tell.
    fn chunks_of(&self, header: &PageHeader) -> Option<Vec<(usize, usize)>> {
        if self.medium.geometry.granularity == Granularity::Object {
            let of = Use { seq: header.seq, page: header.page };
            return header
                .has_objects()
                .then(|| self.medium.stored_starts(of))
                .flatten()
                .map(|s| self.chunks_between(&s));
        }
        self.classes.known(header.lines)?;
        let bytes = usize::from(header.lines) * LINE_BYTES;
        Some(chunk_starts(self.page_bytes(), header.lines).map(|at| (at, at + bytes)).collect())
    }
    pub(crate) fn chunks_between(&self, starts: &Starts) -> Vec<(usize, usize)> {
        let lines = self.page_bytes() / LINE_BYTES;
        let mut next = starts.bits.next(0, lines, true);
        let chunks = std::iter::from_fn(|| {
            let from = (next < lines).then_some(next)?;
            next = starts.bits.next(from + 1, lines, true);
            Some((from * LINE_BYTES, next * LINE_BYTES))
        });
        chunks.collect()
    }
    fn start(&self, page: u32) -> u64 {
        u64::from(page) * self.page_bytes() as u64
    }

    /// Shows each chunk of a page, with where it starts in the heap.
    pub fn chunks(&self, image: &PageImage, sessions: &Sessions, mut show: impl FnMut(u64, Chunk<'_>)) {
        let StoredPage::Used(header) = image.header else { return };
        for &(at, end) in &image.chunks {
            let offset = self.start(image.page) + at as u64;
            let place = Place { seq: header.seq, page: image.page, offset: at as u32 };
            let chunk = Judged { place, bytes: &image.bytes[at..end], is_object: header.has_objects() };
            show(offset, chunk.judge(sessions.runs.contains(&offset), sessions));
        }
    }

    /// Reads a part of a large value, appended to `out`; `false` if the chunk there is none of this value.
    pub fn read_part(&self, offset: u64, number: u64, most: usize, out: &mut Vec<u8>) -> bool {
        let page = (offset / self.page_bytes() as u64) as u32;
        if page >= self.pages() {
            return false;
        }
        let mut bytes = [0; LINE_BYTES];
        self.medium.region.read(self.medium.at(self.start(page)), &mut bytes);
        let at = (offset % self.page_bytes() as u64) as usize;
        let header = PageHeader::decode(&bytes, self.medium.store_id, page);
        let StoredPage::Used(header) = header else { return false };
        let chunks = self.chunks_of(&header).unwrap_or_default();
        let Some((_, end)) = chunks.into_iter().find(|(start, _)| *start == at) else { return false };
        let place = Place { seq: header.seq, page, offset: at as u32 };
        let mut head = [0; CHUNK_HEAD_BYTES];
        self.medium.region.read(self.medium.at(offset), &mut head);
        if u64_at(&head, 0) != place.word(Sort::Piece, number) || u64_at(&head, 8) != number {
            return false;
        }
        let room = end - at - CHUNK_HEAD_BYTES;
        let (len, start) = ((u32_at(&head, 16) as usize).min(room).min(most), out.len());
        out.resize(start + len, 0);
        self.medium.region.read(self.medium.at(offset) + CHUNK_HEAD_BYTES as u64, &mut out[start..]);
        true
    }

    /// Frees a damaged chunk of a page: what it held is gone.
    pub fn give_up(&self, image: &PageImage, offset: u64) {
        let StoredPage::Used(header) = image.header else { return };
        let at = (offset - self.start(image.page)) as u32;
        let place = Place { seq: header.seq, page: image.page, offset: at };
        self.medium.free(std::iter::once((offset, place.free())));
    }

    /// Makes a page's header anew from its chunks; `seq_max` is the newest use of any page. Where that can't be, the page is given up.
    pub fn mend(&self, image: &PageImage, seq_max: u64) -> Mended {
        if self.medium.geometry.granularity == Granularity::Object {
            return self.mend_map(image, seq_max);
        }
        let recorded = u64_at(&image.bytes, 16);
        let mut uses = std::iter::once(recorded).chain((1..=seq_max + 1).rev());
        let seq = uses
            .find(|seq| is_known(self.place(image, *seq, PAGE_HEADER_BYTES), image.from(PAGE_HEADER_BYTES)));
        let seq = seq.filter(|seq| *seq != 0);
        let lines = seq.and_then(|seq| {
            let fitting = |lines: u16| {
                let starts = chunk_starts(image.bytes.len(), lines);
                starts.filter(|at| is_known(self.place(image, seq, *at), image.from(*at))).count()
            };
            // Of those whose chunks all make sense the shortest: a longer one passes others over.
            let all = (0..self.classes.count()).map(|class| self.classes.lines(class));
            let counted: Vec<(u16, usize)> = all.map(|lines| (lines, fitting(lines))).collect();
            let whole = counted.iter().find(|(lines, known)| *known == chunks_in(image.bytes.len(), *lines));
            whole.or_else(|| counted.iter().max_by_key(|(_, known)| *known)).copied()
        });
        let (Some(seq), Some((lines, chunks))) = (seq, lines) else {
            return self.give_up_page(image.page, seq_max + 1);
        };
        self.store_header(PageHeader::of_chunks(self.medium.store_id, seq, image.page, lines));
        Mended::Header { lines, chunks }
    }
    fn place(&self, image: &PageImage, seq: u64, at: usize) -> Place {
        Place { seq, page: image.page, offset: at as u32 }
    }
    pub(crate) fn give_up_page(&self, page: u32, seq: u64) -> Mended {
        self.store_header(PageHeader::of_chunks(self.medium.store_id, seq, page, 0));
        Mended::GivenUp
    }
    pub(crate) fn store_header(&self, header: PageHeader) {
        self.medium.region.write_nt(self.medium.at(self.start(header.page)), &header.encode());
        self.medium.region.fence();
    }

    /// Stores an intent in both copies: of a session, the newest version of its steps that count.
    pub fn store_intent(&self, slot: usize, version: u64) {
        self.medium.put_intent(slot, version);
    }
}

impl PageImage {
    pub(crate) fn from(&self, at: usize) -> &[u8] {
        &self.bytes[at..]
    }
}

fn line(bytes: &[u8]) -> [u8; LINE_BYTES] {
    std::array::from_fn(|i| bytes[i])
}

fn chunk_starts(page_bytes: usize, lines: u16) -> impl Iterator<Item = usize> {
    let step = usize::from(lines) * LINE_BYTES;
    (0..chunks_in(page_bytes, lines)).map(move |chunk| PAGE_HEADER_BYTES + chunk * step)
}

pub(crate) fn front_of(bytes: &[u8]) -> [u8; FRONT_BYTES] {
    std::array::from_fn(|i| bytes[i])
}

/// Whether something stands at the start of `bytes` that a chunk there can have.
pub(crate) fn is_known(place: Place, bytes: &[u8]) -> bool {
    let (word, front) = (u64_at(bytes, 0), place.front(&front_of(bytes)));
    word == place.free()
        || word == place.word(Sort::Piece, front.hash)
        || word == place.word(Sort::Link, 0)
        || (front.sound && place.sort_of(word, front.version).is_some())
}

/// A chunk that is to be judged.
struct Judged<'a> {
    place: Place,
    bytes: &'a [u8],
    /// A record fills it.
    is_object: bool,
}

impl<'a> Judged<'a> {
    fn judge(&self, may_be_torn: bool, sessions: &Sessions) -> Chunk<'a> {
        let Self { place, bytes, is_object } = *self;
        let (word, front) = (u64_at(bytes, 0), place.front(&front_of(bytes)));
        if word == place.free() {
            return Chunk::Free;
        }
        let fills = !is_object || front.lines() * LINE_BYTES == bytes.len();
        let view = place.view(bytes).filter(|_| fills);
        let sort = place.sort_of(word, front.version);
        if may_be_torn && (view.is_none() || sort.is_none() || !(front.sound || sort == Some(Sort::Dying))) {
            return Chunk::Void;
        }
        let counts = |version: u64| {
            let intent = sessions.intents.get(Version(version).slot()).copied().flatten();
            intent.is_some_and(|intent| intent >= version)
        };
        match sort {
            _ if front.sound && !fills => Chunk::Damaged,
            Some(Sort::Step) if front.sound && !counts(front.version) => {
                Chunk::Step { version: front.version }
            }
            // Its hash is the version that removes it.
            Some(Sort::Dying) if !front.sound && front.hash > front.version && counts(front.hash) => {
                Chunk::Void
            }
            _ if front.sound => Chunk::Record { front, view: view.filter(|_| sort.is_some()) },
            None if word == place.word(Sort::Piece, front.hash) => Chunk::Piece,
            Some(_) if view.is_some() => Chunk::Record { front, view },
            _ => Chunk::Damaged,
        }
    }
}
