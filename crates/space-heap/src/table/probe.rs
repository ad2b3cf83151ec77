//! Look-ups without the lock.
//!
//! # Thread safety
//! A record tells whose it is: a hit needs nothing more. A miss stands if nothing of the stripe has moved since it began: [`Stripes`].
//!
//! [`Stripes`]: super::stripes::Stripes

use terrace_index::linear::{bucket_of, depth_of, next_cursor};
use terrace_index::{Address, Key, Lookup, Verdict};
use terrace_media::ByteRegion;

use super::PmTable;
use super::chain::Walked;
use super::line::chunk_of;

impl<R: ByteRegion> PmTable<R> {
    /// Looks a key up.
    pub(super) fn get(&self, key: &Key<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        let (stripe, tag) = (self.stripes.of(key.hash), self.tag(key.hash));
        loop {
            let noted = self.stripes.begin_read(stripe);
            let (mut found, mut unread) = (None, None);
            let walked = self.walk(self.bucket_of(key.hash), |_, entry| {
                let address = Address::from_raw(chunk_of(entry)).filter(|_| tag.is_of(entry));
                let Some(address) = address else { return false };
                match verify(address) {
                    Verdict::Match => found = Some(address),
                    Verdict::NeedsRead => unread = Some(address),
                    Verdict::Differs => {}
                }
                found.is_some()
            });
            if let Some(address) = found {
                return Lookup::Found(address);
            }
            if !self.stripes.stands(stripe, noted) {
                continue;
            }
            if let (None, Walked::Damaged(at)) = (unread, walked) {
                let (_held, _) = self.lock(key.hash);
                if self.heal(at) {
                    continue;
                }
            }
            return match (unread, walked) {
                (Some(address), _) => Lookup::Unread(address),
                // Whether the key is there nobody can tell: it counts as one whose record is damaged.
                (None, Walked::Damaged(at)) if verify(Address::new(at)) != Verdict::Differs => {
                    Lookup::Found(Address::new(at))
                }
                (None, _) => Lookup::Absent,
            };
        }
    }

    /// Whether an entry leads to a chunk.
    pub(crate) fn leads_to(&self, hash: u64, chunk: u64) -> bool {
        let (stripe, tag) = (self.stripes.of(hash), self.tag(hash));
        loop {
            let noted = self.stripes.begin_read(stripe);
            let mut found = false;
            self.walk(self.bucket_of(hash), |_, entry| {
                found |= tag.is_of(entry) && chunk_of(entry) == chunk;
                found
            });
            if found || self.stripes.stands(stripe, noted) {
                return found;
            }
        }
    }

    /// Runs `work` while nobody changes the entry of this hash, told whether it leads to a chunk.
    pub(crate) fn while_held<T>(&self, hash: u64, chunk: u64, work: impl FnOnce(bool) -> T) -> T {
        let (_held, bucket) = self.lock(hash);
        // Where nobody can tell, it is kept.
        work(!matches!(self.find(bucket, self.tag(hash), chunk), Ok(None)))
    }

    /// Starts loading a hash's bucket.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let at = self.line_of(self.bucket_of(hash));
        self.medium.region.prefetch(self.medium.at(at), crate::layout::LINE_BYTES);
    }

    /// The likeliest entries of a hash in its bucket's own line.
    #[inline]
    pub(super) fn candidates(&self, hash: u64, mut visit: impl FnMut(Address)) {
        let tag = self.tag(hash);
        let line = self.read_line(self.line_of(self.bucket_of(hash)));
        for (_, entry) in line.entries(0).filter(|(_, entry)| tag.is_of(*entry)) {
            if let Some(address) = Address::from_raw(chunk_of(entry)) {
                visit(address);
            }
        }
    }

    /// One step of an iteration.
    pub(super) fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> u64 {
        let start = out.len();
        loop {
            let noted = self.stripes.begin_read(self.stripes.of(cursor));
            let buckets = self.buckets();
            let bucket = bucket_of(cursor, buckets);
            self.walk(bucket, |_, entry| {
                out.extend(Address::from_raw(chunk_of(entry)));
                false
            });
            if self.stripes.stands(self.stripes.of(cursor), noted) {
                return next_cursor(cursor, depth_of(bucket, buckets));
            }
            out.truncate(start);
        }
    }

    /// The chunks that entries lead to, and those of overflow lines, of one bucket. `false` if a line does not hold together.
    pub(crate) fn led_to(&self, bucket: u64, mut entry: impl FnMut(u64), mut line: impl FnMut(u64)) -> bool {
        let _held = self.stripes.lock(self.stripes.of(bucket));
        let walked = self.walk_lines(bucket, |at, first, words| {
            if first != 0 {
                line(at);
            }
            words.entries(first).for_each(|(_, word)| entry(chunk_of(word)));
            false
        });
        !matches!(walked, Walked::Damaged(_))
    }
}
