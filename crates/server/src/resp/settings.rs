//! What clients may change while the server runs, as `CONFIG` names it.
//!
//! # Thread safety
//! Each is a number by itself: relaxed, no order between them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// See the module.
#[derive(Debug)]
pub(crate) struct Settings {
    /// `acllog-max-len`.
    pub acl_log_max: AtomicUsize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { acl_log_max: AtomicUsize::new(128) }
    }
}

impl Settings {
    /// Entries that `ACL LOG` keeps.
    pub fn acl_log_max(&self) -> usize {
        self.acl_log_max.load(Relaxed)
    }
}
