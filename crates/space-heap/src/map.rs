//! Pages of objects: a chunk is just as long as its record needs, and a map says where chunks start.
//!
//! ```text
//! page     header | map | chunk | chunk, of another length | ..        chunks lie one behind the other, to the end
//! map      a word for 48 lines:  0..48 a chunk starts there   48..64 check of these, the page's use, its number, and which word it is
//!
//! take     lines of a free chunk, or of several --> free words where they start and where what is left starts
//!                                      fence --> starts inside go, those two come; the session's run names them  fence
//! set      the next chunk of that extent, word and all, and the start behind it          one fence
//! leave    free word where the extent's rest starts   fence --> anybody may take it
//! ```
//!
//! # Invariants
//! * A start that the medium may show has a free word, durably, or is of a chunk that was filled, or lies in an extent that a run names.
//!   So whatever mixture of old and new words of the map a crash leaves is a division into chunks: what a taking changes lies in free
//!   lines, and starts inside are gone, durably, before anything but a free word is stored there.
//! * A session fills an extent from its start on. A crash tears the chunk filled last, and no other: either the start behind it is there,
//!   and it is the last but one before the extent's end, or that is not, and it is the last one, too long for its record. So what
//!   stands in the last chunk of an extent counts if it is a whole record that fills it, and is free whatever it says if not; the one
//!   before counts if it is whole, and may be torn if nothing stands behind it. All others are whole, or damaged.
//! * A record fills its chunk but for the last line. So a start that is missing, or one too many, shows; and that a bit of the map was
//!   flipped, a word's check says before.
//! * Chunks of a step, parts of large values and copies of records that move are taken each by itself, with both starts durable before
//!   they are filled, and count by their word alone, as in pages of a class.
//!
//! # Thread safety
//! Bits change under `changing`, in DRAM and on the medium: so words of the medium hold the bits of all sessions. Who stores a word
//! flushes it, and fences: then all bits are durable that the word had, whoever set them.

use parking_lot::Mutex;
use terrace_blocks::u64_at;
use terrace_media::ByteRegion;
use terrace_pmem_slots::Bits;

use crate::layout::{LINE_BYTES, PAGE_HEADER_BYTES, PageHeader, Place};
use crate::medium::Medium;

/// Lines that a word of the map speaks for.
pub const LINES_A_WORD: usize = 48;
const BITS: u64 = (1 << LINES_A_WORD) - 1;

/// Words of the map of a page.
pub fn words_in(page_bytes: usize) -> usize {
    (page_bytes / LINE_BYTES).div_ceil(LINES_A_WORD)
}

/// The line of a page where its first chunk starts.
pub fn first_line(page_bytes: usize) -> usize {
    (PAGE_HEADER_BYTES + words_in(page_bytes) * 8).div_ceil(LINE_BYTES)
}

/// Which use of which page a map is of.
#[derive(Clone, Copy)]
pub struct Use {
    pub seq: u64,
    pub page: u32,
}

impl Use {
    /// The word that says so of its lines.
    pub fn encode(self, word: usize, bits: u64) -> u64 {
        let mut text = [0; 24];
        text[..8].copy_from_slice(&self.seq.to_le_bytes());
        text[8..12].copy_from_slice(&self.page.to_le_bytes());
        text[12..16].copy_from_slice(&(word as u32).to_le_bytes());
        text[16..].copy_from_slice(&(bits & BITS).to_le_bytes());
        let crc = crc32c::crc32c(&text);
        bits & BITS | u64::from(crc ^ crc >> 16) << LINES_A_WORD
    }
    /// What a word says; `None` if it does not hold together.
    pub fn decode(self, word: usize, stored: u64) -> Option<u64> {
        (self.encode(word, stored) == stored).then_some(stored & BITS)
    }
    /// A chunk's place that starts at a line.
    pub fn place(self, line: usize) -> Place {
        Place { seq: self.seq, page: self.page, offset: (line * LINE_BYTES) as u32 }
    }
}

/// Where chunks of a page start.
pub struct Starts {
    pub bits: Bits,
    changing: Mutex<()>,
}

impl Starts {
    /// Of a page of so many lines: none yet.
    pub fn new(lines: usize) -> Self {
        Self { bits: Bits::new(lines), changing: Mutex::new(()) }
    }
    /// Sets those of a word of a map.
    pub fn set(&self, word: usize, bits: u64, lines: usize) {
        let set = (0..LINES_A_WORD).filter(|bit| bits >> bit & 1 == 1).map(|bit| word * LINES_A_WORD + bit);
        for line in set.filter(|line| *line < lines) {
            self.bits.set(line);
        }
    }
    /// Learns what a page's map says; whether that holds together.
    pub fn learn(&self, of: Use, map: &[u8], lines: usize) -> bool {
        self.bits.clear_all(0, lines);
        map.chunks_exact(8).enumerate().take(lines.div_ceil(LINES_A_WORD)).all(|(word, stored)| {
            let Some(bits) = of.decode(word, u64_at(stored, 0)) else { return false };
            self.set(word, bits, lines);
            true
        }) && self.bits.next(0, lines, true) == first_line(lines * LINE_BYTES)
    }
}

impl<R: ByteRegion> Medium<R> {
    fn page_start(&self, page: u32) -> u64 {
        u64::from(page) * self.geometry.page_bytes as u64
    }
    fn lines(&self) -> usize {
        self.geometry.page_bytes / LINE_BYTES
    }

    /// What stands in the place of a page's map.
    pub fn read_map(&self, page: u32) -> Vec<u8> {
        let mut map = vec![0; words_in(self.geometry.page_bytes) * 8];
        self.region.read(self.at(self.page_start(page)) + PAGE_HEADER_BYTES as u64, &mut map);
        map
    }
    /// What a page's map says; `None` if it does not hold together.
    pub fn stored_starts(&self, of: Use) -> Option<Starts> {
        let starts = Starts::new(self.lines());
        starts.learn(of, &self.read_map(of.page), self.lines()).then_some(starts)
    }

    /// Makes a page one of objects, all of it a free chunk; durable when it returns. Nothing in it counts.
    pub fn format_objects(&self, header: &PageHeader, starts: &Starts) {
        let (start, of) = (self.page_start(header.page), Use { seq: header.seq, page: header.page });
        self.store_word(start, 0);
        self.region.fence();
        let first = first_line(self.geometry.page_bytes);
        starts.bits.clear_all(0, self.lines());
        starts.bits.set(first);
        self.store_word(start + (first * LINE_BYTES) as u64, of.place(first).free());
        self.store_map(of, starts, 0, self.lines());
        self.region.write_nt(self.at(start) + 8, &header.encode()[8..]);
        self.region.fence();
        self.store_word(start, header.magic());
        self.region.fence();
    }

    /// The lines from one to before another are a chunk from now on, or an extent; durable after a fence of this thread.
    pub fn divide(&self, of: Use, starts: &Starts, from: usize, end: usize) {
        let _changing = starts.changing.lock();
        starts.bits.set(from);
        starts.bits.clear_all(from + 1, end);
        if end < self.lines() {
            starts.bits.set(end);
        }
        self.store_map(of, starts, from, (end + 1).min(self.lines()));
    }

    /// A chunk starts at a line from now on; durable after a fence of this thread.
    pub fn start_at(&self, of: Use, starts: &Starts, line: usize) {
        let _changing = starts.changing.lock();
        starts.bits.set(line);
        self.store_map(of, starts, line, line + 1);
    }

    pub fn store_map(&self, of: Use, starts: &Starts, from: usize, end: usize) {
        let (first, last) = (from / LINES_A_WORD, (end - 1) / LINES_A_WORD);
        let map = self.at(self.page_start(of.page)) + PAGE_HEADER_BYTES as u64;
        for word in first..=last {
            let bits = starts.bits.some(word * LINES_A_WORD, LINES_A_WORD);
            self.region.store_u64(map + word as u64 * 8, of.encode(word, bits));
        }
        self.region.flush(map + first as u64 * 8, (last - first + 1) * 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: Use = Use { seq: 7, page: 3 };

    #[test]
    fn a_word_of_a_map_says_whose_it_is_and_what_was_flipped() {
        let word = OF.encode(2, 0x8000_0000_1001);
        assert_eq!(word, 0x807d_8000_0000_1001);
        assert_eq!(OF.decode(2, word), Some(0x8000_0000_1001));
        assert_eq!(OF.decode(1, word), None);
        for other in [Use { seq: 8, ..OF }, Use { page: 4, ..OF }] {
            assert_eq!(other.decode(2, word), None);
        }
        for (one, other) in (0..64).flat_map(|one| (0..64).map(move |other| (one, other))) {
            let flipped = word ^ 1 << one ^ if one == other { 0 } else { 1 << other };
            assert_eq!(OF.decode(2, flipped), None, "bits {one} and {other}");
        }
        assert_eq!(OF.decode(0, 0), None, "a line that was lost");
    }

    #[test]
    fn a_page_has_room_for_its_map_before_its_chunks() {
        for (bytes, first) in [(512, 2), (1024, 2), (2048, 2), (64 << 10, 4), (1 << 20, 44)] {
            assert_eq!(first_line(bytes), first, "{bytes}");
        }
    }
}
