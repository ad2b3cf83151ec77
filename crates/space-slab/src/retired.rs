//! Slots that the index refers to no more, until no session can still be reading them.
//!
//! # Thread safety
//! Sessions append to one of a few lists; one background step at a time takes them all. Anybody asks how many wait.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;

use terrace_engine::space::Context;

use crate::slab::Slabs;
use crate::sync::{AtomicUsize, Mutex};

const LISTS: usize = 16;

/// Slots that were let go.
pub(crate) struct Retired {
    /// Just now.
    lists: [Mutex<Vec<u64>>; LISTS],
    /// Of each class: slots that wait for an epoch.
    cooling: Box<[AtomicUsize]>,
}

/// Slots that wait for an epoch: the epoch, and their offsets.
#[derive(Default)]
pub(crate) struct Cooling {
    batches: VecDeque<(u64, Vec<u64>)>,
    /// What was let go since a policy that keeps lists of slots looked last.
    pub let_go: Vec<u64>,
}

impl Retired {
    /// None, of so many classes.
    pub fn new(classes: usize) -> Self {
        Self {
            lists: std::array::from_fn(|_| Mutex::new(Vec::new())),
            cooling: (0..classes).map(|_| AtomicUsize::new(0)).collect(),
        }
    }
    /// How many of a class wait for an epoch.
    pub fn cooling(&self, class: usize) -> usize {
        self.cooling[class].load(Relaxed)
    }
    /// A slot was let go.
    #[inline]
    pub fn push(&self, offset: u64) {
        // Neighbours go to the same list, threads mostly to different ones.
        self.lists[(offset >> 12) as usize % LISTS].lock().push(offset);
    }

    /// Takes what was let go, and gives back what nobody can be reading any more. Whether anything was given back.
    /// `is_noted`: somebody takes what was let go out of [`Cooling::let_go`].
    pub fn collect(
        &self,
        cooling: &mut Cooling,
        is_noted: bool,
        slabs: &Slabs,
        context: &dyn Context,
    ) -> bool {
        let count = |offsets: &[u64], up: bool| {
            for class in offsets.iter().filter_map(|&offset| slabs.class_of(slabs.slab_of(offset))) {
                // Nobody else changes it.
                let now = self.cooling[class].load(Relaxed);
                self.cooling[class].store(if up { now + 1 } else { now.saturating_sub(1) }, Relaxed);
            }
        };
        let mut batch = Vec::new();
        for list in &self.lists {
            batch.append(&mut list.lock());
        }
        if !batch.is_empty() {
            count(&batch, true);
            if is_noted {
                cooling.let_go.extend_from_slice(&batch);
            }
            cooling.batches.push_back((context.advance_epoch(), batch));
        }
        let mut any = false;
        while cooling.batches.front().is_some_and(|(epoch, _)| context.epoch_passed(*epoch)) {
            let Some((_, batch)) = cooling.batches.pop_front() else { break };
            count(&batch, false);
            for offset in batch {
                slabs.give(offset);
            }
            any = true;
        }
        any
    }
    /// Whether slots wait.
    pub fn is_waiting(cooling: &Cooling) -> bool {
        !cooling.batches.is_empty()
    }
}
