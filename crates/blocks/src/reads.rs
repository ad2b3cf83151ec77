//! A session's reads from a device that complete later.

use std::collections::HashMap;
use std::sync::atomic::Ordering::*;

use terrace_engine::record::{Head, RecordMeta};
use terrace_engine::space::{Arrival, Arrived};

use crate::blocks::Blocks;
use crate::layout::{checked, u64_at};
use crate::lower::{Finished, Lower};
use crate::pieces::{Piece, pieces};
use crate::place::Place;

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
    /// None in flight yet.
    pub fn new(queue: L::Queue) -> Self {
        Self {
            queue,
            jobs: HashMap::new(),
            parts: HashMap::new(),
            next: 0,
            finished: Vec::new(),
            ready: Vec::new(),
        }
    }
    /// The queue, for its descriptor.
    pub fn queue(&self) -> &L::Queue {
        &self.queue
    }
}

impl<L: Lower> Blocks<L> {
    /// Starts reading the record at a place; `false` if too many reads are in flight. `bytes_hint` is how many bytes to read at
    /// first, in case the record's length is known (`None`: as many as a typical record has); if they prove too few, the read
    /// goes on.
    pub fn start_record(
        &self,
        reads: &mut Reads<L>,
        place: Place,
        bytes_hint: Option<usize>,
        token: u64,
    ) -> bool {
        let seq = self.slots[place.slot as usize].seq.load(Acquire);
        let bytes = self.first_read(place, bytes_hint);
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
        let to = (u64::from(place.offset) + bytes as u64).next_multiple_of(unit).min(self.block_bytes as u64);
        let device_token = reads.next + 1;
        let offset = self.block_offset(place.slot) + from;
        if !self.lower.submit(&mut reads.queue, device_token, offset, (to - from) as usize) {
            return false;
        }
        reads.next = device_token;
        reads.parts.insert(device_token, (job, part));
        true
    }

    /// Starts reading the large value with this description; `false` if too many reads are in flight.
    pub fn start_extent(&self, reads: &mut Reads<L>, description: &[u8], token: u64) -> bool {
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

    /// Collects what has arrived; with `wait`, at least one arrival if any read is in flight.
    pub fn reap_reads(&self, reads: &mut Reads<L>, wait: bool, out: &mut Vec<Arrival>) {
        out.append(&mut reads.ready);
        loop {
            let mut finished = std::mem::take(&mut reads.finished);
            self.lower.reap(&mut reads.queue, wait && out.is_empty(), &mut finished);
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
                let fits = place.offset as usize + used <= self.block_bytes;
                if meta.plausible() && used > bytes.len() && fits {
                    // Longer than most: read all of it.
                    if self.submit(reads, token, 0, place, used) {
                        return None;
                    }
                    return Some(Arrived::Moved);
                }
                if self.slots[place.slot as usize].seq.load(Acquire) != seq {
                    return Some(Arrived::Moved);
                }
                Some(match checked(seq, place.slot, place.offset, bytes) {
                    Some(_) => Arrived::Record(bytes[..used].to_vec()),
                    // The slot is in use again, by a page that is not on the medium yet.
                    None if !self.on_medium(place.slot) => Arrived::Moved,
                    None => {
                        self.counts.damaged.fetch_add(1, Relaxed);
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
                if self.slots[piece.slot as usize].seq.load(Acquire) != piece.seq {
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
                    self.counts.damaged.fetch_add(1, Relaxed);
                    Some(Arrived::Damaged { hash: 0, head: Head::default() })
                }
            }
        }
    }
}
