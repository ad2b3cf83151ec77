//! Reading one block: how far its groups are whole, and what they claim.

use terrace_media::read_agreed;

use crate::block_format::{BlockHeader, HEADER_BYTES, HeaderState, copy_bytes, decode_header};
use crate::device::LogDevice;
use crate::error::LogError;
use crate::group::{Place, claim, parse};
use crate::log::{LogOptions, block_offset};

/// A used block, verified.
#[derive(Debug)]
pub(crate) struct BlockScan {
    pub block: u32,
    pub header: BlockHeader,
    /// The header's line is bad, and this is what its copy says.
    pub restored: bool,
    /// Where the good groups end, in bytes from the start of the block.
    pub end: usize,
    /// The last version of the last good group, or the base version.
    pub last_version: u64,
    /// The highest durable position that the valid head of a group anywhere in the block claims; those behind the bad
    /// place are found by looking at every 8th byte.
    pub claim: u64,
    /// Where the step that the last good group leaves open has its first group in this block.
    pub open: Option<Cut>,
    /// The good groups that rest on other sessions.
    pub linked: Vec<Linked>,
    /// The dependencies of all of them.
    pub dependencies: Vec<(u16, u64)>,
}

/// How far a block was found to reach: the same each time that it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub block: u32,
    header: BlockHeader,
    end: usize,
    last_version: u64,
    claim: u64,
}

impl BlockScan {
    /// As it was scanned, whatever is cut from it later.
    pub fn extent(&self) -> Extent {
        let &Self { block, header, end, last_version, claim, .. } = self;
        Extent { block, header, end, last_version, claim }
    }
}

/// A place to cut at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Where a group starts in the block.
    pub at: usize,
    /// The slot's last version before it.
    pub before: u64,
}

/// A group with dependencies.
#[derive(Debug)]
pub(crate) struct Linked {
    /// Where it starts, or the first group in this block of the step that it continues.
    pub start: Cut,
    /// Its part of the block's `dependencies`.
    pub from: usize,
    pub to: usize,
}

/// Reads a block's header, and everything else if the block is used. `buffer` has the size of a block.
pub(crate) fn scan(
    device: &impl LogDevice,
    options: &LogOptions,
    block: u32,
    buffer: &mut [u8],
) -> Result<(HeaderState, Option<BlockScan>), LogError> {
    let block_offset = block_offset(device, options, block);
    let mut bytes = [0; HEADER_BYTES];
    device.read(block_offset, &mut bytes)?;
    let mut state = decode_header(&bytes, options.store_id, block);
    if !matches!(state, HeaderState::Used(_)) {
        // A header from elsewhere, or from before the block was begun, looks free.
        read_agreed(&mut bytes, |bytes| device.read(block_offset, bytes))?;
        state = decode_header(&bytes, options.store_id, block);
    }
    let mut restored = false;
    if !matches!(state, HeaderState::Used(_))
        && let Some(header) = read_copy(device, options, block)?
    {
        (state, restored) = (HeaderState::Used(header), true);
    }
    if !matches!(state, HeaderState::Used(_)) {
        return Ok((state, None));
    }
    device.read(block_offset, buffer)?;
    if !restored && buffer[..HEADER_BYTES] != bytes {
        // An older header may be as whole as this one.
        read_agreed(buffer, |buffer| device.read(block_offset, buffer))?;
        bytes.copy_from_slice(&buffer[..HEADER_BYTES]);
        state = decode_header(&bytes, options.store_id, block);
    }
    let HeaderState::Used(header) = state else { return Ok((state, None)) };
    let place = Place { store_id: options.store_id, generation: header.generation, block_offset };
    let scan = walk(block, (header, restored), place, buffer);
    Ok((state, Some(scan)))
}

/// The copy of a block's header, if there is a whole one.
fn read_copy(
    device: &impl LogDevice,
    options: &LogOptions,
    block: u32,
) -> Result<Option<BlockHeader>, LogError> {
    let immediate = device.immediate();
    if !immediate {
        return Ok(None);
    }
    let end = block_offset(device, options, block) + options.block_bytes as u64;
    let mut bytes = [0; HEADER_BYTES];
    device.read(end - copy_bytes(immediate) as u64, &mut bytes)?;
    Ok(match decode_header(&bytes, options.store_id, block) {
        HeaderState::Used(header) => Some(header),
        _ => None,
    })
}

fn walk(block: u32, (header, restored): (BlockHeader, bool), place: Place, bytes: &[u8]) -> BlockScan {
    let mut scan = BlockScan {
        block,
        header,
        restored,
        end: HEADER_BYTES,
        last_version: header.base_version,
        claim: 0,
        open: None,
        linked: Vec::new(),
        dependencies: Vec::new(),
    };
    while let Some(group) = parse(bytes, scan.end, place, scan.last_version) {
        let from = scan.dependencies.len();
        scan.dependencies.extend(group.dependencies());
        let to = scan.dependencies.len();
        let start = scan.open.unwrap_or(Cut { at: scan.end, before: scan.last_version });
        if to > from {
            scan.linked.push(Linked { start, from, to });
        }
        scan.open = group.is_open.then_some(start);
        scan.claim = scan.claim.max(group.durable);
        scan.last_version = group.last_version;
        scan.end += group.bytes;
    }
    for at in (scan.end + 8..bytes.len()).step_by(8) {
        scan.claim = scan.claim.max(claim(bytes, at, place).unwrap_or(0));
    }
    scan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{CONTINUES, GroupHead, encode, encode_entry};

    /// A group of one entry behind what stands in the block.
    fn put(block: &mut Vec<u8>, place: Place, version: u64, is_open: bool) {
        let mut entries = Vec::new();
        let length_at = encode_entry(&mut entries, version, 20, |_| {});
        if is_open {
            entries[length_at + 3] |= (CONTINUES >> 24) as u8;
        }
        let head = GroupHead { entries: 1, last_version: version, durable: 0, dependencies: &[(2, 7)] };
        let at = block.len();
        encode(block, place, at, &head, &entries);
    }

    #[test]
    fn a_step_of_several_groups_in_a_block_begins_at_the_first_of_them() {
        let place = Place { store_id: 1, generation: 2, block_offset: 3 };
        let header =
            BlockHeader { slot: 1, chain: 0, generation: 2, base_version: 4, first: true, synced: 0 };
        let mut block = vec![0; HEADER_BYTES];
        put(&mut block, place, 5, false);
        let start = block.len();
        (6..9).for_each(|version| put(&mut block, place, version, true));
        let scan = |block: &mut Vec<u8>| {
            let mut padded = block.clone();
            padded.resize(1024, 0);
            walk(0, (header, false), place, &padded)
        };
        let open = scan(&mut block);
        assert_eq!(open.last_version, 8);
        assert_eq!(open.open.map(|cut| (cut.at, cut.before)), Some((start, 5)));
        assert!(open.linked[1..].iter().all(|group| group.start.at == start));
        put(&mut block, place, 9, false);
        assert!(scan(&mut block).open.is_none());
    }
}
