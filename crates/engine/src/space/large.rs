//! Values too long for a record.

use terrace_index::Key;
use terrace_media::Buffer;

use super::records::{Fetch, Records, Room};

/// A large value that another one is to replace.
#[derive(Clone, Copy, Debug)]
pub struct Former<'a> {
    /// What describes it.
    pub description: &'a [u8],
    /// Its bytes.
    pub value: &'a [u8],
}

/// Where values lie that are longer than [`Limits::inline_bytes`](super::Limits::inline_bytes): in extents, of which the record holds
/// a description.
pub trait LargeValues: Records {
    /// Writes a large value where it survives what the log survives once the log entry does; appends its description to
    /// `description`. It may share with the value that it is to replace what both have alike.
    ///
    /// # Errors
    /// [`Room::Wait`] or [`Room::Full`] if there is no room, with nothing kept; `Err(None)` if the device failed.
    fn write_extent(
        &self,
        local: &mut Self::Local,
        value: &[u8],
        former: Option<Former<'_>>,
        description: &mut Vec<u8>,
    ) -> Result<(), Option<Room>>;

    /// The extent with this description is no longer referred to, or never was. What it shares with the one that `other` describes
    /// (the one that replaces it, or that it was to replace; empty: none) stays. Sessions that hold the description may still read it
    /// during their epoch.
    fn release_extent(&self, description: &[u8], other: &[u8]);

    /// The length of the value that a description stands for.
    fn extent_bytes(&self, description: &[u8]) -> u64;

    /// Appends an extent's bytes to `out` if they can be had without waiting. Of a match's head the tier alone means something.
    fn fetch_extent(&self, description: &[u8], out: &mut Buffer) -> Fetch;

    /// A client's get had to read this large value from a device. Called once for each such get, outside of any critical section:
    /// a space that has room for a copy may keep one.
    fn keep_extent(&self, _key: &Key<'_>, _description: &[u8], _value: &[u8]) {}
}

/// A space that takes no value longer than [`Limits::inline_bytes`](super::Limits::inline_bytes): its `value_bytes` is the same.
pub trait InlineOnly: Records {}

impl<S: InlineOnly> LargeValues for S {
    fn write_extent(
        &self,
        _local: &mut Self::Local,
        _value: &[u8],
        _former: Option<Former<'_>>,
        _description: &mut Vec<u8>,
    ) -> Result<(), Option<Room>> {
        Err(Some(Room::Full))
    }
    fn release_extent(&self, _description: &[u8], _other: &[u8]) {}
    fn extent_bytes(&self, _description: &[u8]) -> u64 {
        0
    }
    fn fetch_extent(&self, _description: &[u8], _out: &mut Buffer) -> Fetch {
        Fetch::Differs
    }
}
