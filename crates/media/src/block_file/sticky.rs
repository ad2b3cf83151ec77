//! A sync that failed stays failed.

use std::io;

use parking_lot::Mutex;

/// Runs syncs one after the other and remembers the first failure.
#[derive(Default)]
pub(super) struct StickySync {
    failed: Mutex<Option<(io::ErrorKind, String)>>,
}

impl StickySync {
    /// Runs `sync`, unless an earlier one failed.
    pub(super) fn run(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut failed = self.failed.lock();
        if let Some((kind, text)) = &*failed {
            return Err(io::Error::new(*kind, format!("an earlier sync failed, and stays failed: {text}")));
        }
        let result = sync();
        if let Err(error) = &result {
            *failed = Some((error.kind(), error.to_string()));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sync_succeeds_after_one_failed() {
        let sync = StickySync::default();
        sync.run(|| Ok(())).unwrap();
        assert!(sync.run(|| Err(io::Error::from_raw_os_error(libc::EIO))).is_err());
        let error = sync.run(|| panic!("the device must not be asked again")).unwrap_err();
        assert!(error.to_string().contains("earlier sync failed"), "{error}");
    }
}
