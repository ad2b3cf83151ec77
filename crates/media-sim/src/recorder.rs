//! Collects what happens to simulated media into one [`Trace`].
//!
//! # Thread safety
//! One lock orders all events of all media. A region holds it while it changes its words, so that the order of events
//! is the order in which the memory changed. Lock order: a block device's state before the recorder.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::trace::{Event, Initial, MediumId, Position, Trace};
use crate::{SimBlock, SimRegion, coverage};

/// Shared by the media of one history and its driver; cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    /// `None` once finished.
    trace: Arc<Mutex<Option<Trace>>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// A recorder with an empty trace.
    pub fn new() -> Self {
        Self { trace: Arc::new(Mutex::new(Some(Trace::default()))) }
    }

    /// A region with this durable content whose stores, flushes and fences are recorded. Crash images number regions in the
    /// order of these calls, from 0.
    ///
    /// # Panics
    /// If the length is not a multiple of 64, or the recorder is finished.
    pub fn region(&self, image: Vec<u8>) -> SimRegion {
        SimRegion::recorded(&image, self)
    }

    /// A block device with this durable content whose writes and syncs are recorded. Crash images number block devices in
    /// the order of these calls, from 0.
    ///
    /// # Panics
    /// If the length is not a multiple of 4096, or the recorder is finished.
    pub fn block(&self, image: Vec<u8>) -> SimBlock {
        let medium = self.register(Initial::Block(image.clone()));
        SimBlock::new(image, Some((self.clone(), medium)))
    }

    /// The number of events so far. An operation issued now can have had an effect only in crashes at later positions.
    pub fn position(&self) -> Position {
        self.lock().as_ref().map_or(0, Trace::len)
    }

    /// Records that a client was answered, which makes a crash point; returns the position from which on a crash must
    /// respect the answer.
    pub fn acknowledged(&self, token: u64) -> Position {
        self.push(|_| Event::Acknowledged { token })
    }

    /// Counts that something worth testing happened; see [`coverage()`](crate::coverage()).
    pub fn reach(&self, label: &'static str) {
        coverage::reach(label);
    }

    /// Ends the recording and takes the trace. The media go on working, unrecorded, so that the engine can be dropped.
    /// A second call returns an empty trace.
    pub fn finish(&self) -> Trace {
        self.lock().take().unwrap_or_default()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Trace>> {
        self.trace.lock()
    }

    pub(crate) fn push(&self, event: impl FnOnce(&mut Trace) -> Event) -> Position {
        self.lock().as_mut().map_or(0, |trace| {
            let event = event(trace);
            trace.events.push(event);
            trace.len()
        })
    }

    pub(crate) fn register(&self, initial: Initial) -> MediumId {
        let mut guard = self.lock();
        let Some(trace) = guard.as_mut() else { panic!("a medium was added to a finished recorder") };
        assert!(trace.media.len() < usize::from(u16::MAX), "too many media");
        trace.media.push(initial);
        MediumId(trace.media.len() as u16 - 1)
    }
}
