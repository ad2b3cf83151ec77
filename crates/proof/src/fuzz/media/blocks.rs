//! The tier of blocks through the format's inspector: every field of a block may be any.

use std::sync::Arc;

use terrace_blocks::inspect::{Extent, Inspector};
use terrace_blocks::{ByteTier, Stored};
use terrace_engine::hash::KeyHasher;
use terrace_media_sim::SimRegion;
use terrace_testkit::sweep::MediaKind;

use super::image::Engine;
use super::mangle::mangle;

/// On byte-addressable media.
pub(in crate::fuzz) fn blocks(engine: Engine, input: &[u8]) -> Result<(), String> {
    let mut mangled = mangle(engine, MediaKind::Byte, input);
    let tier = mangled.layout.tier(&mut mangled.media).to_vec();
    let (sizes, len) = (mangled.layout.sizes, tier.len() as u64);
    let tier = ByteTier::new(Arc::new(SimRegion::from_image(tier)), 0, len, String::new())
        .with_manifests_apart(sizes.manifests_apart);
    let inspector = Inspector::new(tier, sizes.block_bytes, sizes.store_id)
        .ok_or("the tiny store's blocks are of no size")?;
    let failed = |error: std::io::Error| format!("memory can't fail: {error}");
    inspector.manifests().map_err(failed)?;
    for slot in 0..inspector.blocks() {
        let block = inspector.read(slot).map_err(failed)?;
        let Some(seq) = block.seq() else { continue };
        for entry in block.footer().unwrap_or_default() {
            let Some(view) = block.record(seq, entry.offset) else { continue };
            let Some(extent) = Extent::decode(view.value) else { continue };
            for piece in &extent.pieces {
                let mut out = Vec::new();
                if inspector.read_piece(piece, &mut out).is_ok() && out.len() != piece.bytes as usize {
                    return Err(format!("{} bytes of {piece:?}", out.len()));
                }
            }
        }
        if let Stored::Valid(trailer) = block.trailer {
            block.data_holds(&trailer);
        }
        let Some(rebuilt) = block.rebuild(sizes.store_id, KeyHasher::new(7)) else { continue };
        inspector.write(&block, &rebuilt).map_err(failed)?;
        let again = inspector.read(slot).map_err(failed)?;
        let entries = again.footer().map(|entries| entries.len());
        if entries != Some(rebuilt.records as usize) || !matches!(again.header, Stored::Valid(_)) {
            return Err(format!(
                "block {slot}, rebuilt with {} records, reads as {entries:?}",
                rebuilt.records
            ));
        }
    }
    Ok(())
}
