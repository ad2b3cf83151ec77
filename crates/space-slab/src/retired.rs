//! Slots that the index refers to no more, until no session can still be reading them.
//!
//! # Thread safety
//! Sessions append to one of a few lists; background steps take them all.

use std::collections::VecDeque;

use terrace_engine::space::Context;

use crate::slab::Slabs;
use crate::sync::Mutex;

const LISTS: usize = 16;

/// Slots that were just let go.
pub(crate) struct Retired([Mutex<Vec<u64>>; LISTS]);

/// Slots that wait for an epoch: the epoch, and their offsets.
#[derive(Default)]
pub(crate) struct Cooling {
    batches: VecDeque<(u64, Vec<u64>)>,
    /// How many of each class wait.
    pub of_class: Vec<usize>,
    /// What was let go since a policy that keeps lists of slots looked last.
    pub let_go: Vec<u64>,
}

impl Default for Retired {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(Vec::new())))
    }
}

impl Retired {
    /// A slot was let go.
    #[inline]
    pub fn push(&self, offset: u64) {
        // Neighbours go to the same list, threads mostly to different ones.
        self.0[(offset >> 12) as usize % LISTS].lock().push(offset);
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
        cooling.of_class.resize(slabs.classes.count(), 0);
        let count = |of_class: &mut Vec<usize>, offsets: &[u64], up: bool| {
            for &offset in offsets {
                if let Some(class) = slabs.class_of(slabs.slab_of(offset)) {
                    of_class[class] =
                        if up { of_class[class] + 1 } else { of_class[class].saturating_sub(1) };
                }
            }
        };
        let mut batch = Vec::new();
        for list in &self.0 {
            batch.append(&mut list.lock());
        }
        if !batch.is_empty() {
            count(&mut cooling.of_class, &batch, true);
            if is_noted {
                cooling.let_go.extend_from_slice(&batch);
            }
            cooling.batches.push_back((context.advance_epoch(), batch));
        }
        let mut any = false;
        while cooling.batches.front().is_some_and(|(epoch, _)| context.epoch_passed(*epoch)) {
            let Some((_, batch)) = cooling.batches.pop_front() else { break };
            count(&mut cooling.of_class, &batch, false);
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
