//! Operations that wait: for a device, or behind an earlier one on the same key.

use terrace_index::{Address, Key, Verdict};
use terrace_media::Buffer;

use crate::record::{Head, RecordView};
use crate::space::{Arrived, Fetch, Space, Want};

/// An operation (or an atomic group) of a batch that is not answered yet.
#[derive(Debug)]
pub(crate) struct Pending {
    /// First and one past the last operation.
    pub ops: (u32, u32),
    /// Position among the session's pending operations; the hashes it is queued under.
    pub order: u64,
    pub hashes: Vec<u64>,
    /// Reads under way, and what each is of: a record's address, with the generation it had when it was found there.
    pub reads: Vec<(u64, Option<(Address, u64)>)>,
    /// Reads that could not be started yet because too many are in flight.
    pub unstarted: Vec<Wanted>,
    /// What earlier reads brought.
    pub known: Known,
}

/// Something that must be read from a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The record at an address, and the generation of the place when the index named it. The read may be started in a later
    /// epoch, when the place may hold other records or none.
    Record(Address, u64),
    Extent {
        description: Vec<u8>,
        version: u64,
    },
}

impl Wanted {
    /// The record at an address, asked for inside the epoch in which the index named it.
    pub fn record<S: Space>(space: &S, address: Address) -> Self {
        Self::Record(address, space.generation(address))
    }
    /// Whether the place was reused meanwhile: the key must be looked up again.
    pub fn has_moved<S: Space>(&self, space: &S) -> bool {
        match self {
            Self::Record(address, generation) => space.generation(*address) != *generation,
            Self::Extent { .. } => false,
        }
    }
}

/// What reads have brought for one operation: facts about addresses, each good as long as the address's generation is
/// what it was.
#[derive(Debug, Default)]
pub(crate) struct Known {
    records: Vec<(Address, u64, Fact)>,
    /// Extents by the version of the record that described each: the bytes, or why they can't be had.
    extents: Vec<(u64, Result<Buffer, Loss>)>,
    /// What they take.
    extents_bytes: usize,
    /// The version whose extent is being read.
    pub extent_version: u64,
    /// The version whose extent was found to have moved.
    extent_moved: u64,
}

#[derive(Debug)]
enum Fact {
    Record(Vec<u8>),
    Damaged { hash: u64, head: Head },
}

/// Why something on a device can't be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Damaged,
    Failed,
}

impl Known {
    /// Takes in what a read brought. `Err` if the device failed.
    pub fn learn(&mut self, place: Option<(Address, u64)>, arrived: Arrived) -> Result<(), Loss> {
        match (arrived, place) {
            (Arrived::Record(bytes), Some((address, generation))) => {
                self.records.push((address, generation, Fact::Record(bytes)));
            }
            (Arrived::Damaged { hash, head }, Some((address, generation))) => {
                self.records.push((address, generation, Fact::Damaged { hash, head }));
            }
            (Arrived::Extent(bytes), _) => self.add_extent(self.extent_version, Ok(bytes)),
            (Arrived::Damaged { .. }, None) => self.add_extent(self.extent_version, Err(Loss::Damaged)),
            (Arrived::Failed, _) => return Err(Loss::Failed),
            // A record whose extent has moved was replaced, and a new look finds what replaced it. If the same one is found
            // again, its extent is gone for good.
            (Arrived::Moved, None) if self.extent_moved == self.extent_version => {
                self.add_extent(self.extent_version, Err(Loss::Damaged));
            }
            (Arrived::Moved, None) => self.extent_moved = self.extent_version,
            (Arrived::Moved, Some(_)) | (Arrived::Record(_), None) => {}
        }
        Ok(())
    }
    /// What is known of the extent that the record of this version describes.
    pub fn extent(&self, version: u64) -> Option<Result<&[u8], Loss>> {
        let (_, extent) = self.extents.iter().find(|(of, _)| *of == version)?;
        Some(extent.as_deref().map_err(|loss| *loss))
    }
    /// What all extents take.
    pub fn extents_bytes(&self) -> usize {
        self.extents_bytes
    }
    pub fn add_extent(&mut self, version: u64, extent: Result<Buffer, Loss>) {
        let bytes = |extent: &Result<Buffer, Loss>| extent.as_ref().map_or(0, |bytes| bytes.len());
        self.extents_bytes += bytes(&extent);
        match self.extents.iter_mut().find(|(of, _)| *of == version) {
            Some((_, before)) => self.extents_bytes -= bytes(&std::mem::replace(before, extent)),
            None => self.extents.push((version, extent)),
        }
    }
    /// Gives the extents' memory back, those of records that were replaced meanwhile among them.
    pub fn forget_extents(&mut self) {
        self.extents.clear();
        self.extents_bytes = 0;
    }
    /// The record at an address as it was read before, if that still holds.
    #[inline]
    pub fn record<S: Space>(&self, space: &S, address: Address) -> Option<&[u8]> {
        if self.records.is_empty() {
            return None;
        }
        match self.fact(space, address)? {
            Fact::Record(bytes) => Some(bytes),
            Fact::Damaged { .. } => None,
        }
    }
    /// Whether what is known of an address was read from a device. A newer version of the key may have been put beside it since
    /// (see [`Under::Unread`](crate::space::Under)): what is in DRAM then counts.
    #[inline]
    pub fn has_read<S: Space>(&self, space: &S, address: Address) -> bool {
        !self.records.is_empty() && self.fact(space, address).is_some()
    }
    /// What to say of a record that matches.
    #[inline]
    pub fn verdict<S: Space>(&self, space: &S, address: Address) -> Verdict {
        // Among records that need a read and one that matches, the match wins.
        if S::BLIND && self.has_read(space, address) { Verdict::NeedsRead } else { Verdict::Match }
    }
    /// What was read from an address, if that still holds.
    fn fact<S: Space>(&self, space: &S, address: Address) -> Option<&Fact> {
        let (_, generation, fact) = self.records.iter().rev().find(|(at, _, _)| *at == address)?;
        (*generation == space.generation(address)).then_some(fact)
    }
    /// As [`Records::fetch`](crate::space::Records::fetch), from what was read before where that still holds.
    #[inline]
    pub fn fetch<S: Space>(
        &self,
        space: &S,
        address: Address,
        key: Option<&Key<'_>>,
        want: Want,
        out: &mut Buffer,
    ) -> Fetch {
        if !self.records.is_empty()
            && let Some(fact) = self.fact(space, address)
        {
            return fact.fetch(key, want, out);
        }
        space.fetch(address, key, want, out)
    }
}

impl Fact {
    fn fetch(&self, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
        match self {
            Fact::Record(bytes) => match RecordView::decode(bytes) {
                Some(mut view) => {
                    view.head.tier = 2;
                    fetch_view(&view, key, want, out)
                }
                None => Fetch::Differs,
            },
            Fact::Damaged { hash, head } => fetch_lost(*hash, *head, key),
        }
    }
}

/// Answers a fetch of a record that can't be read, of which this hash and head are known.
pub fn fetch_lost(hash: u64, head: Head, key: Option<&Key<'_>>) -> Fetch {
    match key {
        Some(key) if key.hash != hash => Fetch::Differs,
        // That the key is gone is all that there was to know.
        Some(_) if head.meta.kind() == crate::record::Kind::Tombstone => Fetch::Match(head),
        Some(_) => Fetch::Damaged(head),
        None => Fetch::Differs,
    }
}

/// Answers a fetch from a decoded record: the one place that says what a match is.
#[inline]
pub fn fetch_view(view: &RecordView<'_>, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
    use crate::record::Kind;
    let kind = view.head.meta.kind();
    match key {
        Some(key) if kind == Kind::Poison => {
            // A poison stands for a hash, not for a key: its "key" is that hash.
            let same = view.key.get(..8).is_some_and(|hash| hash == key.hash.to_le_bytes());
            if same { Fetch::Damaged(view.head) } else { Fetch::Differs }
        }
        Some(key) if view.key != key.bytes || view.head.meta.db() != key.db => Fetch::Differs,
        Some(_) => {
            if want == Want::Value || kind == Kind::Extent {
                out.extend_from_slice(view.value);
            }
            Fetch::Match(view.head)
        }
        None => {
            out.extend_from_slice(view.key);
            if want == Want::Value {
                out.extend_from_slice(view.value);
            }
            Fetch::Match(view.head)
        }
    }
}
