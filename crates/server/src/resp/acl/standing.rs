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
pub(in crate::resp) struct Standing {
    /// `None`: it was deleted.
    users: HashMap<u64, Option<Arc<User>>>,
    /// Whether those are all that there are; nothing changed for others if not.
    are_all: bool,
}

impl Acl {
    /// The users that there are now.
    pub(in crate::resp) fn standing(&self) -> Standing {
        fence(SeqCst);
        let users = self.users.read();
        let users = users.values().map(|user| (user.id, Some(Arc::clone(user)))).collect();
        Standing { users, are_all: true }
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
    /// Users that changed just now: with thousands of others a change costs no more.
    pub fn of(changed: impl IntoIterator<Item = (u64, Option<Arc<User>>)>) -> Self {
        fence(SeqCst);
        Self { users: changed.into_iter().collect(), are_all: false }
    }

    /// Whether a connection's user is still there, and may go on with what the connection has begun. Redis goes on showing commands to
    /// who may no longer say MONITOR; here that ends, too.
    pub fn may_go_on(&self, entry: &Entry) -> bool {
        let number = entry.labels.lock().user_number;
        let user = match self.users.get(&number) {
            Some(Some(user)) => user,
            Some(None) => return false,
            None => return !self.are_all,
        };
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
