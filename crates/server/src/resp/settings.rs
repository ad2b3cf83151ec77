//! What clients may change while the server runs, as `CONFIG` names it.
//!
//! # Thread safety
//! Each is a number by itself: relaxed, no order between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering::Relaxed};

use parking_lot::Mutex;

/// See the module.
#[derive(Debug)]
pub(crate) struct Settings {
    /// `acllog-max-len`.
    pub acl_log_max: AtomicI64,
    /// `slowlog-log-slower-than`, in microseconds; negative for never.
    pub slowlog_slower_us: AtomicI64,
    /// `slowlog-max-len`.
    pub slowlog_max: AtomicI64,
    /// `latency-monitor-threshold`; 0 for never.
    pub latency_threshold_ms: AtomicI64,
    /// `latency-tracking`.
    pub latency_tracking: AtomicBool,
    /// `hz`: told, and nothing else.
    pub hz: AtomicI64,
    kept: AtomicU32,
    /// Parameters that were changed.
    changed: Mutex<BTreeSet<&'static str>>,
    /// Parameters of Redis that mean nothing here and were set all the same.
    foreign: Mutex<BTreeMap<&'static str, String>>,
}

/// Parameters that are kept and told, and change nothing.
pub(super) struct Kept;

impl Kept {
    pub const NAMES: [&str; 5] = [
        "lazyfree-lazy-eviction",
        "lazyfree-lazy-expire",
        "lazyfree-lazy-server-del",
        "lazyfree-lazy-user-del",
        "lazyfree-lazy-user-flush",
    ];

    fn bit(name: &str) -> u32 {
        Self::NAMES.iter().position(|known| *known == name).map_or(0, |at| 1 << at)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            acl_log_max: AtomicI64::new(128),
            slowlog_slower_us: AtomicI64::new(10_000),
            slowlog_max: AtomicI64::new(128),
            latency_threshold_ms: AtomicI64::new(0),
            latency_tracking: AtomicBool::new(true),
            hz: AtomicI64::new(10),
            kept: AtomicU32::new(0),
            changed: Mutex::default(),
            foreign: Mutex::default(),
        }
    }
}

impl Settings {
    /// Whether arguments are kept until the answer, for the slow log.
    pub fn keeps_arguments(&self) -> bool {
        (0..super::stats::FINE_US).contains(&self.slowlog_slower_us.load(Relaxed))
    }

    /// A parameter was changed.
    pub fn note_changed(&self, name: &'static str) {
        self.changed.lock().insert(name);
    }

    /// Parameters that were changed.
    pub fn changed(&self) -> BTreeSet<&'static str> {
        self.changed.lock().clone()
    }

    /// Keeps what a parameter that means nothing here was set to.
    pub fn keep_foreign(&self, name: &'static str, text: String) {
        self.foreign.lock().insert(name, text);
    }

    /// What such a parameter was set to, if it was.
    pub fn foreign(&self, name: &str) -> Option<String> {
        self.foreign.lock().get(name).cloned()
    }

    /// Entries that `ACL LOG` keeps; never more than a server can spare.
    pub fn acl_log_max(&self) -> usize {
        self.acl_log_max.load(Relaxed).clamp(0, 100_000) as usize
    }

    /// A parameter of [`Kept::NAMES`].
    pub fn kept(&self, name: &str) -> bool {
        self.kept.load(Relaxed) & Kept::bit(name) != 0
    }

    /// Keeps it.
    pub fn keep(&self, name: &str, on: bool) {
        if on {
            self.kept.fetch_or(Kept::bit(name), Relaxed);
        } else {
            self.kept.fetch_and(!Kept::bit(name), Relaxed);
        }
    }
}
