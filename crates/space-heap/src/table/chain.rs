//! A bucket and the lines that overflow it.

use terrace_index::{Address, Lookup, Verdict};
use terrace_media::ByteRegion;

use super::PmTable;
use super::lanes::Lane;
use super::line::{CHECK, LINK, Line, Tag, chunk_of};
use super::stripes::Held;
use crate::layout::Sort;

/// Lines of a chain at most: more are a circle, and damage.
pub(super) const LINES_MAX: usize = 1 << 12;

/// An entry, and where its word is, from the first page on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    pub at: u64,
    pub entry: u64,
}

/// How a walk along a chain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// All of it was seen.
    Whole,
    /// A line does not hold together: where it starts.
    Damaged(u64),
    /// As the visitor wanted.
    Stopped,
}

impl<R: ByteRegion> PmTable<R> {
    /// Shows a bucket's lines: where each starts, its first slot, and its words. Without the lock what is shown may be of no moment, but a
    /// line that overflows is never something else.
    #[inline]
    pub(super) fn walk_lines(&self, bucket: u64, visit: impl FnMut(u64, usize, &Line) -> bool) -> Walked {
        self.walk_lines_from(None, bucket, visit)
    }

    /// The same, a line of which is known.
    #[inline]
    fn walk_lines_from(
        &self,
        known: Option<(u64, Line)>,
        bucket: u64,
        mut visit: impl FnMut(u64, usize, &Line) -> bool,
    ) -> Walked {
        let mut at = self.line_of(bucket);
        let (mut damaged, mut lines, mut first) = (None, 0, 0);
        while at != 0 {
            lines += 1;
            if lines > 1 && (lines > LINES_MAX || !self.is_line(at)) {
                return Walked::Damaged(at);
            }
            let line = match known {
                Some((known, line)) if known == at => line,
                Some(_) | None => self.read_line(at),
            };
            let is_sound = line.0[CHECK] == line.check(first, self.seed(at));
            if !is_sound {
                damaged = damaged.or(Some(at));
            }
            if first != 0 && !(is_sound && line.0[0] == self.link_word(at)) {
                return Walked::Damaged(at);
            }
            if visit(at, first, &line) {
                return Walked::Stopped;
            }
            (at, first) = (line.0[LINK], 1);
        }
        damaged.map_or(Walked::Whole, Walked::Damaged)
    }

    /// Shows entries, and where their words are.
    #[inline]
    pub(super) fn walk(&self, bucket: u64, mut visit: impl FnMut(u64, u64) -> bool) -> Walked {
        self.walk_lines(bucket, |at, first, line| {
            line.entries(first).any(|(slot, entry)| visit(at + slot as u64 * 8, entry))
        })
    }

    /// The word of a chunk that is an overflow line.
    pub(super) fn link_word(&self, at: u64) -> u64 {
        self.pages.place(at).word(Sort::Link, 0)
    }

    /// Looks for a key's entry, under the lock.
    pub(super) fn look_up(
        &self,
        held: &mut Held<'_>,
        bucket: u64,
        tag: Tag,
        mut verify: impl FnMut(Address) -> Verdict,
    ) -> (Lookup, Option<Spot>) {
        loop {
            let (lookup, spot, walked) = self.look_up_once(held, bucket, tag, &mut verify);
            match (lookup, walked) {
                (Lookup::Absent, Walked::Damaged(at)) if self.heal(at) => {}
                // Whether the key is there nobody can tell: it counts as one whose record is damaged.
                (Lookup::Absent, Walked::Damaged(at)) if verify(Address::new(at)) != Verdict::Differs => {
                    return (Lookup::Found(Address::new(at)), None);
                }
                _ => return (lookup, spot),
            }
        }
    }

    fn look_up_once(
        &self,
        held: &mut Held<'_>,
        bucket: u64,
        tag: Tag,
        mut verify: impl FnMut(Address) -> Verdict,
    ) -> (Lookup, Option<Spot>, Walked) {
        let (mut found, mut unread) = (None, None);
        held.line = None;
        let walked = self.walk_lines(bucket, |at, first, line| {
            if line.0[LINK] == 0 || line.empty_slot(first).is_some() {
                held.line = Some((at, *line));
            }
            for (slot, entry) in line.entries(first).filter(|(_, entry)| tag.is_of(*entry)) {
                let Some(address) = Address::from_raw(chunk_of(entry)) else { continue };
                let spot = Some((address, Spot { at: at + slot as u64 * 8, entry }));
                match verify(address) {
                    Verdict::Match => found = spot,
                    Verdict::NeedsRead => unread = spot,
                    Verdict::Differs => {}
                }
                if found.is_some() {
                    held.line = Some((at, *line));
                    return true;
                }
            }
            false
        });
        match (found, unread) {
            (Some((address, spot)), _) => (Lookup::Found(address), Some(spot), walked),
            (None, Some((address, spot))) => (Lookup::Unread(address), Some(spot), walked),
            (None, None) => (Lookup::Absent, None, walked),
        }
    }

    /// Where an entry that leads to this chunk is; an error if none is found and a line does not hold together.
    pub(super) fn find(&self, bucket: u64, tag: Tag, chunk: u64) -> Result<Option<Spot>, ()> {
        loop {
            let mut found = None;
            let walked = self.walk(bucket, |at, entry| {
                if tag.is_of(entry) && chunk_of(entry) == chunk {
                    found = Some(Spot { at, entry });
                }
                found.is_some()
            });
            match walked {
                Walked::Damaged(at) if self.heal(at) => {}
                Walked::Damaged(_) => return Err(()),
                Walked::Whole | Walked::Stopped => return Ok(found),
            }
        }
    }

    /// Room for an entry more: where it goes.
    pub(super) fn vacancy(&self, held: &mut Held<'_>, bucket: u64) -> u64 {
        let (mut vacant, mut last) = (None, None);
        self.walk_lines_from(held.line, bucket, |at, first, line| {
            vacant = line.empty_slot(first).map(|slot| at + slot as u64 * 8);
            last = Some((at, line.0[LINK]));
            vacant.is_some()
        });
        match (vacant, last) {
            (Some(at), _) => at,
            (None, Some((last, link))) => self.lengthen(held, last, link),
            (None, None) => panic!("a bucket has a line"),
        }
    }

    /// A line more behind this one. Behind a line that is damaged nothing can be found: it takes the place of what was there.
    #[cold]
    fn lengthen(&self, held: &mut Held<'_>, last: u64, link: u64) -> u64 {
        let Some(chunk) = self.spares.take() else { panic!("room for a line of the index was kept") };
        self.write_overflow(chunk, &[]);
        self.medium.region.fence();
        self.make(held, &Lane { at: last + LINK as u64 * 8, new: chunk, old: link, ..Lane::default() });
        chunk + 8
    }

    /// Stores an overflow line with these entries; durable after a fence of this thread.
    pub(super) fn write_overflow(&self, chunk: u64, entries: &[u64]) {
        let mut line = Line::empty(self.seed(chunk));
        line.0[0] = self.link_word(chunk);
        entries.iter().enumerate().for_each(|(i, entry)| line.set(i + 1, *entry));
        self.medium.region.write_nt(self.medium.at(chunk), &line.bytes());
    }
}
