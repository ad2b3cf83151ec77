//! Reads of what is not in memory.

use std::os::fd::RawFd;

use terrace_index::Address;
use terrace_media::Buffer;

use super::records::Records;
use crate::record::Head;

/// A read that was started for a session has come to an end.
#[derive(Debug)]
pub struct Arrival {
    /// The token it was started with.
    pub token: u64,
    /// What came.
    pub outcome: Arrived,
}

/// What a device read brought.
#[derive(Debug)]
pub enum Arrived {
    /// A whole record, encoded and verified.
    Record(Vec<u8>),
    /// An extent's bytes, verified.
    Extent(Buffer),
    /// The place was reused meanwhile: look the key up again.
    Moved,
    /// What is there is damaged; for a record, what the block's footer says of it.
    Damaged {
        /// The key's hash.
        hash: u64,
        /// As [`Head::lost`] makes it.
        head: Head,
    },
    /// The device failed.
    Failed,
}

/// Reads from a device, which sessions start and collect.
pub trait DeviceReads: Records {
    /// Starts reading a record (or, with a description, an extent) from a device for this session. `false`: too many are in
    /// flight; reap first.
    fn start_read(
        &self,
        local: &mut Self::Local,
        address: Option<Address>,
        extent: &[u8],
        token: u64,
    ) -> bool;

    /// Collects finished reads; with `wait`, at least one if any is in flight.
    fn reap(&self, local: &mut Self::Local, wait: bool, out: &mut Vec<Arrival>);

    /// A descriptor that polls readable when a read has finished.
    fn read_fd(&self, local: &Self::Local) -> Option<RawFd>;

    /// About what a read of the record at this address brings in the end; it may lead to a large value. For bounds on memory.
    fn read_bytes(&self, _address: Address) -> usize {
        64 << 10
    }
}
