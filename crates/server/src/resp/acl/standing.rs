//! What goes on by itself when rights change: a connection that listens or watches asks nobody any more.
//!
//! ```text
//! who changes users                          who begins to listen, or to watch
//!   users, generation moved on                 noted in its entry
//!   fence                                      fence
//!   looks at every entry                       generation moved on since it was allowed? looks at its own entry
//! ```
//!
//! One of the two sees the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};

use super::Acl;
use super::user::User;
use crate::registry::{Entry, Topic, flag};

/// Users by number, as of one moment.
pub(in crate::resp) struct Standing(HashMap<u64, Arc<User>>);

impl Acl {
    /// The users that there are now.
    pub(in crate::resp) fn standing(&self) -> Standing {
        fence(SeqCst);
        Standing(self.users.read().values().map(|user| (user.id, Arc::clone(user))).collect())
    }

    /// Ends a connection that began to listen or to watch just now, which was allowed as of change `seen`, if a later one forbids it.
    pub(in crate::resp) fn look_again(&self, entry: &Entry, seen: u64) {
        fence(SeqCst);
        if self.generation() != seen && !self.standing().may_go_on(entry) {
            entry.kill();
        }
    }
}

impl Standing {
    /// Whether a connection's user is still there, and may go on with what the connection has begun. Redis goes on showing commands to
    /// who may no longer say MONITOR; here that ends, too.
    pub fn may_go_on(&self, entry: &Entry) -> bool {
        let number = entry.labels.lock().user_number;
        let Some(user) = self.0.get(&number) else { return false };
        if entry.has(flag::MONITOR) && !user.may_monitor() {
            return false;
        }
        let subscriptions = entry.subscriptions.lock();
        let opens = |topic: Topic| {
            subscriptions.names(topic).all(|name| user.may_listen(name, topic == Topic::Pattern))
        };
        [Topic::Channel, Topic::Pattern, Topic::Shard].into_iter().all(opens)
    }
}
