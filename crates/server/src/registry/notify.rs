//! Keyspace notifications: changes published on channels, `notify-keyspace-events` saying which.
//!
//! They are read off the answers of settled operations ([`super::changes`]), and published behind the command's answer.
//! Of `x` (expired) and `e` (evicted) the engine's background work tells, when it deletes a key: a while after its time.

use std::sync::atomic::Ordering::Relaxed;

use terrace_engine::databases::Databases;
use terrace_engine::{Batch, Settled};

use super::{Registry, changes, want};
use crate::effort::Effort;

/// Classes of events, as bits.
pub(crate) mod class {
    pub(crate) const KEYSPACE: u32 = 1;
    pub(crate) const KEYEVENT: u32 = 1 << 1;
    pub(crate) const GENERIC: u32 = 1 << 2;
    pub(crate) const STRING: u32 = 1 << 3;
    pub(crate) const LIST: u32 = 1 << 4;
    pub(crate) const SET: u32 = 1 << 5;
    pub(crate) const HASH: u32 = 1 << 6;
    pub(crate) const SORTED_SET: u32 = 1 << 7;
    pub(crate) const EXPIRED: u32 = 1 << 8;
    pub(crate) const EVICTED: u32 = 1 << 9;
    pub(crate) const STREAM: u32 = 1 << 10;
    pub(crate) const MODULE: u32 = 1 << 11;
    pub(crate) const NEW: u32 = 1 << 12;
    pub(crate) const KEY_MISS: u32 = 1 << 13;
    /// `A`.
    pub(crate) const ALL: u32 =
        GENERIC | STRING | LIST | SET | HASH | SORTED_SET | EXPIRED | EVICTED | STREAM | MODULE;
}

/// Letters in the order in which Redis tells them.
const LETTERS: [(char, u32); 14] = [
    ('g', class::GENERIC),
    ('$', class::STRING),
    ('l', class::LIST),
    ('s', class::SET),
    ('h', class::HASH),
    ('z', class::SORTED_SET),
    ('x', class::EXPIRED),
    ('e', class::EVICTED),
    ('t', class::STREAM),
    ('d', class::MODULE),
    ('n', class::NEW),
    ('K', class::KEYSPACE),
    ('E', class::KEYEVENT),
    ('m', class::KEY_MISS),
];

/// The classes that a value of `notify-keyspace-events` names; `None` if a letter means nothing. Redis then says
/// "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."
pub(crate) fn parse(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |classes, letter| {
        let letter = char::from(*letter);
        let class = match letter {
            'A' => class::ALL,
            _ => LETTERS.iter().find(|(known, _)| *known == letter)?.1,
        };
        Some(classes | class)
    })
}

/// Classes as Redis writes them. With `A` it does not say whether `n` is on.
pub(crate) fn format(classes: u32) -> String {
    let all = classes & class::ALL == class::ALL;
    let behind = class::KEYSPACE | class::KEYEVENT | class::KEY_MISS;
    let letters = LETTERS.iter().filter(|(_, class)| classes & class != 0 && (!all || behind & class != 0));
    all.then_some('A').into_iter().chain(letters.map(|(letter, _)| *letter)).collect()
}

impl Registry {
    /// `CONFIG GET notify-keyspace-events`, as classes.
    pub fn notified(&self) -> u32 {
        self.notified.load(Relaxed)
    }

    /// `CONFIG SET notify-keyspace-events`.
    pub fn notify(&self, classes: u32) {
        self.notified.store(classes, Relaxed);
        // Tells who reads keys that expire for it, too.
        self.want(want::EVENTS, classes & (class::KEYSPACE | class::KEYEVENT) != 0);
    }

    /// Tells of what these operations of a settled batch did for a command: its full name, empty for other protocols, and what it meant
    /// by the number of a database in those of the batch.
    pub fn tell_events(
        &self,
        batch: &Batch,
        proof: &Settled,
        ops: std::ops::Range<usize>,
        (command, databases): (&str, Databases),
        now_ms: u64,
    ) {
        let publish = |i: usize, event| {
            let op = batch.op(i);
            self.publish_event(event, databases.number(op.db), batch.input(op.key));
        };
        let is_new = |i: &usize| batch.made_key(*i) || changes::is_made_anew(batch.reply(*i, proof), command);
        let tell = |i: usize| {
            let (kind, reply) = (&batch.op(i).kind, batch.reply(i, proof));
            changes::events(kind, reply, command, now_ms, |event| publish(i, event));
        };
        match command {
            // What a key is moved from is told of before what it is moved to, and done last.
            "rename" | "renamenx" | "move" => {
                ops.clone().filter(is_new).for_each(|i| publish(i, changes::NEW));
                ops.rev().for_each(tell);
            }
            _ => ops.for_each(|i| {
                if is_new(&i) {
                    publish(i, changes::NEW);
                }
                tell(i);
            }),
        }
    }

    /// A key was deleted because its time was over.
    pub fn key_expired(&self, db: u8, key: &[u8]) {
        self.publish_event((class::EXPIRED, "expired"), db, key);
        self.written(&[key], 0);
    }

    /// A key was deleted for want of room.
    pub fn key_evicted(&self, db: u8, key: &[u8]) {
        if self.wants() & want::NOTES != 0 {
            self.noted.removed(db, key);
        }
        self.publish_event((class::EVICTED, "evicted"), db, key);
        self.written(&[key], 0);
    }

    fn publish_event(&self, (class, event): changes::Event, db: u8, key: &[u8]) {
        let classes = self.notified();
        if self.wants() & want::EVENTS == 0 || classes & class == 0 || !self.hub.is_listened_to() {
            return;
        }
        // Nobody asked who could be told that a long key took too long to be compared with the patterns.
        let publish = |channel: &[u8], message: &[u8]| {
            self.hub.publish(channel, message, self, &mut Effort::default());
        };
        if classes & class::KEYSPACE != 0 {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            publish(&channel, event.as_bytes());
        }
        if classes & class::KEYEVENT != 0 {
            publish(format!("__keyevent@{db}__:{event}").as_bytes(), key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_and_written_as_redis_does() {
        let round = |text: &str| parse(text.as_bytes()).map(format);
        let expected = [
            ("KEA", "AKE"),
            ("KEg$", "g$KE"),
            ("AKE", "AKE"),
            ("KEAn", "AKE"),
            ("Kn", "nK"),
            ("KEAm", "AKEm"),
            ("x", "x"),
            ("", ""),
            ("g$xed", "g$xed"),
            ("AKEz", "AKE"),
        ];
        for (text, written) in expected {
            assert_eq!(round(text).as_deref(), Some(written), "{text:?}");
        }
        assert_eq!((parse(b"KQ"), parse(b"K E"), parse(b"a")), (None, None, None));
    }
}
