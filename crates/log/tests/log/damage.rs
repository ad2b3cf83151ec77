//! Torn tails and changed bytes: a cut or an error, never a wrong entry.

use crate::common::{Found, found, on_region, open, options, payload, region};
use terrace_log::{Log, LogError};
use terrace_media_sim::SimRegion;

/// Two blocks of slot 1 and one of slot 2; each group claims that everything before it is durable.
pub fn small_log() -> (Vec<u8>, Vec<Found>) {
    let region = region(4);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let mut writers = [log.writer(1, 0), log.writer(2, 0)];
    let mut expected = Vec::new();
    for version in 1..=6u64 {
        for (i, writer) in writers.iter_mut().enumerate() {
            let slot = i as u16 + 1;
            let bytes = payload(slot, version, 40 + 150 * (1 - i));
            writer.entry(version, 0, &[&bytes]);
            writer.write(version - 1, &[]).expect("room");
            expected.push((slot, version, bytes));
        }
    }
    expected.sort();
    (region.to_bytes(), expected)
}

#[test]
fn a_flipped_byte_is_never_served() {
    let (image, expected) = small_log();
    let (mut errors, mut cuts, mut right) = (0, 0, 0);
    for at in 0..image.len() {
        let mut bad = image.clone();
        bad[at] ^= 0x5A;
        match open(on_region(&SimRegion::from_image(bad)), 1024, 0) {
            Err(LogError::Corrupt { .. } | LogError::Mismatch(_)) => errors += 1,
            Err(other) => panic!("byte {at}: {other}"),
            Ok((_, replay)) => {
                let got = found(&replay);
                for slot in [1, 2] {
                    let all: Vec<_> = expected.iter().filter(|entry| entry.0 == slot).collect();
                    let some: Vec<_> = got.iter().filter(|entry| entry.0 == slot).collect();
                    assert_eq!(some, all[..some.len()], "byte {at}");
                    // Everything but the last group was claimed to be durable by the next.
                    assert!(some.len() >= all.len() - 1, "byte {at}: a durable group was cut silently");
                }
                if got == expected { right += 1 } else { cuts += 1 }
            }
        }
    }
    assert!(errors > 1000 && cuts > 100 && right > 500, "{errors} errors, {cuts} cuts, {right} right");
}

#[test]
fn a_header_is_restored_from_its_copy_and_a_copy_is_not_needed() {
    let (image, expected) = small_log();
    let magic = &image[128..136];
    let headers: Vec<usize> =
        (128..image.len()).step_by(64).filter(|&at| &image[at..at + 8] == magic).collect();
    assert_eq!(headers.len(), 6, "three blocks, each with a copy");
    for at in headers {
        for bad in [[0; 64], [0xA5; 64]] {
            let mut rotten = image.clone();
            rotten[at..at + 64].copy_from_slice(&bad);
            let region = SimRegion::from_image(rotten);
            let (_, replay) = open(on_region(&region), 1024, 0).expect("one of the two is left");
            let mut got = found(&replay);
            got.sort();
            assert_eq!(got, expected, "line at {at}");
            if (at - 128).is_multiple_of(1024) {
                assert_eq!(region.to_bytes()[at..at + 64], image[at..at + 64], "written again");
            }
        }
    }
}

#[test]
fn a_freed_block_keeps_no_copy_of_its_header() {
    let region = region(4);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let mut writer = log.writer(1, 0);
    for version in 1..=3u64 {
        writer.entry(version, 1, &[&payload(1, version, 600)]);
        writer.write(version - 1, &[]).expect("room");
    }
    assert_eq!(log.reclaim(1, 0).expect("erased"), 2);
    let bytes = region.to_bytes();
    let magic = &bytes[128 + 2 * 1024..][..8];
    let left = bytes[128..].chunks(64).filter(|line| &line[..8] == magic).count();
    assert_eq!(left, 2, "the last block's header and copy");
}

#[test]
fn a_damaged_group_is_told_from_a_torn_one_by_the_head_of_a_later_one_alone() {
    let region = region(4);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let mut writer = log.writer(1, 0);
    for version in 1..=3u64 {
        writer.entry(version, 0, &[&payload(1, version, 180)]);
        writer.write(version - 1, &[]).expect("room");
    }
    // Groups of 232 bytes: entries of each one are bad, and the last one's head is whole.
    for last in [1, 2] {
        let mut bytes = region.to_bytes();
        for group in 0..=last {
            bytes[128 + 64 + group * 232 + 100] ^= 1;
        }
        let error = open(on_region(&SimRegion::from_image(bytes)), 1024, 0).err();
        assert!(matches!(error, Some(LogError::Corrupt { .. })), "{last}: {error:?}");
    }
}

#[test]
fn a_tail_torn_at_any_word_is_cut_there() {
    let region = region(4);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let mut writer = log.writer(1, 0);
    writer.entry(1, 0, &[b"whole"]);
    writer.write(0, &[]).expect("room");
    let before = region.to_bytes();
    writer.entry(2, 0, &[&payload(1, 2, 77)]);
    writer.write(1, &[]).expect("room");
    let after = region.to_bytes();
    let differs: Vec<usize> =
        (0..after.len()).step_by(8).filter(|&at| before[at..at + 8] != after[at..at + 8]).collect();
    assert!(differs.len() > 14);
    for kept in 0..differs.len() {
        for backwards in [false, true] {
            let mut torn = before.clone();
            let kept: Vec<_> = if backwards {
                differs.iter().rev().take(kept).collect()
            } else {
                differs.iter().take(kept).collect()
            };
            for &at in kept {
                torn[at..at + 8].copy_from_slice(&after[at..at + 8]);
            }
            let torn = SimRegion::from_image(torn);
            let (log, replay) = open(on_region(&torn), 1024, 0).expect("a tear is no damage");
            assert_eq!(replay.positions()[&1], 1);
            // The session goes on in a new block, with a position that jumps; the torn tail stays where it is.
            let mut writer = log.writer(1, 50);
            writer.entry(51, 0, &[b"next"]);
            writer.write(50, &[]).expect("room");
            writer.entry(52, 0, &[b"last"]);
            writer.write(51, &[]).expect("room");
            let (_, replay) = open(on_region(&torn), 1024, 0).expect("still no damage");
            let versions: Vec<_> = found(&replay).iter().map(|entry| entry.1).collect();
            assert_eq!(versions, [1, 51, 52]);
        }
    }
}
