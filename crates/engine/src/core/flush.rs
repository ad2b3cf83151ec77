//! Whole databases: forgotten, or exchanged. A logged generation, at a cost that does not grow with the data.

use std::sync::atomic::Ordering::*;

use terrace_index::Index;
use terrace_log::LogDevice;

use super::{Core, Step};
use crate::databases::Databases;
use crate::op::DATABASES;
use crate::reply::{OpError, Reply};
use crate::shared::{Shared, Swapped};
use crate::space::Space;
use crate::version::Version;

/// Second word of a log entry that is a flush and not a record (no record has such lengths), and of one that is an exchange.
const FLUSH_MARK: u64 = u64::MAX;
const SWAP_MARK: u64 = u64::MAX - 1;

/// Words of such an entry.
const GENERATION_WORDS: usize = 3;

/// What a log entry that is no record says.
#[derive(Clone, Copy)]
pub(crate) enum Generation {
    /// The databases of this bit mask, by where they lie, are empty.
    Flush { mask: u16 },
    /// The databases lie so.
    Swap(Databases),
}

impl Generation {
    fn words(self) -> [u64; 2] {
        match self {
            Self::Flush { mask } => [FLUSH_MARK, u64::from(mask)],
            Self::Swap(databases) => [SWAP_MARK, databases.word()],
        }
    }
}

/// What a log entry says of whole databases; `None` if it is a record.
pub(crate) fn decode_generation(entry: &[u8]) -> Option<Generation> {
    let word = |i: usize| Some(u64::from_le_bytes(entry.get(i * 8..i * 8 + 8)?.try_into().ok()?));
    match word(1)? {
        FLUSH_MARK => Some(Generation::Flush { mask: word(2)? as u16 }),
        SWAP_MARK => Databases::from_word(word(2)?).map(Generation::Swap),
        _ => None,
    }
}

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Forgets the keys of the database that lies there, or of all; records are purged in the background.
    pub(super) fn flush(&mut self, place: Option<u8>) -> Step {
        self.begin_generation(|shared, version| {
            for (i, floor) in shared.flush_versions.iter().enumerate() {
                if place.is_none_or(|place| usize::from(place) == i) {
                    floor.store(version, SeqCst);
                    for counters in &shared.counters {
                        counters.keys[i].store(0, Relaxed);
                        counters.expiring[i].store(0, Relaxed);
                    }
                }
            }
            Generation::Flush { mask: place.map_or(u16::MAX >> (16 - DATABASES), |place| 1 << place) }
        })
    }

    /// Exchanges the numbers of the databases that lie there. It rests on every write before it, of all sessions: were one of those lost and this not,
    /// a record would be missed where it has never been.
    pub(super) fn swap(&mut self, place: u8, other: u8) -> Step {
        let sessions = self.machine.shared.sessions_max();
        let mut before = vec![0; sessions];
        let step = self.begin_generation(|shared, version| {
            before.iter_mut().enumerate().for_each(|(slot, newest)| *newest = shared.commit.issued(slot));
            let databases = shared.databases();
            let databases = databases.swapped(databases.number(place), databases.number(other));
            shared.swap(Swapped { version, databases });
            Generation::Swap(databases)
        });
        before.into_iter().filter(|newest| *newest != 0).for_each(|newest| self.see(newest));
        step
    }

    /// Makes a change of whole databases and logs it. Nobody is inside an operation while it takes effect, so that counts stay exact
    /// and no operation sees half of it.
    fn begin_generation(&mut self, change: impl FnOnce(&Shared, u64) -> Generation) -> Step {
        self.leave();
        // An operation that is not in the log yet must not end up behind this in it.
        self.write_log();
        self.enter();
        // It is issued before it is in the log: were there no room for it then, no page could be sealed, for all wait for what was
        // issued, and so no log block could be freed.
        loop {
            match self.make_log_room(GENERATION_WORDS, 1) {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return Step::Done(Reply::Error(error)),
            }
        }
        self.leave();
        let machine = self.machine.clone();
        let shared = &machine.shared;
        let stores_it = || machine.save_manifest(|_| {}).is_ok();
        let (version, generation, is_safe) = shared.while_paused(|| {
            let newest = (0..shared.sessions_max()).map(|slot| shared.commit.issued(slot)).max().unwrap_or(0);
            let seen = newest.max(shared.version_floor.load(Relaxed));
            let version = self.last.next(Version(seen), shared.version_us(shared.now_us()), self.slot);
            let generation = change(shared, version.0);
            shared.flush_version.fetch_max(version.0, SeqCst);
            shared.version_floor.fetch_max(version.0, SeqCst);
            shared.commit.issue(self.slot, version.0);
            // Where no answer waits for anything, others may see it only once it is safe.
            let is_safe = !S::SELF_KEPT || stores_it();
            (version, generation, is_safe)
        });
        self.last = version;
        if !is_safe || !S::SELF_KEPT && !self.writer.is_given() && !stores_it() {
            // Without a log the manifest alone says so after a crash, and space of what was forgotten is reused soon.
            self.enter();
            return Step::Done(Reply::Error(OpError::Io));
        }
        if let Some(writer) = self.writer.keeper_mut() {
            let [mark, word] = generation.words();
            let words = [version.0, mark, word].map(u64::to_le_bytes);
            writer.entry(version.0, 0, &[&words[0], &words[1], &words[2]]);
        }
        self.enter();
        self.see(version.0);
        shared.notify_work();
        Step::Done(Reply::Done)
    }
}
