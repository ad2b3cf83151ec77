//! A page above what the stored manifest trusts may be a torn write for all that an opening can tell: if it is not whole it is
//! dropped. So whatever lies in it must lie elsewhere, too, in the log or in a page that is trusted, until a manifest trusts it.
//!
//! ```text
//!   history --> crash anywhere --> each page above what is trusted rots --> opened: every answer that was given still holds
//! ```

use terrace_engine::Durability;
use terrace_engine::manifest::Manifest;
use terrace_media_sim::{Crash, Explorer, Position, Recorder};
use terrace_testkit::sweep::{Media, MediaKind};

use super::{
    Bench, HETERMM_BLOCK, HETERMM_BYTE, TAC_BLOCK, TAC_BYTE, TAC_TIERED, Told, copy, data, rot, set,
};

const WRITES: usize = 700;

/// A write that was answered: from this position on it counts.
struct Answered {
    position: Position,
    key: usize,
    write: usize,
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

/// Begins with the number of its write.
fn value(write: usize, len: usize) -> Vec<u8> {
    format!("{write}.").bytes().cycle().take(len).collect()
}

fn write_of(value: &[u8]) -> usize {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

/// What the newest manifest trusts.
fn trusted(bench: Bench, media: &Media) -> u64 {
    let bytes = data(media);
    let copies = bench.manifests().into_iter().filter_map(|at| Manifest::decode(&bytes[at..]));
    copies.max_by_key(|manifest| manifest.sequence).map_or(u64::MAX, |manifest| manifest.persisted_seq)
}

/// With so many background steps behind each write. `asked`: what the engine must have done on the way, by the name that it has
/// among its details; it goes by those steps whether it does.
fn nothing_is_missed(bench: Bench, steps: usize, asked: Option<&str>) {
    // More of them than DRAM holds.
    let many = match bench.media {
        MediaKind::Byte => 61,
        MediaKind::Block => 90,
        MediaKind::Tiered => 120,
    };
    let recorder = Recorder::new();
    let media = bench.recorded(bench.fresh(), &recorder);
    let store = bench.open(&media, Durability::Sync, true).unwrap();
    let len = bench.block_bytes() / 12;
    let mut answered = Vec::new();
    for write in 0..WRITES {
        // Some keys are written often, others stay, and with them the pages that they share are emptied.
        let key_of = if write % 2 == 0 { write / 2 * 13 % many } else { write % 9 };
        set(&*store, &key(key_of), &value(write, len + write % 5 * 8));
        answered.push(Answered { position: recorder.acknowledged(write as u64), key: key_of, write });
        for _ in 0..steps {
            store.step();
        }
    }
    let details = store.stats().engine_details;
    if let Some(asked) = asked {
        assert!(details.iter().any(|(name, count)| *name == asked && *count > 0), "never: {asked}");
    }
    std::mem::forget(store);
    let keys: Vec<Vec<u8>> = (0..many).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let (mut rotten, mut images) = (0, 0);
    Explorer::new(3)
        .only(Crash::Power)
        .images_per_point(1)
        .point_sample(2)
        .store_sample(0)
        .minimise(false)
        .explore(&recorder.finish(), |point, image| {
            let left = copy(&bench.of(image));
            let trusted = trusted(bench, &left);
            images += 1;
            for (_, at) in bench.headers(&left).into_iter().filter(|(seq, _)| *seq > trusted) {
                rotten += 1;
                let left = copy(&left);
                rot(&left, at + bench.block_bytes() - 40);
                let mut floor = vec![None; many];
                let counts = answered.iter().take_while(|answered| answered.position <= point.position);
                counts.for_each(|answered| floor[answered.key] = Some(answered.write));
                let told = bench.read(&left, Durability::Sync, &keys);
                for (key, (told, floor)) in told.into_iter().zip(floor).enumerate() {
                    match (told, floor) {
                        (Told::Damage, _) | (Told::Absent, None) => {}
                        (Told::Value(value), floor)
                            if floor.is_none_or(|floor| write_of(&value) >= floor) => {}
                        (told, floor) => {
                            return Err(format!(
                                "{point:?}, the page at {at}: key{key} was write {floor:?}, now {told:?}"
                            ));
                        }
                    }
                }
            }
            Ok::<(), String>(())
        })
        .unwrap_or_else(|failure| panic!("{}", failure.message));
    println!("{rotten} rotten pages in {images} images");
    assert!(rotten > 50, "{rotten} rotten pages");
}

#[test]
fn hetermm_on_byte_addressable_media() {
    nothing_is_missed(HETERMM_BYTE, 1, None);
}

#[test]
fn hetermm_on_block_media() {
    nothing_is_missed(HETERMM_BLOCK, 1, None);
}

#[test]
fn tac_on_byte_addressable_media() {
    nothing_is_missed(TAC_BYTE, 3, Some("records_moved"));
}

#[test]
fn tac_on_block_media() {
    nothing_is_missed(TAC_BLOCK, 1, None);
}

#[test]
fn tac_on_both_media() {
    nothing_is_missed(TAC_TIERED, 2, Some("records_from_pmem_to_ssd"));
}
