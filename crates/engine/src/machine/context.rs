//! What background steps of a space may ask of the machine.

use std::sync::atomic::Ordering::*;

use terrace_index::Index;
use terrace_log::LogDevice;

use super::Machine;
use crate::commit::Barrier;
use crate::hash::KeyHasher;
use crate::record::Kind;
use crate::space::{Context, Replaced, Space};
use crate::version::Version;

impl<I: Index, S: Space, D: LogDevice> Context for Machine<I, S, D> {
    fn advance_epoch(&self) -> u64 {
        self.shared.epochs.advance()
    }
    fn epoch_passed(&self, epoch: u64) -> bool {
        self.shared.epochs.passed(epoch)
    }
    fn barrier(&self) -> Barrier {
        self.shared.commit.barrier()
    }
    fn barrier_passed(&self, barrier: &Barrier) -> bool {
        if !self.log.is_given() || self.shared.commit.passed(barrier) {
            return true;
        }
        self.shared.want_sync();
        false
    }
    fn settled(&self, version: u64) -> bool {
        if !self.log.is_given() || self.shared.commit.power().settled(Version(version).slot()) >= version {
            return true;
        }
        self.shared.want_sync();
        false
    }
    fn logged(&self) -> bool {
        self.log.is_given()
    }
    fn trusts(&self, seq: u64) -> bool {
        if self.stored_seq.load(SeqCst) >= seq {
            return true;
        }
        self.wanted_seq.fetch_max(seq, SeqCst);
        false
    }
    fn give_trust(&self) -> std::io::Result<()> {
        self.time_step().map(|_| ())
    }
    fn log_floor(&self) -> u64 {
        if self.log.is_given() { self.stored_floor.load(SeqCst) } else { u64::MAX }
    }
    fn flush_wanted(&self) -> u64 {
        self.shared.flush_wanted.load(SeqCst)
    }
    fn flush_version(&self, db: u8) -> u64 {
        self.shared.flush_versions[usize::from(db) & 15].load(SeqCst)
    }
    fn now_ms(&self) -> u64 {
        self.shared.now_us() / 1000
    }
    fn raise_version_floor(&self, version: u64) {
        self.shared.version_floor.fetch_max(version, SeqCst);
    }
    fn forgotten(&self, kind: Kind) {
        self.shared.forgotten(kind);
    }
    fn poisoned(&self, kind: Kind, db: u8, expires: bool) {
        self.shared.poisoned(kind, db, expires);
    }
    fn recount(&self, db: u8, version: u64, found: Option<Replaced>) {
        self.shared.recount(db, version, found);
    }
    fn hold_flushes(&self, work: &mut dyn FnMut()) {
        let _no_flush = self.shared.pause.lock();
        work();
    }
    fn expired(&self, db: u8) {
        self.shared.expired(db);
    }
    fn tells_expired(&self) -> bool {
        self.shared.tells_expired.load(Relaxed)
    }
    fn is_purging(&self) -> bool {
        self.shared.is_purging.load(SeqCst)
    }
    fn has_unpurged(&self) -> bool {
        self.shared.has_unpurged.load(SeqCst)
    }
    fn tombstones_and_keys(&self) -> (u64, u64) {
        (self.shared.tombstones(), (0..crate::op::DATABASES as u8).map(|db| self.shared.keys(db)).sum())
    }
    fn evicts(&self) -> bool {
        self.options.evict
    }
    fn hasher(&self) -> KeyHasher {
        self.options.hasher
    }
}
