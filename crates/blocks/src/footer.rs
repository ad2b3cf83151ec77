//! A block's footer, read and judged.

use crate::layout::{BLOCK_HEADER_BYTES, BlockTrailer, FooterEntry, Stored, TRAILER_BYTES, entries};
use crate::lower::Lower;

/// The trailer and the footer of a whole block; `None` if either is bad.
///
/// # Panics
/// If `block` is not `block_bytes` long.
pub fn footer(block: &[u8], block_bytes: usize) -> Option<(BlockTrailer, Vec<FooterEntry>)> {
    let trailer_at = block_bytes - TRAILER_BYTES;
    let Stored::Valid(trailer) = BlockTrailer::decode(&block[trailer_at..], block_bytes) else { return None };
    let footer = &block[trailer_at - trailer.footer_bytes()..trailer_at];
    sound(trailer, footer).map(|list| (trailer, list))
}

/// A footer's entries, if its checksum holds and each names a place behind the one before it, among the records.
fn sound(trailer: BlockTrailer, footer: &[u8]) -> Option<Vec<FooterEntry>> {
    if crc32c::crc32c(footer) != trailer.footer_crc {
        return None;
    }
    let list: Vec<_> = entries(&trailer, footer).collect();
    let mut next = BLOCK_HEADER_BYTES as u32;
    for entry in &list {
        if entry.offset < next || entry.offset >= trailer.data_end {
            return None;
        }
        next = entry.offset + 8;
    }
    Some(list)
}

/// The same, read from where a block starts on the tier. One read is enough where it has as many bytes as expected.
///
/// # Errors
/// The device's.
pub fn read_footer<L: Lower>(
    lower: &L,
    block_offset: u64,
    block_bytes: usize,
    expected: usize,
) -> std::io::Result<Option<(BlockTrailer, Vec<FooterEntry>)>> {
    let most = block_bytes - BLOCK_HEADER_BYTES - TRAILER_BYTES;
    let mut bytes = vec![0; expected.min(most) + TRAILER_BYTES];
    let end = block_offset + block_bytes as u64;
    lower.read(end - bytes.len() as u64, &mut bytes)?;
    let footer_end = bytes.len() - TRAILER_BYTES;
    let Stored::Valid(trailer) = BlockTrailer::decode(&bytes[footer_end..], block_bytes) else {
        return Ok(None);
    };
    let length = trailer.footer_bytes();
    if length > footer_end {
        bytes.resize(length + TRAILER_BYTES, 0);
        lower.read(end - bytes.len() as u64, &mut bytes)?;
    }
    let footer_end = bytes.len() - TRAILER_BYTES;
    let footer = &bytes[footer_end - length..footer_end];
    Ok(sound(trailer, footer).map(|list| (trailer, list)))
}
