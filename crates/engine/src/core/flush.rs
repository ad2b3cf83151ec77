//! Forgetting whole databases: a logged generation, at a cost that does not grow with the data.

use std::sync::atomic::Ordering::*;

use terrace_index::Index;
use terrace_log::LogDevice;

use super::{Core, Step};
use crate::op::DATABASES;
use crate::reply::{OpError, Reply};
use crate::space::Space;
use crate::version::Version;

/// Second word of a log entry that is a flush and not a record (no record has such lengths).
pub(crate) const FLUSH_MARK: u64 = u64::MAX;

/// Words of such an entry.
const FLUSH_WORDS: usize = 3;

/// The databases that a log entry flushes, as a bit mask; `None` if it is a record.
pub(crate) fn decode_flush(entry: &[u8]) -> Option<u16> {
    let word = |i: usize| Some(u64::from_le_bytes(entry.get(i * 8..i * 8 + 8)?.try_into().ok()?));
    (word(1)? == FLUSH_MARK).then_some(())?;
    Some(word(2)? as u16)
}

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Forgets the keys of one database, or of all. Nobody is inside an operation while it takes effect, so that the count
    /// stays exact; records are purged in the background.
    pub(super) fn flush(&mut self, db: Option<u8>) -> Step {
        self.leave();
        // An operation that is not in the log yet must not end up behind the flush in it.
        self.write_log();
        self.enter();
        // The flush is issued before it is in the log: were there no room for it then, no page could be sealed, for all wait
        // for what was issued, and so no log block could be freed.
        loop {
            match self.make_log_room(FLUSH_WORDS, 1) {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return Step::Done(Reply::Error(error)),
            }
        }
        self.leave();
        let machine = self.machine.clone();
        let shared = &machine.shared;
        let version = shared.while_paused(|| {
            let newest = (0..shared.sessions_max()).map(|slot| shared.commit.issued(slot)).max().unwrap_or(0);
            let seen = newest.max(shared.version_floor.load(Relaxed));
            let version = self.last.next(Version(seen), shared.now_us(), self.slot);
            for (i, floor) in shared.flush_versions.iter().enumerate() {
                if db.is_none_or(|db| usize::from(db) == i) {
                    floor.store(version.0, SeqCst);
                    for counters in &shared.counters {
                        counters.keys[i].store(0, Relaxed);
                    }
                }
            }
            shared.flush_version.fetch_max(version.0, SeqCst);
            shared.version_floor.fetch_max(version.0, SeqCst);
            shared.commit.issue(self.slot, version.0);
            version
        });
        self.last = version;
        if self.writer.is_none() && machine.save_manifest(|_| {}).is_err() {
            // Without a log the manifest alone says so after a crash, and space of what was forgotten is reused soon.
            self.enter();
            return Step::Done(Reply::Error(OpError::Io));
        }
        if let Some(writer) = &mut self.writer {
            let mask = db.map_or(u64::MAX >> (64 - DATABASES), |db| 1 << db);
            let words = [version.0, FLUSH_MARK, mask].map(u64::to_le_bytes);
            writer.entry(version.0, 0, &[&words[0], &words[1], &words[2]]);
        }
        self.enter();
        self.see(version.0);
        shared.notify_work();
        Step::Done(Reply::Done)
    }
}
