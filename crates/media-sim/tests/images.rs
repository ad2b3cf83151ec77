//! Crash images are independent of each other and of the run, repeatable, and crash again.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeMap;

use terrace_media::{AlignedBuf, BlockDevice, ByteRegion, IO_ALIGN};
use terrace_media_sim::{Crash, CrashImage, CrashPoint, Explorer, Recorder, SimRegion, Trace};

/// Counts to `n` in two places, which a crash may leave one apart.
fn counting(n: u64) -> Trace {
    let recorder = Recorder::new();
    let region = recorder.region(vec![0; 65536]);
    let block = recorder.block(vec![0; 4 * IO_ALIGN]);
    let mut page = AlignedBuf::zeroed(IO_ALIGN);
    for i in 1..=n {
        region.write_nt(0, &i.to_le_bytes());
        region.write_nt(4096, &i.to_le_bytes());
        region.fence();
        page[..8].copy_from_slice(&i.to_le_bytes());
        block.write_at(0, &page).unwrap();
        if i % 3 == 0 {
            block.sync().unwrap();
        }
    }
    recorder.finish()
}

fn contents(image: &CrashImage) -> (Vec<u8>, Vec<u8>) {
    (image.region(0).to_bytes(), image.block(0).to_bytes())
}

/// Everything that an exploration shows, while `scribble` does what a recovery may do.
fn shown(trace: &Trace, mut scribble: impl FnMut(&CrashImage)) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut shown = Vec::new();
    let check = |_: &_, image: &CrashImage| {
        shown.push(contents(image));
        scribble(image);
        Ok::<(), String>(())
    };
    Explorer::new(7).store_sample(2).explore(trace, check).unwrap();
    shown
}

#[test]
fn what_a_check_writes_is_gone_in_the_next_image() {
    let trace = counting(10);
    let clean = shown(&trace, |_| ());
    let mut scribbled = AlignedBuf::zeroed(2 * IO_ALIGN);
    let mut kept: Vec<SimRegion> = Vec::new();
    let mut turn = 0u8;
    let dirty = shown(&trace, |image| {
        turn = turn.wrapping_add(1);
        scribbled.fill(turn);
        image.region(0).write(100, &[turn; 9000]);
        image.block(0).write_at(IO_ALIGN as u64, &scribbled).unwrap();
        if kept.len() < 5 {
            kept.push(image.region(0));
        }
    });
    assert!(clean.len() > 100, "{}", clean.len());
    assert_eq!(clean, dirty);
    for (i, region) in kept.iter().enumerate() {
        assert_eq!(region.load_u64(4096), u64::from_le_bytes([i as u8 + 1; 8]), "a kept clone is left alone");
    }
}

#[test]
fn the_same_seed_shows_the_same_images() {
    assert_eq!(shown(&counting(6), |_| ()), shown(&counting(6), |_| ()));
}

#[test]
fn points_that_are_skipped_change_nothing_in_the_others() {
    let trace = counting(30);
    let by_point = |explorer: Explorer| {
        let mut found = BTreeMap::new();
        let check = |point: &CrashPoint, image: &CrashImage| {
            let at = (point.position, point.kind, point.crash == Crash::Power);
            found.entry(at).or_insert_with(Vec::new).push(contents(image));
            Ok::<(), String>(())
        };
        explorer.images_per_point(16).explore(&trace, check).unwrap();
        found
    };
    let all = by_point(Explorer::new(12));
    let some = by_point(Explorer::new(12).point_sample(9));
    assert!(some.len() > 5 && some.len() < all.len() / 4, "{} of {}", some.len(), all.len());
    for (at, images) in some {
        // Which random images are drawn may differ; the durable content and all that may be added to it may not.
        let (mut expected, mut images) = (all[&at].clone(), images);
        expected.truncate(2);
        images.truncate(2);
        assert_eq!(images, expected, "{at:?}");
    }
}

#[test]
fn a_failing_image_is_reduced_to_the_loss_that_matters() {
    let recorder = Recorder::new();
    let region = recorder.region(vec![0; 1024]);
    (0..8).for_each(|line| region.store_u64(line * 64, 1));
    let trace = recorder.finish();
    let check = |point: &CrashPoint, image: &CrashImage| {
        let lost = point.position == trace.len() && image.region(0).load_u64(320) == 0;
        if lost { Err("lost") } else { Ok(()) }
    };
    let explorer = Explorer::new(13).store_sample(0).only(Crash::Power);
    let failure = explorer.explore(&trace, check).unwrap_err();
    assert_eq!(failure.lost.len(), 1, "{failure}");
    assert!(failure.lost[0].contains("0x140"), "{failure}");
    let raw = explorer.minimise(false).explore(&trace, check).unwrap_err();
    assert_eq!(raw.lost.len(), 8, "{raw}");
}

#[test]
fn a_failure_replays_from_its_choice() {
    let trace = counting(5);
    let check = |_: &_, image: &CrashImage| {
        let region = image.region(0);
        let (a, b) = (region.load_u64(0), region.load_u64(4096));
        if a == 4 && b == 3 { Err(format!("{a} and {b}")) } else { Ok(()) }
    };
    let explorer = Explorer::new(8).only(Crash::Power);
    let failure = explorer.explore(&trace, check).unwrap_err();
    assert_eq!(failure.message, "4 and 3");
    assert_eq!(explorer.replay(&trace, &failure.point, &failure.choice, check), Err("4 and 3".into()));
    let told = failure.to_string();
    assert!(told.contains("seed 8") && told.contains("images.rs"), "{told}");
}

#[test]
fn a_panic_in_the_check_is_a_failure() {
    let verdict = Explorer::new(9).explore(&counting(2), |_, image| {
        assert_ne!(image.region(0).load_u64(0), 2, "recovery fell over");
        Ok::<(), String>(())
    });
    assert!(verdict.unwrap_err().message.contains("recovery fell over"));
}

/// A recovery that finishes an interrupted move of the word at 0 to 64: `careful` persists the copy before it clears the
/// original.
fn recover(region: &SimRegion, careful: bool) {
    let word = region.load_u64(0);
    if word != 0 {
        region.write_nt(64, &word.to_le_bytes());
        if careful {
            region.fence();
        }
        region.write_nt(0, &0u64.to_le_bytes());
        region.fence();
    }
}

#[test]
fn a_crash_inside_the_recovery_is_explored_too() {
    let recorder = Recorder::new();
    let region = recorder.region(vec![0; 128]);
    region.write_nt(0, &42u64.to_le_bytes());
    region.fence();
    recorder.acknowledged(1);
    let trace = recorder.finish();
    let twice = |careful: bool| {
        Explorer::new(10).explore(&trace, |point, image| {
            let (recorder, copy) = image.recording(point.crash);
            recover(&copy.region(0), careful);
            let again = |_: &_, image: &CrashImage| {
                recover(&image.region(0), careful);
                let found = image.region(0).load_u64(64);
                if found == 42 || point.position < 3 { Ok(()) } else { Err("lost in recovery") }
            };
            Explorer::new(11).explore(&recorder.finish(), again).map(|_| ())
        })
    };
    twice(true).unwrap();
    let failure = twice(false).unwrap_err();
    assert!(failure.message.contains("lost in recovery"), "{failure}");
}

#[test]
fn media_work_on_after_the_recording_ends() {
    let recorder = Recorder::new();
    let region = recorder.region(vec![0; 64]);
    region.store_u64(0, 1);
    assert_eq!(recorder.finish().len(), 1);
    region.store_u64(8, 2);
    assert_eq!((region.load_u64(0), region.load_u64(8)), (1, 2));
    assert!(recorder.finish().is_empty());
}
