//! When is a ticket met, who is woken when it may be, and when does a sync begin?
//!
//! # Thread safety
//! A session that finds its ticket unmet registers, wishes for a sync, and looks again; whoever completes a write or a sync
//! moves positions first and wakes afterwards. Who takes the wish for a sync away looks for writes afterwards: whoever
//! found the wish still there noted its write before.

use std::sync::atomic::Ordering::*;

use crate::commit::{Level, Ticket};
use crate::durability::Durability;
use crate::shared::Shared;

impl Shared {
    /// The positions that answers wait for.
    pub fn level(&self) -> &Level {
        match self.durability {
            Durability::Sync => self.commit.power(),
            Durability::None | Durability::Batch(_) => self.commit.process(),
        }
    }
    fn is_met(&self, slot: usize, ticket: &Ticket) -> bool {
        if ticket.power {
            return self.commit.met(self.commit.power(), slot, ticket);
        }
        self.commit.met(self.level(), slot, ticket)
            && match self.durability {
                // The window never grows: if syncing falls behind, answers wait for it.
                Durability::Batch(window) => {
                    self.commit.met(self.commit.power(), slot, ticket) || {
                        // Whoever wrote it may be held up before its own note, and a sync that runs may have begun before
                        // the write: then nobody would know that this answer counts on a sync to come.
                        self.commit.note_unsynced(self.clock_us());
                        let since = self.commit.unsafe_since_us();
                        since.is_none_or(|since| !self.has_passed(since, window.as_micros() as u64 + 1))
                    }
                }
                Durability::None | Durability::Sync => true,
            }
    }
    /// Whether what the ticket of session `slot`, which calls this itself, stands for is as durable as was promised, or
    /// never will be; if neither, the session is woken when it may be.
    pub fn is_settled(&self, slot: usize, ticket: &Ticket) -> bool {
        if self.is_met(slot, ticket) {
            return true;
        }
        self.commit.waiters.register(slot);
        self.want_sync();
        // It may have been reached between the look and the registration.
        self.is_met(slot, ticket) || self.log_failed.load(SeqCst)
    }
    /// Asks for a sync, soon.
    pub fn want_sync(&self) {
        if !self.sync_wanted.load(SeqCst) && !self.sync_wanted.swap(true, SeqCst) {
            self.notify_work();
        }
    }
    /// Whether a sync should begin now. Takes the wish for one: who then can't begin it must call
    /// [`put_off_sync`](Self::put_off_sync).
    pub fn take_sync(&self) -> bool {
        // The wish goes before the look, even where there is nothing to sync: a write that is noted, and wished to be
        // synced, between a look and the taking of an older wish would be left alone for good.
        let wanted = self.sync_wanted.load(SeqCst) && self.sync_wanted.swap(false, SeqCst);
        let Some(since) = self.commit.unsafe_since_us() else { return false };
        wanted
            || match self.durability {
                // Half the window, so that the sync itself fits in the other half.
                Durability::Batch(window) => self.has_passed(since, window.as_micros() as u64 / 2),
                Durability::Sync | Durability::None => false,
            }
    }
    /// Another thread is syncing, and may have begun before the wish: it is there again.
    pub fn put_off_sync(&self) {
        self.sync_wanted.store(true, SeqCst);
    }
}
