//! Rot in the only copy of a record is told, also where an opening that a crash cut off gave up the older copy.
//!
//! ```text
//!   slot 0   key = old, below what the manifest trusts       slot 1   key = new, whole, above it: a crash came first
//!   opening  adopts slot 1 and clears slot 0; it is cut off, and slot 1 rots
//! ```
//!
//! Were slot 0 cleared before a stored manifest trusts slot 1, the next opening would take the rot for a torn flush, drop it,
//! and miss the key in silence.

use terrace_engine::Durability;
use terrace_media_sim::{Explorer, Recorder};
use terrace_testkit::sweep::Media;

use super::{Bench, HETERMM_BLOCK, HETERMM_BYTE, TAC_BLOCK, TAC_BYTE, Told, copy, rot, set, to_bytes};

const KEY: &[u8] = b"key";
const OLD: &[u8] = b"the old value";
const NEW: &[u8] = b"the new value";

/// Opened without a log, so that blocks are all that there is.
fn read_without_log(bench: Bench, media: &Media) -> Told {
    bench.read(media, Durability::None, &[KEY]).remove(0)
}

/// A store that was closed with the old value, and the places where a later run may have ended with both in blocks, the new
/// one above what the manifest trusts.
fn both(bench: Bench) -> Vec<Media> {
    let recorder = Recorder::new();
    let media = bench.recorded(bench.fresh(), &recorder);
    let store = bench.open(&media, Durability::None, true).unwrap();
    set(&*store, KEY, OLD);
    store.close().unwrap();
    drop(store);
    let closed = to_bytes(&media);
    let trusted = bench.headers(&media)[0].0;

    let recorder = Recorder::new();
    let media = bench.recorded(closed, &recorder);
    let store = bench.open(&media, Durability::None, false).unwrap();
    set(&*store, KEY, NEW);
    store.close().unwrap();
    drop(store);
    let mut found = Vec::new();
    Explorer::new(1)
        .explore(&recorder.finish(), |_, image| {
            let left = copy(&bench.of(image));
            let newer = bench.headers(&left).into_iter().find(|(seq, _)| *seq > trusted);
            let Some((_, at)) = newer.filter(|_| bench.headers(&left).len() == 2) else {
                return Ok::<(), String>(());
            };
            // Above what is trusted, the old value comes back if the new one's block is not whole.
            let rotten = copy(&left);
            rot(&rotten, at + bench.block_bytes() - 60);
            let trusts = read_without_log(bench, &rotten) != Told::Value(OLD.to_vec());
            if !trusts && read_without_log(bench, &copy(&left)) == Told::Value(NEW.to_vec()) {
                found.push(left);
            }
            Ok(())
        })
        .unwrap();
    found
}

fn rot_is_told(bench: Bench) {
    let all = both(bench);
    assert!(!all.is_empty(), "no run ended with a whole block above what is trusted");
    let (mut cleared, mut told) = (0, 0);
    // They differ in what is not looked at here; a few do.
    for left in all.into_iter().take(2) {
        let recorder = Recorder::new();
        let media = bench.recorded(to_bytes(&left), &recorder);
        drop(bench.open(&media, Durability::None, false).unwrap());
        Explorer::new(2)
            .store_sample(1)
            .minimise(false)
            .explore(&recorder.finish(), |point, image| {
                let left = copy(&bench.of(image));
                let headers = bench.headers(&left);
                let Some(&(_, newest)) = headers.iter().max() else { return Err("no block".into()) };
                let whole = read_without_log(bench, &copy(&left));
                if whole != Told::Value(NEW.to_vec()) {
                    return Err(format!("{point:?}: without rot {whole:?}"));
                }
                cleared += u32::from(headers.len() == 1);
                // The header, the record's value, its place in the footer, and the trailer.
                let end = newest + bench.block_bytes();
                for at in [newest + 16, newest + 64 + 40, end - 64 - 24 + 20, end - 40] {
                    let rotten = copy(&left);
                    rot(&rotten, at);
                    match read_without_log(bench, &rotten) {
                        Told::Damage => told += 1,
                        Told::Value(value) if value == NEW => {}
                        // Nobody was answered since the new value was flushed: the old block is there, and counts.
                        Told::Value(value) if value == OLD && headers.len() == 2 => {}
                        other => return Err(format!("{point:?}, byte {at}: {other:?}")),
                    }
                }
                Ok::<(), String>(())
            })
            .unwrap();
    }
    assert!(cleared > 0 && told > 0, "{cleared} images without the old block, rot told {told} times");
}

#[test]
fn hetermm_on_byte_addressable_media() {
    rot_is_told(HETERMM_BYTE);
}

#[test]
fn hetermm_on_block_media() {
    rot_is_told(HETERMM_BLOCK);
}

#[test]
fn tac_on_byte_addressable_media() {
    rot_is_told(TAC_BYTE);
}

#[test]
fn tac_on_block_media() {
    rot_is_told(TAC_BLOCK);
}
