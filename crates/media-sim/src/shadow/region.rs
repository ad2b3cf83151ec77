//! A byte-addressable region with a shadow that a power cut leaves.
//!
//! # Thread safety
//! A line is captured and put into the shadow under its stripe's lock; the ticket drawn there orders the captures of a line.
//! What a thread has flushed and not fenced is the thread's own, as its store buffer is.
//!
//! # Invariants
//! A flush captures the line as it is *then*: what is stored after it is not covered, however soon. A line of the shadow
//! holds the newest capture that was fenced: a slower thread's older one is dropped, for what it holds is in the newer one.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use terrace_media::{ByteRegion, Counters};

use super::outage::Outage;
use super::sabotage::{Omit, Sabotage};
use crate::region::{LINE_BYTES, LINE_WORDS, lines_of};

const STRIPES: usize = 256;

/// A line as it was when it was flushed.
struct Capture {
    line: usize,
    ticket: u64,
    words: [u64; LINE_WORDS],
}

thread_local! {
    /// What this thread flushed and has not fenced, by region.
    static FLUSHED: RefCell<Vec<(u64, Vec<Capture>)>> = const { RefCell::new(Vec::new()) };
}

/// A region (`live`) whose flushed and fenced lines are copied to another one (`kept`): what power loss would leave.
pub struct ShadowRegion<R> {
    live: R,
    kept: R,
    /// Never used twice in a process.
    id: u64,
    stripes: Box<[Mutex<()>]>,
    tickets: AtomicU64,
    /// For each line the ticket of the capture that the shadow holds. Under its stripe's lock.
    applied: Box<[AtomicU64]>,
    sabotage: Option<Sabotage>,
    outage: Arc<Outage>,
}

impl<R: ByteRegion> ShadowRegion<R> {
    /// Wraps two regions that hold the same bytes.
    ///
    /// # Panics
    /// If they differ in length, or it is not a whole number of lines.
    pub fn new(live: R, kept: R, sabotage: Option<Sabotage>, outage: Arc<Outage>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        assert_eq!(live.len(), kept.len(), "a shadow is as long as what casts it");
        assert!(live.len().is_multiple_of(LINE_BYTES as u64), "a region holds whole lines");
        let lines = live.len() as usize / LINE_BYTES;
        Self {
            live,
            kept,
            id: NEXT.fetch_add(1, Relaxed),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            tickets: AtomicU64::new(0),
            applied: (0..lines).map(|_| AtomicU64::new(0)).collect(),
            sabotage,
            outage,
        }
    }

    /// What power loss would leave.
    pub fn kept(&self) -> &R {
        &self.kept
    }

    fn strikes(&self, omit: Omit) -> bool {
        self.sabotage.as_ref().is_some_and(|sabotage| sabotage.strikes(omit))
    }

    fn capture(&self, offset: u64, len: usize) {
        let mut lines = lines_of(offset, len as u64);
        if self.strikes(Omit::Flush) {
            lines.end = lines.end.max(lines.start + 1) - 1;
        }
        FLUSHED.with_borrow_mut(|flushed| {
            let mine = match flushed.iter().position(|(id, _)| *id == self.id) {
                Some(at) => &mut flushed[at].1,
                None => {
                    flushed.push((self.id, Vec::new()));
                    let last = flushed.len() - 1;
                    &mut flushed[last].1
                }
            };
            for line in lines {
                let _one_at_a_time = self.stripes[line % STRIPES].lock();
                let ticket = self.tickets.fetch_add(1, Relaxed) + 1;
                let word = |i| self.live.load_u64((line * LINE_BYTES + i * 8) as u64);
                mine.push(Capture { line, ticket, words: std::array::from_fn(word) });
            }
        });
    }

    fn apply(&self) {
        let captures = FLUSHED.with_borrow_mut(|flushed| {
            let mine = flushed.iter_mut().find(|(id, _)| *id == self.id);
            mine.map(|(_, captures)| std::mem::take(captures))
        });
        for Capture { line, ticket, words } in captures.into_iter().flatten() {
            let _one_at_a_time = self.stripes[line % STRIPES].lock();
            if self.applied[line].load(Relaxed) < ticket {
                self.applied[line].store(ticket, Relaxed);
                for (i, word) in words.into_iter().enumerate() {
                    self.kept.store_u64((line * LINE_BYTES + i * 8) as u64, word);
                }
            }
        }
    }
}

impl<R: ByteRegion> ByteRegion for ShadowRegion<R> {
    fn len(&self) -> u64 {
        self.live.len()
    }
    fn load_u64(&self, offset: u64) -> u64 {
        self.live.load_u64(offset)
    }
    fn store_u64(&self, offset: u64, value: u64) {
        self.live.store_u64(offset, value);
    }
    fn read(&self, offset: u64, out: &mut [u8]) {
        self.live.read(offset, out);
    }
    fn prefetch(&self, offset: u64, len: usize) {
        self.live.prefetch(offset, len);
    }
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.live.write(offset, bytes);
    }
    fn write_nt(&self, offset: u64, bytes: &[u8]) {
        self.live.write_nt(offset, bytes);
        // Another thread that flushes the same line must see what this one streamed: it may capture later and fence earlier.
        self.live.fence();
        self.capture(offset, bytes.len());
    }
    fn flush(&self, offset: u64, len: usize) {
        self.live.flush(offset, len);
        self.capture(offset, len);
    }
    fn fence(&self) {
        self.live.fence();
        self.outage.pass();
        if !self.strikes(Omit::Fence) {
            self.apply();
        }
    }
    fn counters(&self) -> &Counters {
        self.live.counters()
    }
}

impl<R: std::fmt::Debug> std::fmt::Debug for ShadowRegion<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShadowRegion({:?}, kept {:?})", self.live, self.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimRegion;

    fn region(sabotage: Option<Sabotage>) -> ShadowRegion<SimRegion> {
        let zeros = || SimRegion::from_image(vec![0; 4096]);
        ShadowRegion::new(zeros(), zeros(), sabotage, Arc::default())
    }

    #[test]
    fn only_what_was_flushed_and_then_fenced_by_one_thread_is_kept() {
        let region = region(None);
        let kept = |offset| region.kept().load_u64(offset);
        region.store_u64(0, 1);
        region.fence();
        assert_eq!(kept(0), 0, "not flushed");
        region.flush(0, 8);
        assert_eq!(kept(0), 0, "not fenced");
        std::thread::scope(|scope| scope.spawn(|| region.fence()).join()).unwrap();
        assert_eq!(kept(0), 0, "fenced by another thread");
        region.store_u64(8, 2);
        region.fence();
        assert_eq!((kept(0), kept(8)), (1, 0), "what is stored after the flush is not covered by it");
        region.write_nt(40, &[7; 76]);
        region.fence();
        assert_eq!((kept(8), kept(40), kept(112)), (2, 0x0707_0707_0707_0707, 0x0707_0707), "whole lines");
    }

    #[test]
    fn a_slow_thread_does_not_bring_back_what_was_replaced() {
        let region = region(None);
        let (to_slow, at_slow) = std::sync::mpsc::channel::<()>();
        let (to_us, at_us) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let region = &region;
            scope.spawn(move || {
                region.store_u64(0, 1);
                region.flush(0, 8);
                to_us.send(()).unwrap();
                at_slow.recv().unwrap();
                region.fence();
            });
            at_us.recv().unwrap();
            region.store_u64(0, 2);
            region.flush(0, 8);
            region.fence();
            to_slow.send(()).unwrap();
        });
        assert_eq!(region.kept().load_u64(0), 2);
    }

    #[test]
    fn sabotage_leaves_out_the_last_line_or_the_fence() {
        let region = self::region(Some("flush".parse().unwrap()));
        region.write(0, &[1; 128]);
        region.flush(0, 128);
        region.fence();
        assert_eq!((region.kept().load_u64(56), region.kept().load_u64(64)), (0x0101_0101_0101_0101, 0));
        let region = self::region(Some("fence:1".parse().unwrap()));
        region.write_nt(0, &[1; 64]);
        region.fence();
        assert_eq!(region.kept().load_u64(0), 0);
        assert!("fences".parse::<Sabotage>().is_err() && "sync:0".parse::<Sabotage>().is_err());
    }
}
