//! The fuzzer's bytes as edits of a store's media.
//!
//! ```text
//!   byte 0: which store, and whether its checksums are made right afterwards | edits, each: what, where, the new value
//! ```

use terrace_testkit::sweep::MediaKind;

use super::image::{Engine, Image, images};
use super::layout::{Layout, footer, groups, layout, put, record_at, slots, u64_at};
use super::seal::seal;
use crate::fuzz::source::Source;

/// Edits of one input; more would only make every store the same rubble.
const EDITS_MAX: usize = 12;
/// Edited words of a log block's header are stored xor this.
const MASK: u64 = 0xA5C3_96E1_5A3C_691E;

/// A mangled store.
pub(super) struct Mangled {
    pub layout: Layout,
    /// What it was.
    pub image: &'static Image,
    pub media: Vec<Vec<u8>>,
    /// Whether the checksums were made right: then a value may be any.
    pub sealed: bool,
}

/// The store that an input stands for.
pub(super) fn mangle(engine: Engine, kind: MediaKind, input: &[u8]) -> Mangled {
    let mut source = Source::new(input);
    let choice = usize::from(source.byte());
    let images = images(engine, kind);
    let (sealed, image) = (choice & 1 == 1, &images[(choice >> 1) % images.len()]);
    let layout = layout(kind);
    let mut media = image.media.clone();
    for _ in 0..EDITS_MAX {
        if source.is_empty() {
            break;
        }
        edit(&layout, &mut media, &mut source);
    }
    if sealed {
        seal(&layout, &image.media, &mut media);
    }
    Mangled { layout, image, media, sealed }
}

fn edit(layout: &Layout, media: &mut [Vec<u8>], source: &mut Source<'_>) {
    let kinds = if layout.kind == MediaKind::Tiered { 15 } else { 12 };
    match source.byte() % kinds {
        0 => {
            let (bytes, at) = anywhere(media, source);
            bytes[at] ^= 1 << source.below(8);
        }
        1 => {
            let (bytes, at) = anywhere(media, source);
            bytes[at] = source.byte();
        }
        2 => {
            let (bytes, at) = anywhere(media, source);
            put(bytes, at / 8 * 8, &source.edge().to_le_bytes());
        }
        // What was written elsewhere or not at all.
        3 => {
            let len =
                source.one_of(&[8, 64, 512, layout.sizes.log_block_bytes, layout.sizes.block_bytes, 4096]);
            let (bytes, from) = anywhere(media, source);
            let unit = len.min(bytes.len());
            let to = source.word() as usize % bytes.len() / 8 * 8;
            let from = from / 8 * 8;
            let unit = unit.min(bytes.len() - from).min(bytes.len() - to);
            bytes.copy_within(from..from + unit, to);
        }
        4 => {
            let len = source.one_of(&[8, 64, 512, 4096]);
            let (bytes, at) = anywhere(media, source);
            let end = (at / 8 * 8 + len).min(bytes.len());
            bytes[at / 8 * 8..end].fill(0);
        }
        5 => {
            let log = layout.log(media);
            let place = layout.log_block(source.below(layout.log_blocks(log.len())));
            let word = source.below(8);
            let value = nudged(u64_at(log, place.start + word * 8) ^ MASK, source) ^ MASK;
            put(&mut log[place], word * 8, &value.to_le_bytes());
        }
        6 => group(layout, layout.log(media), source),
        7 => {
            let tier = layout.tier(media);
            let place = layout.block(source.below(layout.blocks(tier.len())));
            let block = &mut tier[place];
            let at = source.one_of(&[0, block.len() - 64]) + source.below(8) * 8;
            field(block, at, source);
        }
        8 | 9 => {
            let tier = layout.tier(media);
            let place = layout.block(source.below(layout.blocks(tier.len())));
            let block = &mut tier[place];
            let entries = footer(block);
            let Some(entry) = entries.get(source.below(64)).copied() else { return };
            let word = source.below(12);
            let at = if word < 3 { entry + word * 8 } else { record_at(block, entry) + (word - 3) * 8 };
            field(block, at, source);
        }
        10 => {
            let copy = source.one_of(&layout.manifests());
            let at = copy + source.below(24) * 8;
            field(layout.tier(media), at, source);
        }
        11 => {
            let at = source.below(2) * layout.log_super / 2 + source.below(8) * 8;
            field(layout.log(media), at, source);
        }
        kind => {
            let slabs = layout.slabs(media);
            let start = source.below(slabs.len() / layout.sizes.block_bytes) * layout.sizes.block_bytes;
            let slab = &mut slabs[start..start + layout.sizes.block_bytes];
            let slot = slots(slab).get(source.below(32)).copied().filter(|_| kind > 12);
            // Its head and the first words of its record, or the slab's header.
            let at = slot.map_or(source.below(8) * 8, |slot| slot + source.below(10) * 8);
            field(slab, at, source);
        }
    }
}

/// A word or a half word of a group of the log.
fn group(layout: &Layout, log: &mut [u8], source: &mut Source<'_>) {
    let place = layout.log_block(source.below(layout.log_blocks(log.len())));
    let block = &mut log[place];
    let groups = groups(block);
    let Some(group) = groups.get(source.below(16)).cloned() else { return };
    let at = group.start + source.below(32) * 4;
    let (half, value) = (source.byte(), source.edge());
    let value = value.to_le_bytes();
    put(&mut block[..group.end], at, &value[..if half & 1 == 0 { 4 } else { 8 }]);
}

/// Another value for a word.
fn field(bytes: &mut [u8], at: usize, source: &mut Source<'_>) {
    let value = nudged(u64_at(bytes, at), source);
    put(bytes, at, &value.to_le_bytes());
}

/// A value near the old one, or of one half of it, or an edge.
fn nudged(old: u64, source: &mut Source<'_>) -> u64 {
    let how = source.byte();
    let edge = source.edge();
    match how % 5 {
        0 => old.wrapping_add(edge),
        1 => old.wrapping_sub(edge),
        2 => old & !0xffff_ffff | edge & 0xffff_ffff,
        3 => old & 0xffff_ffff | edge << 32,
        _ => edge,
    }
}

/// Any byte of any medium.
fn anywhere<'a>(media: &'a mut [Vec<u8>], source: &mut Source<'_>) -> (&'a mut Vec<u8>, usize) {
    let medium = source.below(media.len());
    let bytes = &mut media[medium];
    let at = source.word() as usize % bytes.len();
    (bytes, at)
}
