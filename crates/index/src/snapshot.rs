//! Saving an index at a clean stop and loading it at the next start, without a key's hash and without its record.

use std::io;

use crate::Address;

/// Where each entry is to point from now on; `None` if nobody can tell.
pub type Placed<'a> = &'a mut dyn FnMut(Address) -> Option<Address>;
/// Takes a segment: they are numbered in this order, from 0.
pub type TakeSegment<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;
/// Replaces the bytes by those of a segment, as they were taken.
pub type ReadSegment<'a> = &'a (dyn Fn(u32, &mut Vec<u8>) -> io::Result<()> + Sync);
/// Whether an entry may point there.
pub type Expected<'a> = &'a (dyn Fn(Address) -> bool + Sync);

/// What an index offers that can be saved and loaded. Nobody else uses it meanwhile.
///
/// Segments are stored and verified by whoever calls this; an index trusts bytes no further than that it must not be broken
/// by them.
pub trait Snapshot {
    /// Gives all entries away in segments of at most `segment_bytes`, each pointing to where `placed` says. Returns what
    /// [`load`](Self::load) must be told beside them, a few words.
    ///
    /// # Errors
    /// Those of `segment`; `Other` if an entry has no place, or a segment has no room for a single bucket.
    fn save(&self, segment_bytes: usize, placed: Placed<'_>, segment: TakeSegment<'_>)
    -> io::Result<Vec<u8>>;

    /// Becomes the index that was saved, whatever it held. `threads` read.
    ///
    /// # Errors
    /// Those of `read`; `InvalidData` if it is not what an index of this kind saved, or an entry points where none is
    /// `expected`. It is empty then.
    fn load(
        &mut self,
        head: &[u8],
        segments: u32,
        threads: usize,
        read: ReadSegment<'_>,
        expected: Expected<'_>,
    ) -> io::Result<()>;
}
