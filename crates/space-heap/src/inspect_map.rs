//! Making the header or the map of a page of objects anew, of a heap that nobody has open.
//!
//! A page's use is the one that most words of its map are of. A word that is of none is made of the one bit that was flipped; and if it
//! is more than that, of the chunks that its lines make sense as: a record or a part says how long it is, and so where the next starts.

use terrace_blocks::{u32_at, u64_at};
use terrace_media::ByteRegion;

use crate::inspect::{Inspector, Mended, PageImage, front_of, is_known};
use crate::layout::{CHUNK_HEAD_BYTES, LINE_BYTES, PAGE_HEADER_BYTES, PageHeader, Sort, lines_of};
use crate::map::{LINES_A_WORD, Starts, Use, first_line, words_in};

impl<R: ByteRegion> Inspector<R> {
    /// See the module; `seq_max` is the newest use of any page.
    pub(crate) fn mend_map(&self, image: &PageImage, seq_max: u64) -> Mended {
        let page_bytes = self.page_bytes();
        let stored: Vec<u64> =
            (0..words_in(page_bytes)).map(|word| u64_at(image.from(PAGE_HEADER_BYTES), word * 8)).collect();
        let recorded = u64_at(image.from(0), 16);
        let of = |seq: u64| Use { seq, page: image.page };
        let sound = |seq: u64| {
            stored
                .iter()
                .enumerate()
                .filter(|(word, stored)| of(seq).decode(*word, **stored).is_some())
                .count()
        };
        let uses = std::iter::once(recorded).chain((1..=seq_max + 1).rev()).filter(|seq| *seq != 0);
        let best =
            uses.map(|seq| (sound(seq), seq)).reduce(|best, next| if next.0 > best.0 { next } else { best });
        let first = first_line(page_bytes);
        let is_one = |seq: u64| is_known(of(seq).place(first), image.from(first * LINE_BYTES));
        let seq = best.filter(|(sound, seq)| *sound > 0 || is_one(*seq)).map(|(_, seq)| seq);
        let seq = seq.or_else(|| (1..=seq_max + 1).rev().find(|seq| is_one(*seq)));
        let Some(seq) = seq else {
            return self.give_up_page(image.page, seq_max + 1);
        };
        let starts = self.mended(image, of(seq), &stored);
        // While the map is stored no chunk of the page counts.
        let (header, lines) =
            (PageHeader::of_objects(self.medium.store_id, seq, image.page), page_bytes / LINE_BYTES);
        let start = u64::from(image.page) * page_bytes as u64;
        self.medium.store_word(start, 0);
        self.medium.region.fence();
        self.medium.store_map(of(seq), &starts, 0, lines);
        self.medium.region.fence();
        self.store_header(header);
        let chunks = self.chunks_between(&starts);
        let is_known = |at: usize| is_known(of(seq).place(at / LINE_BYTES), image.from(at));
        Mended::Map { chunks: chunks.into_iter().filter(|(at, _)| is_known(*at)).count() }
    }

    fn mended(&self, image: &PageImage, of: Use, stored: &[u64]) -> Starts {
        let lines = self.page_bytes() / LINE_BYTES;
        let (starts, first) = (Starts::new(lines), first_line(self.page_bytes()));
        let mut bad = Vec::new();
        for (word, stored) in stored.iter().enumerate() {
            let flipped = || (0..64).find_map(|bit| of.decode(word, stored ^ 1 << bit));
            match of.decode(word, *stored).or_else(flipped) {
                Some(bits) => starts.set(word, bits, lines),
                None => bad.push(word * LINES_A_WORD),
            }
        }
        starts.bits.set(first);
        for from in bad {
            // Up to there a chunk reaches that starts before.
            let end = lines.min(from + LINES_A_WORD);
            let before = starts.bits.clear_before(from.max(first)).max(first + 1) - 1;
            let mut line = before;
            while line < end {
                let length = length_of(of, image, line);
                if length.is_some() && line >= from {
                    starts.bits.set(line);
                }
                line += length.unwrap_or(1).max(1);
                if length.is_some_and(|length| length > 1) && (from..end).contains(&line) {
                    starts.bits.set(line);
                }
            }
        }
        starts
    }
}

/// Lines of the chunk that starts at a line, as far as it says; `None` if nothing there makes sense. A free one says nothing.
fn length_of(of: Use, image: &PageImage, line: usize) -> Option<usize> {
    let (place, bytes) = (of.place(line), image.from(line * LINE_BYTES));
    if !is_known(place, bytes) {
        return place.view(bytes).map(|_| place.front(&front_of(bytes)).lines());
    }
    let (word, front) = (u64_at(bytes, 0), place.front(&front_of(bytes)));
    if word == place.free() {
        return Some(1);
    }
    let is_part = word == place.word(Sort::Piece, front.hash);
    Some(if is_part { lines_of(CHUNK_HEAD_BYTES + u32_at(bytes, 16) as usize) } else { front.lines() })
}
