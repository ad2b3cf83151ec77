//! Changes of whole databases (flushes, exchanges) between the manifest and what sessions see.
//!
//! Each is an entry of the log. The manifest takes it over once no crash can take it back, and the log is cut only then.

use std::sync::atomic::Ordering::*;

use terrace_index::Index;
use terrace_log::LogDevice;

use crate::machine::Machine;
use crate::manifest::Manifest;
use crate::shared::{Shared, Swapped};
use crate::space::Space;
use crate::version::Version;

impl Shared {
    /// What a recovered manifest says holds.
    pub fn take_generations(&self, manifest: &Manifest) {
        for (flush, &stored) in self.flush_versions.iter().zip(&manifest.flush_versions) {
            flush.store(stored, Relaxed);
        }
        self.flush_version.store(manifest.newest_generation(), Relaxed);
        self.swap(Swapped { version: manifest.databases_version, databases: manifest.databases });
    }
}

impl<I: Index, S: Space, D: LogDevice> Machine<I, S, D> {
    /// Puts into a manifest what may be in it: what could still be taken back must not become durable through here before its log
    /// entry is.
    pub(crate) fn note_generations(&self, manifest: &mut Manifest) {
        for (stored, flush) in manifest.flush_versions.iter_mut().zip(&self.shared.flush_versions) {
            let version = flush.load(SeqCst);
            if self.is_kept(version) {
                *stored = version;
            }
        }
        let swapped = *self.shared.swapped.lock();
        if self.is_kept(swapped.version) {
            (manifest.databases, manifest.databases_version) = (swapped.databases, swapped.version);
        }
    }

    /// Whether the log may be cut, as far as they are concerned: it may hold the only trace of one.
    pub(crate) fn generations_stored(&self, manifest: &Manifest) -> bool {
        let mut flushes = manifest.flush_versions.iter().zip(&self.shared.flush_versions);
        flushes.all(|(stored, flush)| *stored == flush.load(SeqCst))
            && manifest.databases_version == self.shared.swapped.lock().version
    }

    fn is_kept(&self, version: u64) -> bool {
        !self.log.is_given() || self.shared.commit.power().settled(Version(version).slot()) >= version
    }
}
