//! Pending operations.

/// An operation that waits for a device.
#[derive(Debug)]
pub struct Pending {}
