//! A session's reads from a device that complete later.
//!
//! ```text
//!   token 7 --+                                     +--> Arrival 7
//!   token 8 --+--> one read of the device, if what  +--> Arrival 8
//!   token 9 --+    they want lies within it         +--> Arrival 9
//! ```
//!
//! Jobs share a read that is under way for the same use of the slot. Records don't change while their block is in use, and
//! each proves itself by its own checksum, so a shared read can bring nothing that a read of one's own would not. The other
//! way round it might: it was begun earlier, and it is longer. So nobody is told of a failure or of damage that a read of
//! somebody else met: who joined it reads again, alone.

use std::collections::HashMap;
use std::sync::atomic::Ordering::*;

use terrace_engine::record::{Head, RecordMeta};
use terrace_engine::space::{Arrival, Arrived};
use terrace_media::Buffer;

use crate::around::{Around, Kept, widened};
use crate::blocks::Blocks;
use crate::held::{Gone, Lies};
use crate::in_flight::{InFlight, Stretch, Waiter};
use crate::layout::{checked, u64_at};
use crate::lower::{Finished, Lower};
use crate::pieces::{Piece, pieces};
use crate::place::Place;

/// A session's reads in flight.
pub struct Reads<L: Lower> {
    queue: L::Queue,
    jobs: HashMap<u64, Job>,
    in_flight: InFlight,
    finished: Vec<Finished>,
    /// What needs no device any more.
    ready: Vec<Arrival>,
    /// What was read around records.
    kept: Kept,
}

enum Job {
    Record(Record),
    Extent(Extent),
}

/// A record on its way.
struct Record {
    place: Place,
    seq: u64,
    /// How many bytes are being read for it.
    bytes: usize,
}

/// A large value on its way: its pieces come one after another.
struct Extent {
    pieces: Vec<Piece>,
    total: usize,
    crc: u32,
    /// What has come so far.
    bytes: Buffer,
    /// Where that lay, one a piece, and where those lie that are being read.
    read_from: Vec<Lies>,
    /// Whether a piece came by somebody else's read.
    shared: bool,
    /// Whether it may wait for no read but its own.
    alone: bool,
}

/// A finished read as one of those sees it who waited.
struct Came<'a> {
    read: &'a Finished,
    stretch: &'a Stretch,
    /// Whether another job started it.
    shared: bool,
}

impl Came<'_> {
    /// Whether it may have been begun before the block was written: another job began it.
    fn may_be_early(&self) -> bool {
        self.shared
    }
}

impl<L: Lower> Reads<L> {
    /// None in flight yet.
    pub fn new(queue: L::Queue) -> Self {
        Self {
            queue,
            jobs: HashMap::new(),
            in_flight: InFlight::default(),
            finished: Vec::new(),
            ready: Vec::new(),
            kept: Kept::default(),
        }
    }
    /// The same, but of each record the whole buf is read, and kept for [`Self::take_around`].
    pub fn of_bufs(queue: L::Queue) -> Self {
        let mut reads = Self::new(queue);
        reads.kept.want(true);
        reads
    }
    /// The buf that was read for the record at a place, in this use of the slot, if nobody has taken it yet.
    pub fn take_around(&mut self, place: Place, seq: u64) -> Option<Around> {
        self.kept.take(place, seq)
    }
    /// Nobody will ask for bufs that were read so far.
    pub fn forget_around(&mut self) {
        self.kept.clear();
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
        let stretch = self.stretch(place, seq, bytes);
        if !self.join(reads, &stretch, Waiter { token, part: 0 }) {
            let wide = reads.kept.wanted().then(|| widened(&stretch, self.block_bytes));
            if !self.submit(reads, wide.unwrap_or(stretch), Waiter { token, part: 0 }) {
                return false;
            }
        }
        reads.jobs.insert(token, Job::Record(Record { place, seq, bytes }));
        true
    }

    /// Starts reading the large value with this description; `false` if too many reads are in flight.
    pub fn start_extent(&self, reads: &mut Reads<L>, description: &[u8], token: u64) -> bool {
        let described = pieces(description).filter(|(_, _, list)| !list.is_empty());
        let Some((total, crc, list)) = described else {
            reads.ready.push(Arrival { token, outcome: Arrived::Damaged { hash: 0, head: Head::default() } });
            return true;
        };
        let mut extent = Extent {
            pieces: list,
            total: total as usize,
            crc,
            bytes: Buffer::new(),
            read_from: Vec::new(),
            shared: false,
            alone: false,
        };
        // All pieces at once may be more than the queue holds: the rest is submitted as pieces arrive.
        match self.read_piece(reads, &mut extent, token, 0) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(outcome) => {
                reads.ready.push(Arrival { token, outcome });
                return true;
            }
        }
        reads.jobs.insert(token, Job::Extent(extent));
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
                let Some(underway) = reads.in_flight.finished(read.token) else { continue };
                let starter = std::iter::once((underway.starter, false));
                let joined = underway.joined.iter().map(|waiter| (*waiter, true));
                let is_of_record = matches!(reads.jobs.get(&underway.starter.token), Some(Job::Record(_)));
                for (waiter, shared) in starter.chain(joined) {
                    let came = Came { read: &read, stretch: &underway.stretch, shared };
                    if let Some(outcome) = self.arrive(reads, waiter, &came) {
                        out.push(Arrival { token: waiter.token, outcome });
                    }
                }
                if reads.kept.wanted() && is_of_record && read.result.is_ok() {
                    reads.kept.keep(underway.stretch, read.buf);
                }
            }
            reads.finished = finished;
        }
    }

    /// Takes in a finished device read for one that waited; the outcome, once its job is done.
    fn arrive(&self, reads: &mut Reads<L>, waiter: Waiter, came: &Came<'_>) -> Option<Arrived> {
        let mut job = reads.jobs.remove(&waiter.token)?;
        let outcome = match &mut job {
            Job::Record(record) => self.arrive_record(reads, waiter, record, came),
            Job::Extent(extent) => self.arrive_piece(reads, waiter, extent, came),
        };
        if outcome.is_none() {
            reads.jobs.insert(waiter.token, job);
        }
        outcome
    }

    /// A record's outcome, or `None` if it must be read on.
    fn arrive_record(
        &self,
        reads: &mut Reads<L>,
        waiter: Waiter,
        record: &mut Record,
        came: &Came<'_>,
    ) -> Option<Arrived> {
        let Record { place, seq, bytes: wanted } = *record;
        let bytes = came.stretch.from(&came.read.buf, place.offset);
        let again = |reads: &mut Reads<L>| {
            let stretch = self.stretch(place, seq, wanted);
            if self.submit(reads, stretch, waiter) { None } else { Some(Arrived::Moved) }
        };
        if came.read.result.is_err() {
            // Where the page has left since, and the medium may end before it, the session knows that this says nothing.
            return if came.shared { again(reads) } else { Some(Arrived::Failed) };
        }
        let meta = RecordMeta(u64_at(bytes, 8));
        let used = meta.used_words() * 8;
        let fits = place.offset as usize + used <= self.block_bytes;
        if meta.plausible() && used > bytes.len() && fits {
            // Longer than most: read all of it.
            record.bytes = used;
            let stretch = self.stretch(place, seq, used);
            if self.join(reads, &stretch, waiter) || self.submit(reads, stretch, waiter) {
                return None;
            }
            return Some(Arrived::Moved);
        }
        if self.slots[place.slot as usize].seq.load(Acquire) != seq {
            return Some(Arrived::Moved);
        }
        match checked(seq, place.slot, place.offset, bytes) {
            Some(_) => Some(Arrived::Record(bytes[..used].to_vec())),
            // The slot is in use again, by a page that is not on the medium yet.
            None if !self.on_medium(place.slot) => Some(Arrived::Moved),
            None if came.may_be_early() => again(reads),
            None => {
                self.counts.damaged.fetch_add(1, Relaxed);
                Some(match self.footer_of(place, seq) {
                    Some((hash, head)) => Arrived::Damaged { hash, head },
                    None => Arrived::Failed,
                })
            }
        }
    }

    /// A large value's outcome, or `None` if more of it must be read.
    fn arrive_piece(
        &self,
        reads: &mut Reads<L>,
        waiter: Waiter,
        extent: &mut Extent,
        came: &Came<'_>,
    ) -> Option<Arrived> {
        let (token, part) = (waiter.token, waiter.part);
        extent.shared |= came.shared;
        let read_on = |reads: &mut Reads<L>, extent: &mut Extent, part| match self
            .read_piece(reads, extent, token, part)
        {
            Ok(true) => None,
            Ok(false) => Some(Arrived::Moved),
            Err(outcome) => Some(outcome),
        };
        let again = |reads: &mut Reads<L>, extent: &mut Extent| {
            extent.bytes.clear();
            extent.read_from.clear();
            (extent.shared, extent.alone) = (false, true);
            read_on(reads, extent, 0)
        };
        let Some(&lies) = extent.read_from.get(part) else { return Some(Arrived::Moved) };
        // Where it was read, it lies no more: what came may be of another use of that slot, or from behind the medium's end.
        if !self.has_seq(lies.slot, lies.seq) {
            return Some(Arrived::Moved);
        }
        if came.read.result.is_err() {
            return if came.shared { again(reads, extent) } else { Some(Arrived::Failed) };
        }
        let bytes = came.stretch.from(&came.read.buf, lies.offset);
        if extent.bytes.is_empty() {
            // All of it at once: a buffer that grows takes three times as much.
            let pieces: usize = extent.pieces.iter().map(|piece| piece.bytes as usize).sum();
            extent.bytes.reserve_exact(pieces.min(extent.total));
        }
        let next = extent.read_from.len();
        let run: usize = extent.pieces[part..next].iter().map(|piece| piece.bytes as usize).sum();
        extent.bytes.extend_from_slice(bytes.get(..run).unwrap_or_default());
        if next < extent.pieces.len() {
            // One after another: what lies side by side is long, so the device is kept busy all the same.
            return read_on(reads, extent, next);
        }
        let whole = std::mem::take(&mut extent.bytes);
        if whole.len() == extent.total && crc32c::crc32c(&whole) == extent.crc {
            return Some(Arrived::Extent(whole));
        }
        // A read that is under way keeps no block from being freed.
        let mut places = extent.pieces.iter().zip(&extent.read_from);
        if places.any(|(piece, lay)| self.has_left(*piece, *lay)) {
            return Some(Arrived::Moved);
        }
        if extent.shared {
            return again(reads, extent);
        }
        self.counts.damaged.fetch_add(1, Relaxed);
        Some(Arrived::Damaged { hash: 0, head: Head::default() })
    }

    /// Starts reading a piece, and those that follow it where it was written; `false` if too many reads are in flight, an outcome if it
    /// is nowhere.
    fn read_piece(
        &self,
        reads: &mut Reads<L>,
        extent: &mut Extent,
        token: u64,
        part: usize,
    ) -> Result<bool, Arrived> {
        let piece = extent.pieces[part];
        let lies = self.find_piece(piece).map_err(|gone| match gone {
            Gone::Freed => Arrived::Moved,
            Gone::Lost => {
                self.counts.damaged.fetch_add(1, Relaxed);
                Arrived::Damaged { hash: 0, head: Head::default() }
            }
        })?;
        extent.read_from.truncate(part);
        extent.read_from.push(lies);
        let mut bytes = piece.bytes as usize;
        let is_home = |piece: &Piece, lies: &Lies| {
            (lies.seq, lies.slot, lies.offset) == (piece.seq, piece.slot, piece.offset)
        };
        for pair in extent.pieces[part..].windows(2).take_while(|_| is_home(&piece, &lies)) {
            let [last, next] = pair else { break };
            let Some(beside) = self.find_piece(*next).ok().filter(|beside| is_home(next, beside)) else {
                break;
            };
            if !last.is_followed_by(next) {
                break;
            }
            extent.read_from.push(beside);
            bytes += next.bytes as usize;
        }
        let place = Place { slot: lies.slot, offset: lies.offset };
        let stretch = self.stretch(place, lies.seq, bytes);
        let waiter = Waiter { token, part };
        Ok(!extent.alone && self.join(reads, &stretch, waiter) || self.submit(reads, stretch, waiter))
    }

    /// `bytes` bytes at a place, in whole units.
    fn stretch(&self, place: Place, seq: u64, bytes: usize) -> Stretch {
        let unit = L::UNIT as u64;
        let from = u64::from(place.offset) / unit * unit;
        let to = (u64::from(place.offset) + bytes as u64).next_multiple_of(unit).min(self.block_bytes as u64);
        Stretch { slot: place.slot, seq, bytes: from as u32..to as u32 }
    }

    fn join(&self, reads: &mut Reads<L>, stretch: &Stretch, waiter: Waiter) -> bool {
        let joined = reads.in_flight.join(stretch, waiter);
        if joined {
            self.counts.reads_merged.fetch_add(1, Relaxed);
        }
        joined
    }

    /// Starts a read of its own; `false` if too many are in flight.
    fn submit(&self, reads: &mut Reads<L>, stretch: Stretch, waiter: Waiter) -> bool {
        let offset = self.block_offset(stretch.slot) + u64::from(stretch.bytes.start);
        let (device_token, len) = (reads.in_flight.next_token(), stretch.bytes.len());
        let submitted = self.lower.submit(&mut reads.queue, device_token, offset, len);
        if submitted {
            reads.in_flight.started(stretch, waiter);
        }
        submitted
    }
}
