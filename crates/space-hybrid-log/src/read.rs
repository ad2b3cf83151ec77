//! Reading: from the frame if the page has one, straight from byte-addressable media, or by a read that completes later
//! (HeterMM section 4.2).

use std::collections::HashMap;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{
    BLOCK_HEADER_BYTES, BlockTrailer, Finished, Lower, Piece, Place, Stored, TRAILER_BYTES, Words, checked,
    entries, pieces, u64_at,
};
use terrace_engine::record::{Head, Kind, RecordMeta};
use terrace_engine::space::{Arrival, Arrived, Fetch, Want};
use terrace_engine::{fetch_lost, fetch_view};
use terrace_index::{Address, Key};

use crate::space::HybridLog;

/// The longest stretch that is read before a record's length is known.
const FIRST_BYTES_MAX: usize = 1024;
const FIRST_BYTES_MIN: usize = 64;
const SHORT_BYTES: usize = 192;

/// A session's reads in flight.
pub struct Reads<L: Lower> {
    queue: L::Queue,
    jobs: HashMap<u64, Job>,
    /// Device reads by their own tokens: the job, and which of its parts.
    parts: HashMap<u64, (u64, usize)>,
    next: u64,
    finished: Vec<Finished>,
    /// What needs no device any more.
    ready: Vec<Arrival>,
}

enum Job {
    Record { place: Place, seq: u64 },
    Extent { pieces: Vec<Piece>, arrived: Vec<Option<Vec<u8>>>, failed: bool, total: usize, crc: u32 },
}

impl<L: Lower> Reads<L> {
    pub(crate) fn new(queue: L::Queue) -> Self {
        Self {
            queue,
            jobs: HashMap::new(),
            parts: HashMap::new(),
            next: 0,
            finished: Vec::new(),
            ready: Vec::new(),
        }
    }
    pub(crate) fn queue(&self) -> &L::Queue {
        &self.queue
    }
}

impl<L: Lower> HybridLog<L> {
    #[inline]
    pub(crate) fn touch_record(&self, address: Address) {
        let place = self.addresses.place(address);
        let Some(slot) = self.blocks.slots.get(place.slot as usize) else { return };
        match slot.frame() {
            Some(frame) => prefetch(&self.frames.words(frame)[place.offset as usize / 8..]),
            None if L::DIRECT => {
                self.blocks.lower.prefetch(
                    self.blocks.block_offset(place.slot) + u64::from(place.offset),
                    self.first_bytes(place),
                );
            }
            None => {}
        }
    }

    #[inline]
    fn first_bytes(&self, place: Place) -> usize {
        let typical = self.blocks.typical_bytes.load(Relaxed) as usize;
        typical.clamp(FIRST_BYTES_MIN, FIRST_BYTES_MAX).min(self.blocks.block_bytes - place.offset as usize)
    }

    #[inline]
    pub(crate) fn fetch_record(
        &self,
        address: Address,
        key: Option<&Key<'_>>,
        want: Want,
        out: &mut Vec<u8>,
    ) -> Fetch {
        let place = self.addresses.place(address);
        let Some(slot) = self.blocks.slots.get(place.slot as usize) else { return Fetch::Differs };
        if let Some(frame) = slot.frame() {
            return fetch_words(
                Words(&self.frames.words(frame)[place.offset as usize / 8..]),
                key,
                want,
                out,
            );
        }
        if !L::DIRECT {
            return Fetch::NeedsRead;
        }
        self.fetch_direct(place, slot.seq.load(Relaxed), key, want, out)
    }

    fn fetch_direct(
        &self,
        place: Place,
        seq: u64,
        key: Option<&Key<'_>>,
        want: Want,
        out: &mut Vec<u8>,
    ) -> Fetch {
        let first = self.first_bytes(place);
        // Clearing the buffer is a good part of a short read's cost.
        if first <= SHORT_BYTES {
            self.fetch_with(&mut [0; SHORT_BYTES][..first], place, seq, key, want, out)
        } else {
            self.fetch_with(&mut [0; FIRST_BYTES_MAX][..first], place, seq, key, want, out)
        }
    }

    fn fetch_with(
        &self,
        first: &mut [u8],
        place: Place,
        seq: u64,
        key: Option<&Key<'_>>,
        want: Want,
        out: &mut Vec<u8>,
    ) -> Fetch {
        let offset = self.blocks.block_offset(place.slot) + u64::from(place.offset);
        self.blocks.lower.read_now(offset, first);
        let meta = RecordMeta(u64_at(first, 8));
        let used = meta.used_words() * 8;
        let long;
        let bytes: &[u8] = if used <= first.len() || !meta.plausible() {
            first
        } else if place.offset as usize + used > self.blocks.block_bytes {
            &[]
        } else {
            let mut whole = vec![0; used];
            whole[..first.len()].copy_from_slice(first);
            self.blocks.lower.read_now(offset + first.len() as u64, &mut whole[first.len()..]);
            long = whole;
            &long
        };
        match checked(seq, place.slot, place.offset, bytes) {
            Some(mut view) => {
                view.head.tier = L::TIER;
                fetch_view(&view, key, want, out)
            }
            None => match (self.footer_of(place, seq), key) {
                (Some((hash, head)), Some(key)) if hash == key.hash => {
                    self.blocks.counts.damaged.fetch_add(1, Relaxed);
                    fetch_lost(hash, head, Some(key))
                }
                _ => Fetch::Differs,
            },
        }
    }

    /// The hash that the block's footer has for a place whose record can't be read, and what else it says.
    fn footer_of(&self, place: Place, seq: u64) -> Option<(u64, Head)> {
        let block = self.blocks.block_bytes;
        let start = self.blocks.block_offset(place.slot);
        let mut bytes = [0; TRAILER_BYTES];
        self.blocks.lower.read(start + (block - TRAILER_BYTES) as u64, &mut bytes).ok()?;
        let Stored::Valid(trailer) = BlockTrailer::decode(&bytes, block) else { return None };
        if trailer.seq != seq {
            return None;
        }
        let mut footer = vec![0; trailer.footer_bytes()];
        self.blocks.lower.read(start + (block - TRAILER_BYTES - footer.len()) as u64, &mut footer).ok()?;
        if crc32c::crc32c(&footer) != trailer.footer_crc {
            return None;
        }
        let mut list = entries(&footer).skip_while(|entry| entry.offset != place.offset);
        let entry = list.next()?;
        let end = list.next().map_or(trailer.data_end, |next| next.offset);
        let words = end.saturating_sub(entry.offset) as usize / 8;
        Some((entry.hash, Head::lost(entry.version, entry.kind, entry.db, words, L::TIER)))
    }

    pub(crate) fn start_record(&self, reads: &mut Reads<L>, address: Address, token: u64) -> bool {
        let place = self.addresses.place(address);
        let seq = self.blocks.slots[place.slot as usize].seq.load(Acquire);
        let bytes = self.first_bytes(place);
        if !self.submit(reads, token, 0, place, bytes) {
            return false;
        }
        reads.jobs.insert(token, Job::Record { place, seq });
        true
    }

    /// Starts reading `bytes` bytes at a place, in whole units.
    fn submit(&self, reads: &mut Reads<L>, job: u64, part: usize, place: Place, bytes: usize) -> bool {
        let unit = L::UNIT as u64;
        let from = u64::from(place.offset) / unit * unit;
        let to = (u64::from(place.offset) + bytes as u64)
            .next_multiple_of(unit)
            .min(self.blocks.block_bytes as u64);
        let device_token = reads.next + 1;
        let offset = self.blocks.block_offset(place.slot) + from;
        if !self.blocks.lower.submit(&mut reads.queue, device_token, offset, (to - from) as usize) {
            return false;
        }
        reads.next = device_token;
        reads.parts.insert(device_token, (job, part));
        true
    }

    pub(crate) fn start_extent(&self, reads: &mut Reads<L>, description: &[u8], token: u64) -> bool {
        let Some((total, crc, list)) = pieces(description) else {
            reads.ready.push(Arrival { token, outcome: Arrived::Damaged { hash: 0, head: Head::default() } });
            return true;
        };
        // All pieces at once may be more than the queue holds: the rest is submitted as pieces arrive.
        let arrived = vec![None; list.len()];
        let started = list
            .first()
            .is_some_and(|piece| self.submit(reads, token, 0, piece.place(), piece.bytes as usize));
        if !started && !list.is_empty() {
            return false;
        }
        reads
            .jobs
            .insert(token, Job::Extent { pieces: list, arrived, failed: false, total: total as usize, crc });
        true
    }

    pub(crate) fn reap_reads(&self, reads: &mut Reads<L>, wait: bool, out: &mut Vec<Arrival>) {
        out.append(&mut reads.ready);
        loop {
            let mut finished = std::mem::take(&mut reads.finished);
            self.blocks.lower.reap(&mut reads.queue, wait && out.is_empty(), &mut finished);
            if finished.is_empty() {
                // Nothing came, so nothing followed: all that was submitted has been handed to the device by this call.
                reads.finished = finished;
                return;
            }
            for read in finished.drain(..) {
                let Some((token, part)) = reads.parts.remove(&read.token) else { continue };
                if let Some(outcome) = self.arrive(reads, token, part, read) {
                    reads.jobs.remove(&token);
                    out.push(Arrival { token, outcome });
                }
            }
            reads.finished = finished;
        }
    }

    /// Takes in a finished device read; the outcome, once its job is done.
    fn arrive(&self, reads: &mut Reads<L>, token: u64, part: usize, read: Finished) -> Option<Arrived> {
        match reads.jobs.get_mut(&token)? {
            Job::Record { place, seq } => {
                let (place, seq) = (*place, *seq);
                if read.result.is_err() {
                    return Some(Arrived::Failed);
                }
                let skip = place.offset as usize % L::UNIT;
                let bytes = &read.buf[skip..];
                let meta = RecordMeta(u64_at(bytes, 8));
                let used = meta.used_words() * 8;
                let fits = place.offset as usize + used <= self.blocks.block_bytes;
                if meta.plausible() && used > bytes.len() && fits {
                    // Longer than most: read all of it.
                    if self.submit(reads, token, 0, place, used) {
                        return None;
                    }
                    return Some(Arrived::Moved);
                }
                if self.blocks.slots[place.slot as usize].seq.load(Acquire) != seq {
                    return Some(Arrived::Moved);
                }
                Some(match checked(seq, place.slot, place.offset, bytes) {
                    Some(_) => Arrived::Record(bytes[..used].to_vec()),
                    // The slot is in use again, by a page that is not on the medium yet.
                    None if !self.blocks.on_medium(place.slot) => Arrived::Moved,
                    None => {
                        self.blocks.counts.damaged.fetch_add(1, Relaxed);
                        match self.footer_of(place, seq) {
                            Some((hash, head)) => Arrived::Damaged { hash, head },
                            None => Arrived::Failed,
                        }
                    }
                })
            }
            Job::Extent { pieces, arrived, failed, .. } => {
                let piece = pieces[part];
                let skip = piece.offset as usize % L::UNIT;
                match read.result {
                    Ok(()) => arrived[part] = Some(read.buf[skip..skip + piece.bytes as usize].to_vec()),
                    Err(_) => *failed = true,
                }
                if *failed {
                    return Some(Arrived::Failed);
                }
                if self.blocks.slots[piece.slot as usize].seq.load(Acquire) != piece.seq {
                    return Some(Arrived::Moved);
                }
                if let Some(next) = pieces.get(part + 1).copied() {
                    // One after another: a piece is long, so the device is kept busy all the same.
                    return if self.submit(reads, token, part + 1, next.place(), next.bytes as usize) {
                        None
                    } else {
                        Some(Arrived::Moved)
                    };
                }
                let Some(Job::Extent { arrived, total, crc, .. }) = reads.jobs.remove(&token) else {
                    return None;
                };
                let whole: Vec<u8> = arrived.into_iter().flatten().flatten().collect();
                if whole.len() == total && crc32c::crc32c(&whole) == crc {
                    Some(Arrived::Extent(whole))
                } else {
                    self.blocks.counts.damaged.fetch_add(1, Relaxed);
                    Some(Arrived::Damaged { hash: 0, head: Head::default() })
                }
            }
        }
    }
}

/// Fetches from a frame.
#[inline]
fn fetch_words(words: Words<'_>, key: Option<&Key<'_>>, want: Want, out: &mut Vec<u8>) -> Fetch {
    let start = out.len();
    words.consistently(|head| {
        out.truncate(start);
        let meta = head.meta;
        if meta.kind() == Kind::Poison {
            return match key {
                Some(key) if words.bytes_equal(meta.key_word(), &key.hash.to_le_bytes()) => {
                    Fetch::Damaged(head)
                }
                _ => Fetch::Differs,
            };
        }
        match key {
            Some(key) => {
                let same = meta.key_bytes() == key.bytes.len()
                    && meta.db() == key.db
                    && words.bytes_equal(meta.key_word(), key.bytes);
                if !same {
                    return Fetch::Differs;
                }
                if want == Want::Value || meta.kind() == Kind::Extent {
                    words.copy_bytes(meta.value_word(), meta.value_bytes(), out);
                }
            }
            None => {
                words.copy_bytes(meta.key_word(), meta.key_bytes(), out);
                if want == Want::Value {
                    words.copy_bytes(meta.value_word(), meta.value_bytes(), out);
                }
            }
        }
        Fetch::Match(head)
    })
}

#[inline]
fn prefetch(words: &[crate::sync::AtomicU64]) {
    #[cfg(all(target_arch = "x86_64", not(shuttle)))]
    for line in words.iter().step_by(8).take(2) {
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe {
            std::arch::x86_64::_mm_prefetch(line.as_ptr() as *const i8, std::arch::x86_64::_MM_HINT_T0);
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(shuttle))))]
    let _ = words;
}

const _: () = assert!(BLOCK_HEADER_BYTES.is_multiple_of(8), "records start on words");
