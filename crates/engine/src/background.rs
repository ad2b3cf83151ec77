//! What the machine does through its own session: expiry, eviction, a look at how long keys have left.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use terrace_index::{AnyIndex, Index};
use terrace_log::LogDevice;

use crate::core::Core;
use crate::machine::Machine;
use crate::session::Progress;
use crate::space::Space;

/// Keys looked at in one step of eviction.
const EVICT_KEYS: usize = 256;

impl<I: Index, S: Space, D: LogDevice> Machine<I, S, D> {
    pub(crate) fn expire_step(self: &Arc<Self>) -> Progress {
        let held_until_ms = self.shared.expiry_held_until_ms.load(Relaxed);
        if held_until_ms > 0 && self.shared.now_us() / 1000 < held_until_ms && !self.space.is_full() {
            return Progress::Idle;
        }
        // First the session: what is found is found once, and must not be dropped because another step has it.
        let Some(mut background) = self.background.try_lock() else { return Progress::Idle };
        let mut keys = background.as_mut().map(Core::take_unpurged).unwrap_or_default();
        let left = self.space.find_expired(AnyIndex::of(&self.index), &**self, &mut |db, key| {
            // While the space still searches: it must not find itself full in between.
            self.shared.is_purging.store(true, SeqCst);
            keys.push((db, key.to_vec()));
        });
        if keys.is_empty() {
            return left;
        }
        self.shared.is_purging.store(true, SeqCst);
        let progress = self.run_background(&mut background, |core| core.expire(keys));
        self.shared.is_purging.store(false, SeqCst);
        match progress {
            Progress::Idle => left,
            other => other,
        }
    }

    pub(crate) fn evict_step(self: &Arc<Self>) -> Progress {
        if !self.options.evict || !self.space.wants_victims() {
            return Progress::Idle;
        }
        let mut keys: Vec<(u8, Vec<u8>)> = Vec::new();
        self.space.find_victims(AnyIndex::of(&self.index), &**self, EVICT_KEYS, &mut |db, key| {
            keys.push((db, key.to_vec()))
        });
        if keys.is_empty() {
            return Progress::Idle;
        }
        self.with_background(|core| core.evict(&keys))
    }

    /// Runs `f` on the machine's own session; `Idle` if another thread is doing so.
    pub(crate) fn with_background(
        self: &Arc<Self>,
        f: impl FnOnce(&mut Core<I, S, D>) -> Progress,
    ) -> Progress {
        let Some(mut background) = self.background.try_lock() else { return Progress::Idle };
        self.run_background(&mut background, f)
    }

    fn run_background(
        self: &Arc<Self>,
        background: &mut Option<Core<I, S, D>>,
        f: impl FnOnce(&mut Core<I, S, D>) -> Progress,
    ) -> Progress {
        if background.is_none() {
            match Core::open(self) {
                Ok(core) => *background = Some(core),
                Err(_) => return Progress::Blocked,
            }
        }
        background.as_mut().map_or(Progress::Idle, f)
    }

    /// See [`Store::mean_ttl_ms`](crate::Store::mean_ttl_ms).
    pub(crate) fn mean_ttl_ms(self: &Arc<Self>, db: u8) -> u64 {
        let place = self.shared.swapped.lock().databases.place(db);
        if self.shared.expiring(place) == 0 {
            return 0;
        }
        let (now, mut sum, mut count) = (self.shared.now_us() / 1000, 0u128, 0u128);
        self.with_background(|core| {
            core.sample_deadlines(&mut |of, expire_at| {
                if of == place && expire_at > now {
                    (sum, count) = (sum + u128::from(expire_at - now), count + 1);
                }
            });
            Progress::Idle
        });
        let last = &self.shared.mean_ttl_ms[usize::from(place) & 15];
        if let Some(mean) = sum.checked_div(count) {
            last.store(u64::try_from(mean).unwrap_or(u64::MAX), Relaxed);
        }
        // Background work may have its session elsewhere.
        last.load(Relaxed)
    }
}
