//! Time limits and the bound on all buffers: connections that are over either are found by looking through them.
//!
//! There is no timer a connection, so activity costs one store. A worker looks through its connections when the first of them
//! could be due: activity only moves that time away, so what was found last time is early enough (unsent bytes bring it nearer,
//! and are told when they do). A pass takes a bounded
//! number of connections; a long one is spread over turns. So a connection is closed at most [`LATE_MS_MAX`] and a pass late.

use std::sync::atomic::Ordering::Relaxed;

use super::Worker;
use crate::limits::Limits;
use crate::protocol::Context;
use crate::tally::Tally;

/// Connections looked at in one pass.
const PASS: usize = 1024;
/// Between two times of looking through all lies this much at least, or an eighth of the shortest limit if that is less.
const LATE_MS_MAX: u64 = 1000;
const LATE_MS_MIN: u64 = 20;

/// When to look next, and how far it has come.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The clock at the last look at it.
    now_ms: u64,
    /// When a pass begins; `u64::MAX`: nothing can become due.
    next_ms: u64,
    /// The slot at which the running pass goes on.
    cursor: usize,
    /// The earliest time at which one of those seen in this pass could be due.
    earliest_ms: u64,
    /// Clients that were closed because all together held too much.
    shed: Tally,
}

impl Sweep {
    pub fn new() -> Self {
        Self { now_ms: 0, next_ms: u64::MAX, cursor: 0, earliest_ms: u64::MAX, shed: Tally::default() }
    }

    /// Something could be due then.
    pub fn watch(&mut self, due_ms: u64) {
        self.next_ms = self.next_ms.min(due_ms);
        self.earliest_ms = self.earliest_ms.min(due_ms);
    }

    /// When the worker must not sleep longer, in milliseconds since the Unix epoch.
    pub fn due_ms(&self) -> Option<u64> {
        let next_ms = Some(self.next_ms).filter(|due| *due < u64::MAX);
        next_ms.into_iter().chain(self.shed.due_ms()).min()
    }

    /// Whether a pass is due. A clock that was set back makes it due at once.
    fn is_due(&mut self, now_ms: u64) -> bool {
        if now_ms < self.now_ms && self.next_ms < u64::MAX {
            self.next_ms = now_ms;
        }
        self.now_ms = now_ms;
        now_ms >= self.next_ms
    }

    /// Slots to look at now.
    fn pass(&mut self, slots: usize) -> std::ops::Range<usize> {
        let from = self.cursor.min(slots);
        from..slots.min(from + PASS)
    }

    /// Goes on behind a pass that ended at `end`.
    fn passed(&mut self, end: usize, slots: usize, limits: &Limits) {
        self.cursor = end;
        if end >= slots {
            self.cursor = 0;
            self.next_ms = self.earliest_ms.max(self.now_ms + late_ms(limits));
            if self.earliest_ms == u64::MAX {
                self.next_ms = u64::MAX;
            }
            self.earliest_ms = u64::MAX;
        }
    }
}

fn late_ms(limits: &Limits) -> u64 {
    let all = [&limits.idle_ms, &limits.login_ms, &limits.handshake_ms];
    let shortest = all.iter().filter_map(|bound| bound.get()).min().unwrap_or(LATE_MS_MAX);
    (shortest / 8).clamp(LATE_MS_MIN, LATE_MS_MAX)
}

impl Worker {
    /// Closes what is over a limit, as far as that is due.
    pub(super) fn sweep(&mut self, ctx: &Context<'_>) {
        let limits = &ctx.shared.limits;
        if self.inbox.take_recheck() {
            self.sweep.watch(ctx.now_ms);
        }
        if self.sweep.is_due(ctx.now_ms) {
            let slots = self.connections.capacity();
            let pass = self.sweep.pass(slots);
            let end = pass.end;
            for key in pass {
                let Some(connection) = self.connections.get_mut(key) else { continue };
                match connection.due_ms(ctx) {
                    Some(due_ms) if due_ms <= ctx.now_ms => {
                        let counters = &ctx.shared.counters;
                        let counter = if connection
                            .output_due_ms(ctx)
                            .is_some_and(|due_ms| due_ms <= ctx.now_ms)
                        {
                            tracing::warn!("a client has read its answers too slowly for too long; closing");
                            &counters.closed_output
                        } else {
                            connection.was_idle = true;
                            &counters.closed_idle
                        };
                        connection.end();
                        self.after(key, ctx);
                        // Who sees the number finds it gone.
                        counter.fetch_add(1, Relaxed);
                    }
                    Some(due_ms) => self.sweep.earliest_ms = self.sweep.earliest_ms.min(due_ms),
                    None => {}
                }
            }
            self.sweep.passed(end, slots, limits);
        }
        if (limits.is_over() || limits.strangers_are_over()) && self.shed_strangers(ctx) {
            self.shed(ctx);
        }
        if let Some(closed) = self.sweep.shed.due(ctx.now_ms) {
            tracing::warn!(
                closed,
                held = limits.held.bytes(),
                "all clients together hold more memory than they may, or those that have not logged in more than a quarter \
                 of that: closed those that held most"
            );
        }
    }

    /// Closes those of its connections that must log in and have not, those that hold most first. `false`, when all hold too much
    /// still, if the larger ones of such are other workers', which then come first.
    fn shed_strangers(&mut self, ctx: &Context<'_>) -> bool {
        let limits = &ctx.shared.limits;
        let strangers = self.connections.iter().map(|(key, connection)| (connection.stranger_held(), key));
        let mut strangers: Vec<_> = strangers.filter(|(held, _)| *held > 0).collect();
        strangers.sort_unstable();
        while limits.is_over() || limits.strangers_are_over() {
            let Some(bytes) = limits.strangers.topmost() else { return true };
            match strangers.pop() {
                Some((held, key)) if held >= bytes => self.shed_one(key, ctx),
                _ => {
                    ctx.shared.wake_workers();
                    return false;
                }
            }
        }
        true
    }

    fn shed_one(&mut self, key: usize, ctx: &Context<'_>) {
        self.sweep.shed.note();
        ctx.shared.counters.closed_memory.fetch_add(1, Relaxed);
        self.connections[key].end();
        self.after(key, ctx);
    }

    /// Closes those of its connections that hold most, until all hold little enough or the larger ones are other workers'.
    fn shed(&mut self, ctx: &Context<'_>) {
        let limits = &ctx.shared.limits;
        while limits.is_over() {
            let Some(bytes) = limits.held.topmost() else { return };
            let largest = self.connections.iter().max_by_key(|(_, connection)| connection.held());
            match largest.map(|(key, connection)| (key, connection.held())) {
                Some((key, held)) if held >= bytes => self.shed_one(key, ctx),
                _ => {
                    ctx.shared.wake_workers();
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sleeps_until_the_first_could_be_due() {
        let limits = Limits::default();
        limits.idle_ms.set(8000);
        let mut sweep = Sweep::new();
        assert!(!sweep.is_due(1) && sweep.due_ms().is_none(), "nobody is there");
        sweep.watch(9000);
        sweep.watch(20_000);
        assert!(!sweep.is_due(8999));
        assert!(sweep.is_due(9000));
        // It was active in between, and could be due at 12000.
        assert_eq!(sweep.pass(10), 0..10);
        sweep.earliest_ms = 12_000;
        sweep.passed(10, 10, &limits);
        assert_eq!(sweep.due_ms(), Some(12_000));
        assert!(sweep.is_due(12_000));
        sweep.earliest_ms = 12_001;
        sweep.passed(10, 10, &limits);
        assert_eq!(sweep.due_ms(), Some(13_000), "not again at once");
        assert!(sweep.is_due(5), "the clock was set back");
        sweep.earliest_ms = u64::MAX;
        sweep.passed(10, 10, &limits);
        assert_eq!(sweep.due_ms(), None, "all have gone");
    }

    #[test]
    fn a_long_pass_is_taken_in_pieces() {
        let limits = Limits::default();
        let mut sweep = Sweep::new();
        sweep.watch(0);
        let mut seen = 0;
        while sweep.is_due(10) {
            let pass = sweep.pass(3000);
            assert!(pass.len() <= PASS);
            seen += pass.len();
            sweep.passed(pass.end, 3000, &limits);
            sweep.earliest_ms = if sweep.cursor > 0 { 500 } else { u64::MAX };
        }
        assert_eq!(seen, 3000);
    }
}
