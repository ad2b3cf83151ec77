//! Large values: each live one's pieces lie where its description says, hold what its checksum says, and are its own.

use terrace_blocks::Lower;
use terrace_blocks::inspect::{Extent, Piece};

use super::blocks::Blocks;
use super::keys::{Newest, Place};
use super::{Keys, Parts, Report};

pub(super) fn verify<L: Lower, F>(
    parts: &Parts<L, F>,
    blocks: &Blocks,
    keys: &Keys,
    report: &mut Report,
    progress: &dyn Fn(u64),
) {
    let mut places: Vec<(Piece, u64)> = Vec::new();
    let mut bytes = Vec::new();
    for (hash, newest) in keys.living() {
        let Some(description) = &newest.description else { continue };
        bytes.clear();
        let outcome = verify_one(parts, blocks, description, &mut bytes);
        progress(bytes.len() as u64);
        match outcome {
            Ok(extent) => {
                for piece in &extent.pieces {
                    if blocks.extents.get(piece.slot as usize).copied().flatten().is_none() {
                        report.problems.push(format!(
                            "block {}: its header is gone; the large value of hash {hash:016x} in it is whole, and opening finds it",
                            piece.slot
                        ));
                    }
                }
                report.counts.extent_bytes += extent.bytes;
                places.extend(extent.pieces.iter().map(|piece| (*piece, hash)));
            }
            Err(what) => {
                report.large_fail += 1;
                report.problems.push(format!(
                    "large value, hash {hash:016x}, database {}, version {} ({}): {what}; its key answers an error until SET or DEL",
                    newest.db,
                    newest.version,
                    place(newest)
                ));
            }
        }
    }
    places.sort_unstable_by_key(|(piece, _)| (piece.slot, piece.offset));
    for pair in places.windows(2) {
        if let [(a, one), (b, other)] = pair
            && a.slot == b.slot
            && u64::from(a.offset) + u64::from(a.bytes) > u64::from(b.offset)
        {
            report.problems.push(format!(
                "block {}, offset {}: two large values overlap, hashes {one:016x} and {other:016x}",
                b.slot, b.offset
            ));
        }
    }
}

fn place(newest: &Newest) -> String {
    match newest.place {
        Place::Block(slot, offset, _) => format!("block {slot}, offset {offset}"),
        Place::Middle => "middle tier".into(),
        Place::Log => "log".into(),
    }
}

fn verify_one<L: Lower, F>(
    parts: &Parts<L, F>,
    blocks: &Blocks,
    description: &[u8],
    bytes: &mut Vec<u8>,
) -> Result<Extent, String> {
    let mut extent = Extent::decode(description).ok_or("its description makes no sense")?;
    let described: u64 = extent.pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
    if described != extent.bytes {
        return Err(format!("its pieces have {described} bytes, and it has {}", extent.bytes));
    }
    for piece in &mut extent.pieces {
        let held = blocks.extents.get(piece.slot as usize).copied().flatten();
        if let Some(there) = blocks.gathered.get(&(piece.seq, piece.offset)) {
            (piece.slot, piece.offset) = (there.slot, there.at);
        // Without a header, the checksum decides: opening takes the description's word for it.
        } else if held.is_some_and(|held| held != piece.seq) {
            return Err(format!(
                "a piece should be in block {} of sequence number {}, which is not there",
                piece.slot, piece.seq
            ));
        }
        parts.inspector.read_piece(piece, bytes).map_err(|error| {
            format!("the piece in block {}, offset {}: {error}", piece.slot, piece.offset)
        })?;
    }
    let checksum = crc32c::crc32c(bytes);
    if checksum != extent.checksum {
        return Err(format!(
            "its bytes have checksum {checksum:#010x}, and {:#010x} is recorded",
            extent.checksum
        ));
    }
    Ok(extent)
}
