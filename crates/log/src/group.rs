//! Groups: what one write of a session puts into a log block.
//!
//! ```text
//! group, a multiple of 8 bytes, little endian
//!   0      4    8       12       16            24       32            34     36
//!   magic  crc  length  entries  last version  durable  dependencies  flags  crc of    40 bytes
//!                                                                           8..36
//!   dependencies: slot u16, version u64 each, padded to 8
//!   entries: version u64, length u32 (top bit: the next entry belongs to the same atomic step), bytes, padded to 8
//! ```
//! A group whose last entry has that bit is *open*: its step goes on in the session's next group, in this block or the next.
//!
//! The checksum covers the store, the block's generation, the group's offset in the area, and everything behind the
//! checksum itself, so that neither an older use of the block nor a misdirected write passes for a group. The second one
//! covers the same of the head alone: what a group says to have been durable is true even if its entries are torn or damaged.

use crate::block_format::read_u64;

pub(crate) const GROUP_BYTES: usize = 40;
pub(crate) const ENTRY_BYTES: usize = 12;
pub(crate) const DEPENDENCY_BYTES: usize = 10;
const MAGIC: u32 = u32::from_le_bytes(*b"tGrp");
/// Set in an entry's length: the next entry belongs to the same atomic step.
pub(crate) const CONTINUES: u32 = 1 << 31;

const _: () = assert!(GROUP_BYTES.is_multiple_of(8) && GROUP_BYTES == 4 + 4 + 4 + 4 + 8 + 8 + 2 + 2 + 4);
const _: () = assert!(ENTRY_BYTES == 8 + 4 && DEPENDENCY_BYTES == 2 + 8);

pub(crate) const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}

/// Which use of which place a group belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub store_id: u64,
    pub generation: u64,
    /// Offset of the block in the area.
    pub block_offset: u64,
}

impl Place {
    fn checksum(&self, at: usize, covered: &[u8]) -> u32 {
        let mut place = [0; 24];
        place[..8].copy_from_slice(&self.store_id.to_le_bytes());
        place[8..16].copy_from_slice(&self.generation.to_le_bytes());
        place[16..].copy_from_slice(&(self.block_offset + at as u64).to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c(&place), covered)
    }
}

/// What a group says besides its entries.
pub(crate) struct GroupHead<'a> {
    pub entries: u32,
    pub last_version: u64,
    pub durable: u64,
    pub dependencies: &'a [(u16, u64)],
}

/// Bytes of a group with these parts; `entry_bytes` counts padded entries with their headers.
pub(crate) fn group_bytes(dependencies: usize, entry_bytes: usize) -> usize {
    GROUP_BYTES + padded(dependencies * DEPENDENCY_BYTES) + entry_bytes
}

/// Appends a group that will stand at byte `at` of its block to `out`.
pub(crate) fn encode(out: &mut Vec<u8>, place: Place, at: usize, head: &GroupHead<'_>, entries: &[u8]) {
    let start = out.len();
    let length = group_bytes(head.dependencies.len(), entries.len());
    debug_assert!(entries.len().is_multiple_of(8) && head.dependencies.len() <= u16::MAX as usize);
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(&head.entries.to_le_bytes());
    out.extend_from_slice(&head.last_version.to_le_bytes());
    out.extend_from_slice(&head.durable.to_le_bytes());
    out.extend_from_slice(&(head.dependencies.len() as u16).to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    let head_crc = place.checksum(at, &out[start + 8..]);
    out.extend_from_slice(&head_crc.to_le_bytes());
    for (slot, version) in head.dependencies {
        out.extend_from_slice(&slot.to_le_bytes());
        out.extend_from_slice(&version.to_le_bytes());
    }
    out.resize(start + padded(out.len() - start), 0);
    out.extend_from_slice(entries);
    debug_assert_eq!(out.len() - start, length);
    let crc = place.checksum(at, &out[start + 8..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

/// A verified group.
pub(crate) struct Group<'a> {
    pub bytes: usize,
    pub last_version: u64,
    pub durable: u64,
    dependencies: &'a [u8],
    entries: &'a [u8],
    /// Where `entries` starts in the block.
    entries_at: usize,
    /// The step of its last entry goes on in the next group.
    pub is_open: bool,
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// What the group whose head is at byte `at` of a block says to have been durable, if the head is whole.
pub(crate) fn claim(block: &[u8], at: usize, place: Place) -> Option<u64> {
    let head = block.get(at..at + GROUP_BYTES)?;
    (read_u32(head, 0) == MAGIC && read_u32(head, 36) == place.checksum(at, &head[8..36]))
        .then(|| read_u64(head, 24))
}

/// How long the group is that begins so, if one does.
pub(crate) fn group_length(head: &[u8]) -> Option<usize> {
    let is_one = head.len() >= GROUP_BYTES && read_u32(head, 0) == MAGIC;
    let bytes = is_one.then(|| read_u32(head, 8) as usize)?;
    (bytes >= GROUP_BYTES && bytes.is_multiple_of(8)).then_some(bytes)
}

/// The group at byte `at` of a block, if a whole one is there whose versions all lie above `after`.
pub(crate) fn parse(block: &[u8], at: usize, place: Place, after: u64) -> Option<Group<'_>> {
    let rest = block.get(at..)?;
    if rest.len() < GROUP_BYTES || read_u32(rest, 0) != MAGIC {
        return None;
    }
    let bytes = read_u32(rest, 8) as usize;
    if bytes < GROUP_BYTES || !bytes.is_multiple_of(8) || bytes > rest.len() {
        return None;
    }
    if place.checksum(at, &rest[8..bytes]) != read_u32(rest, 4) {
        return None;
    }
    let dependencies = read_u16(rest, 32) as usize * DEPENDENCY_BYTES;
    let entries_at = GROUP_BYTES + padded(dependencies);
    let mut group = Group {
        bytes,
        last_version: read_u64(rest, 16),
        durable: read_u64(rest, 24),
        dependencies: rest.get(GROUP_BYTES..GROUP_BYTES + dependencies)?,
        entries: rest.get(entries_at..bytes)?,
        entries_at: at + entries_at,
        is_open: false,
    };
    group.is_open = group.is_sound(read_u32(rest, 12), after)?;
    Some(group)
}

impl<'a> Group<'a> {
    /// Entries fill the group exactly, as many as announced, in ascending versions that end in the announced one; and what
    /// was durable when it was written lies before it. If so, whether its last step goes on behind it.
    fn is_sound(&self, count: u32, after: u64) -> Option<bool> {
        let (mut last, mut seen, mut used, mut is_open) = (after.max(self.durable), 0, 0, false);
        for entry in self.entries() {
            if entry.version <= last {
                return None;
            }
            last = entry.version;
            seen += 1;
            used += padded(ENTRY_BYTES + entry.bytes.len());
            is_open = entry.continues;
        }
        let is_sound = seen == count && used == self.entries.len() && seen > 0 && last == self.last_version;
        is_sound.then_some(is_open)
    }
    /// The versions of other sessions that this group rests on.
    pub fn dependencies(&self) -> impl Iterator<Item = (u16, u64)> + use<'a> {
        self.dependencies.chunks_exact(DEPENDENCY_BYTES).map(|d| (read_u16(d, 0), read_u64(d, 2)))
    }
    /// The entries in order; stops at one that runs over the end.
    pub fn entries(&self) -> impl Iterator<Item = RawEntry<'a>> + use<'a> {
        let (mut rest, mut at) = (self.entries, self.entries_at);
        std::iter::from_fn(move || {
            if rest.len() < ENTRY_BYTES {
                return None;
            }
            let length = read_u32(rest, 8);
            let end = ENTRY_BYTES + (length & !CONTINUES) as usize;
            let bytes = rest.get(ENTRY_BYTES..end)?;
            let entry =
                RawEntry { version: read_u64(rest, 0), bytes, at, continues: length & CONTINUES != 0 };
            rest = rest.get(padded(end)..)?;
            at += padded(end);
            Some(entry)
        })
    }
}

/// One entry where it stands.
pub(crate) struct RawEntry<'a> {
    pub version: u64,
    pub bytes: &'a [u8],
    /// Offset in the block.
    pub at: usize,
    pub continues: bool,
}

/// Appends an entry of so many bytes, which are zeros before `write` writes them; returns where its length stands in `out`.
#[inline]
pub(crate) fn encode_entry(
    out: &mut Vec<u8>,
    version: u64,
    bytes: usize,
    write: impl FnOnce(&mut [u8]),
) -> usize {
    assert!(bytes < CONTINUES as usize, "an entry of {bytes} bytes");
    let start = out.len();
    out.resize(start + padded(ENTRY_BYTES + bytes), 0);
    let (head, rest) = out[start..].split_at_mut(ENTRY_BYTES);
    head[..8].copy_from_slice(&version.to_le_bytes());
    head[8..].copy_from_slice(&(bytes as u32).to_le_bytes());
    write(&mut rest[..bytes]);
    start + 8
}

/// Length of the first entry, and its version.
pub(crate) fn first_entry(entries: &[u8]) -> (usize, u64) {
    let length = read_u32(entries, 8) & !CONTINUES;
    (padded(ENTRY_BYTES + length as usize), read_u64(entries, 0))
}

/// Length of the run of entries at the start of `entries` that may not be split, and how many they are and the last version.
pub(crate) fn first_step(entries: &[u8]) -> (usize, u32, u64) {
    let (mut at, mut count) = (0, 0);
    loop {
        let length = read_u32(entries, at + 8);
        let version = read_u64(entries, at);
        at += padded(ENTRY_BYTES + (length & !CONTINUES) as usize);
        count += 1;
        if length & CONTINUES == 0 || at == entries.len() {
            return (at, count, version);
        }
    }
}
