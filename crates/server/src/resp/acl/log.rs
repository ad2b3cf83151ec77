//! What `ACL LOG` tells: who was refused what. Refusals of one kind in short order are one entry.

use std::collections::VecDeque;

/// Refusals of one kind that are no further apart than this are counted in one entry.
const SAME_WITHIN_MS: u64 = 60_000;
/// Longer objects and names are cut: an entry must not cost what a client chose.
pub(super) const NAME_BYTES_MAX: usize = 256;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Reason {
    Auth,
    Command,
    Key,
    Channel,
}

impl Reason {
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
        }
    }
}

/// One kind of refusal.
#[derive(Clone, Debug)]
pub(in crate::resp) struct Entry {
    pub id: u64,
    pub count: u64,
    pub reason: Reason,
    /// Inside of a transaction.
    pub in_multi: bool,
    pub object: Box<[u8]>,
    pub user: Box<[u8]>,
    /// The connection that was refused last, as `CLIENT LIST` tells it.
    pub client: String,
    pub created_ms: u64,
    pub updated_ms: u64,
}

impl Entry {
    /// An entry for one refusal; the names in `client` are cut already.
    pub fn new(
        reason: Reason,
        in_multi: bool,
        object: &[u8],
        user: &[u8],
        client: String,
        now_ms: u64,
    ) -> Self {
        let cut = |bytes: &[u8]| -> Box<[u8]> { bytes[..bytes.len().min(NAME_BYTES_MAX)].into() };
        let (object, user) = (cut(object), cut(user));
        Self {
            id: 0,
            count: 1,
            reason,
            in_multi,
            object,
            user,
            client,
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }
}

/// The entries, the last one first.
#[derive(Debug, Default)]
pub(in crate::resp) struct Log {
    entries: VecDeque<Entry>,
    next_id: u64,
    /// How often each reason came, for `INFO`: auth, command, key, channel.
    pub denied: [u64; 4],
}

impl Log {
    /// Adds a refusal; no more than `max` entries are kept.
    pub fn add(&mut self, mut entry: Entry, max: usize) {
        self.denied[entry.reason as usize] += 1;
        let same = |old: &Entry| {
            (old.reason, old.in_multi) == (entry.reason, entry.in_multi)
                && old.object == entry.object
                && old.user == entry.user
                && entry.updated_ms.saturating_sub(old.updated_ms) <= SAME_WITHIN_MS
        };
        if let Some(at) = self.entries.iter().position(same)
            && let Some(old) = self.entries.remove(at)
        {
            entry.id = old.id;
            entry.count = old.count + 1;
            entry.created_ms = old.created_ms;
        } else {
            entry.id = self.next_id;
            self.next_id += 1;
        }
        self.entries.push_front(entry);
        self.entries.truncate(max);
    }

    /// The last ones.
    pub fn last(&self, count: usize) -> Vec<Entry> {
        self.entries.iter().take(count).cloned().collect()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_in_short_order_is_one_entry() {
        let mut log = Log::default();
        let mut add = |reason, object: &str, now_ms| {
            log.add(Entry::new(reason, false, object.as_bytes(), b"u", String::new(), now_ms), 3);
        };
        add(Reason::Key, "a", 0);
        add(Reason::Key, "b", 1);
        add(Reason::Key, "a", 2);
        let entries = log.last(10);
        let told: Vec<_> = entries.iter().map(|entry| (entry.id, &*entry.object, entry.count)).collect();
        assert_eq!(told, [(0, &b"a"[..], 2), (1, b"b", 1)]);
        assert_eq!((entries[0].created_ms, entries[0].updated_ms), (0, 2));
        let mut add = |reason, object: &str, now_ms| {
            log.add(Entry::new(reason, false, object.as_bytes(), b"u", String::new(), now_ms), 3);
        };
        add(Reason::Key, "a", 70_000);
        add(Reason::Command, "a", 70_000);
        assert_eq!(log.last(10).len(), 3, "the oldest one went");
        assert_eq!(log.last(1)[0].id, 3);
        assert_eq!(log.denied, [0, 1, 4, 0]);
    }
}
