//! Makes every checksum right again, whatever stands under it: a decoder must not trust what it can only have written
//! itself.

use std::ops::Range;

use terrace_engine::manifest::MANIFEST_BYTES;

use super::layout::{Layout, footer, groups, put, record_at, slots, u32_at, u64_at};

const USED: u32 = u32::from_le_bytes(*b"USED");
const FREED: u32 = u32::from_le_bytes(*b"FREE");

/// All of a store that was `image` before it was edited.
pub(super) fn seal(layout: &Layout, image: &[Vec<u8>], media: &mut [Vec<u8>]) {
    log(layout, &image[0], layout.log(media));
    for (number, bytes) in layout.slabs(media).chunks_mut(layout.sizes.block_bytes).enumerate() {
        slab(number as u32, bytes);
    }
    tier(layout, layout.tier(media));
}

/// A log's area, at the start of its medium.
fn log(layout: &Layout, image: &[u8], log: &mut [u8]) {
    let half = layout.log_super / 2;
    for copy in [0, half] {
        if u64_at(log, copy) != 0 {
            let crc = crc32c::crc32c(&log[copy..copy + 56]);
            put(log, copy + 56, &u64::from(crc).to_le_bytes());
        }
    }
    for number in 0..layout.log_blocks(log.len()) {
        let place = layout.log_block(number);
        let stale = stale(layout, place.start as u64, &image[place.clone()]);
        log_block(layout, number as u32, place.start as u64, &mut log[place], &stale);
    }
}

/// Where groups of an earlier use of a block begin: they must stay dead.
fn stale(layout: &Layout, offset: u64, block: &[u8]) -> Vec<usize> {
    let dead =
        |group: &Range<usize>| group_crc(layout, offset, block, group) != u32_at(block, group.start + 4);
    groups(block).into_iter().filter(dead).map(|group| group.start).collect()
}

fn group_crc(layout: &Layout, offset: u64, block: &[u8], group: &Range<usize>) -> u32 {
    let place = [layout.sizes.store_id, u64_at(block, 16), offset + group.start as u64]
        .map(u64::to_le_bytes)
        .concat();
    crc32c::crc32c_append(crc32c::crc32c(&place), &block[group.start + 8..group.end])
}

fn log_block(layout: &Layout, number: u32, offset: u64, block: &mut [u8], stale: &[usize]) {
    let (tag, store) = (u32_at(block, 60), layout.sizes.store_id);
    if tag == USED || tag == FREED {
        let mut crc = crc32c::crc32c(&store.to_le_bytes());
        crc = crc32c::crc32c_append(crc, &number.to_le_bytes());
        crc = crc32c::crc32c_append(crc, &tag.to_le_bytes());
        crc = crc32c::crc32c_append(crc, &block[..56]);
        put(block, 56, &crc.to_le_bytes());
    }
    for group in groups(block).into_iter().filter(|group| !stale.contains(&group.start)) {
        let crc = group_crc(layout, offset, block, &group);
        put(block, group.start + 4, &crc.to_le_bytes());
    }
}

/// A tier: manifests and blocks.
pub(super) fn tier(layout: &Layout, tier: &mut [u8]) {
    for copy in layout.manifests() {
        manifest(&mut tier[copy..copy + MANIFEST_BYTES]);
    }
    for slot in 0..layout.blocks(tier.len()) {
        let place = layout.block(slot);
        block(slot as u32, &mut tier[place]);
    }
}

/// One copy of the manifest.
pub(super) fn manifest(bytes: &mut [u8]) {
    if bytes.starts_with(b"TRCMANI1") {
        let at = MANIFEST_BYTES - 8;
        let crc = crc32c::crc32c(&bytes[..at]);
        put(bytes, at, &crc.to_le_bytes());
    }
}

fn block(slot: u32, block: &mut [u8]) {
    sixty_four(&mut block[..64], *b"TRCBLOCK", 16);
    let (seq, kind) = (u64_at(block, 16), u64_at(block, 24) >> 32);
    if u64_at(block, 0) == 0 || kind == 2 {
        return;
    }
    if kind == 3 {
        return snapshot(block);
    }
    for entry in footer(block) {
        let offset = record_at(block, entry);
        // A record is known by its footer's version: that the two agree is no less a part of the format than a checksum.
        let version = u64_at(block, entry + 8).to_le_bytes();
        if offset >= 64 && offset + 24 <= block.len() - 64 {
            put(block, offset, &version);
        }
        record(seq, slot, offset, block);
    }
    let trailer = block.len() - 64;
    let (count, data_end) = (u32_at(block, trailer + 16) as usize, u32_at(block, trailer + 20) as usize);
    if let Some(entries) = trailer.checked_sub(count * 24).and_then(|start| block.get(start..trailer)) {
        let crc = crc32c::crc32c(entries);
        put(block, trailer + 40, &crc.to_le_bytes());
    }
    if let Some(data) = block.get(64..data_end) {
        let crc = crc32c::crc32c(data);
        put(block, trailer + 44, &crc.to_le_bytes());
    }
    sixty_four(&mut block[trailer..], *b"TRCTRAIL", 8);
}

/// A slab of the middle tier. A slot that is free stays so.
fn slab(number: u32, slab: &mut [u8]) {
    sixty_four(&mut slab[..64], *b"TRCPSLAB", 16);
    let seq = u64_at(slab, 16);
    let slots = if u64_at(slab, 0) == 0 { Vec::new() } else { slots(slab) };
    for at in slots {
        if u64_at(slab, at) == 0 {
            continue;
        }
        record(seq, number, at + 32, slab);
        let place = [seq.to_le_bytes(), (u64::from(number) | (at as u64) << 32).to_le_bytes()].concat();
        let crc = crc32c::crc32c_append(crc32c::crc32c(&place), &slab[at + 8..at + 24]);
        let crc = crc32c::crc32c_append(crc, &slab[at + 32..at + 48]);
        put(slab, at + 24, &crc.to_le_bytes());
        put(slab, at + 28, &1u32.to_le_bytes());
        let place = u64::from(number) << 32 | at as u64;
        let mixed = (seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place)
            .wrapping_add(u64_at(slab, at + 32))
            .wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let commit = u64::from_le_bytes(*b"TRCPSLOT") ^ mixed ^ mixed >> 29;
        put(slab, at, &commit.max(1).to_le_bytes());
    }
}

/// A part of a snapshot, or its head.
fn snapshot(block: &mut [u8]) {
    let tail = block.len() - 64;
    let bytes = u32_at(block, tail + 20) as usize;
    if let Some(part) = block[..tail].get(64..).and_then(|after| after.get(..bytes)) {
        let crc = crc32c::crc32c(part);
        put(block, tail + 24, &crc.to_le_bytes());
    }
    let crc = crc32c::crc32c(&block[tail..tail + 56]);
    put(block, tail + 56, &u64::from(crc).to_le_bytes());
}

/// A header or a trailer whose seq stands at `seq_at`.
fn sixty_four(bytes: &mut [u8], magic: [u8; 8], seq_at: usize) {
    if u64_at(bytes, 0) == 0 {
        return;
    }
    let seq = u64_at(bytes, seq_at);
    put(bytes, 0, &(u64::from_le_bytes(magic) ^ (seq ^ seq >> 32) << 32).to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..56]);
    put(bytes, 56, &u64::from(crc).to_le_bytes());
}

/// The record at an offset, if its words can be there at all.
fn record(seq: u64, slot: u32, offset: usize, block: &mut [u8]) {
    let meta = u64_at(block, offset + 8);
    let words = 3 + (meta >> 56 & 1) + (meta & 0x1_ffff).div_ceil(8) + (meta >> 17 & 0x7fff).div_ceil(8);
    let Some(bytes) = block.get(offset..offset + words as usize * 8) else { return };
    let place = u64::from(slot) << 32 | offset as u64;
    let seed =
        seq.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(place.wrapping_mul(0xc2b2_ae3d_27d4_eb4f));
    let crc = crc32c::crc32c_append((seed >> 32) as u32, &bytes[..16]);
    let crc = crc32c::crc32c_append(crc, &bytes[20..]);
    put(block, offset + 16, &crc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use terrace_testkit::sweep::MediaKind;

    use super::super::image::{Engine, images};
    use super::super::layout::{layout, slots, u64_at};
    use super::seal;
    use crate::subjects::WITH_BLOCKS;

    /// Were it not so, sealed inputs would end at a checksum, and what is behind it would never be fuzzed.
    #[test]
    fn a_valid_store_is_sealed_already() {
        let engines = (0..WITH_BLOCKS.len()).map(Engine);
        let kinds = [MediaKind::Byte, MediaKind::Block, MediaKind::Tiered];
        let all = engines.flat_map(|engine| kinds.map(|kind| (engine, kind)));
        for (engine, kind) in all.filter(|(engine, kind)| engine.subject().takes(*kind)) {
            for image in images(engine, kind) {
                let mut media = image.media.clone();
                seal(&layout(kind), &image.media, &mut media);
                for (number, (sealed, valid)) in media.iter().zip(&image.media).enumerate() {
                    let differs = (0..valid.len()).find(|at| sealed[*at] != valid[*at]);
                    assert_eq!(
                        differs,
                        None,
                        "{} on {kind} media, {}, medium {number}",
                        engine.name(),
                        image.name
                    );
                }
            }
        }
    }

    #[test]
    fn stores_on_both_kinds_of_media_have_filled_slots() {
        let layout = layout(MediaKind::Tiered);
        let filled = |slab: &[u8]| slots(slab).into_iter().filter(|&at| u64_at(slab, at) != 0).count();
        for engine in (0..WITH_BLOCKS.len()).map(Engine) {
            if !engine.subject().takes(MediaKind::Tiered) {
                continue;
            }
            for image in images(engine, MediaKind::Tiered).iter().filter(|image| image.name != "log alone") {
                let mut media = image.media.clone();
                let slabs = layout.slabs(&mut media).chunks(layout.sizes.block_bytes);
                assert!(slabs.map(filled).sum::<usize>() > 0, "{}", image.name);
            }
        }
    }
}
