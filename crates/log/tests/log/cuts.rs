//! The cut by dependencies: what it leaves out, what it must not, and that it is for ever.

use terrace_log::{Log, LogDevice, LogError};
use terrace_media_sim::{SimBlock, SimRegion};

use crate::common::{found, on_block, on_region, open, options, region};

/// A version, the durable position claimed, the dependencies.
type Put<'a> = (u64, u64, &'a [(u16, u64)]);

fn put(log: &Log<impl LogDevice>, slot: u16, groups: &[Put<'_>]) {
    let mut writer = log.writer(slot, 0);
    for (version, durable, dependencies) in groups {
        writer.entry(*version, 0, &[b"some bytes"]);
        writer.write(*durable, dependencies).expect("room");
    }
}

fn versions(region: &SimRegion, floor: u64) -> Result<Vec<(u16, u64)>, LogError> {
    let (_, replay) = open(on_region(region), 1024, floor)?;
    Ok(found(&replay).into_iter().map(|(slot, version, _)| (slot, version)).collect())
}

#[test]
fn two_groups_that_rest_on_each_other_both_survive() {
    let region = region(4);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    put(&log, 1, &[(10, 0, &[(2, 11)])]);
    put(&log, 2, &[(11, 0, &[(1, 10)])]);
    assert_eq!(versions(&region, 0).expect("opens"), [(1, 10), (2, 11)]);
}

#[test]
fn a_cut_spreads_until_nothing_changes() {
    let region = region(4);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    put(&log, 1, &[(1, 0, &[]), (10, 0, &[(2, 11)]), (13, 0, &[])]);
    put(&log, 2, &[(2, 0, &[]), (11, 0, &[(3, 12), (1, 10)])]);
    put(&log, 3, &[(3, 0, &[(1, 1)]), (12, 0, &[(4, 20)])]);
    assert_eq!(versions(&region, 0).expect("opens"), [(1, 1), (2, 2), (3, 3)]);
}

#[test]
fn the_floor_and_the_base_meet_dependencies() {
    let region = region(8);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let image = |log: &Log<_>| {
        put(log, 1, &[(21, 0, &[(2, 15)])]);
        region.to_bytes()
    };
    let image = image(&log);
    let with_floor = |floor| versions(&SimRegion::from_image(image.clone()), floor).expect("opens");
    assert_eq!(with_floor(14), []);
    assert_eq!(with_floor(15), [(1, 21)]);
    // A block that goes on from version 15 is as good.
    let mut writer = log.writer(2, 15);
    writer.entry(30, 0, &[b"x"]);
    writer.write(0, &[]).expect("room");
    assert_eq!(versions(&region, 0).expect("opens"), [(1, 21), (2, 30)]);
}

#[test]
fn what_was_cut_never_comes_back() {
    let region = region(12);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let mut writer = log.writer(1, 0);
    writer.entry(1, 0, &[b"counts"]);
    writer.write(0, &[]).expect("room");
    for version in 10..14 {
        writer.entry(version, 0, &[&[1; 400]]);
        writer.write(1, &[(2, 5)]).expect("room");
    }
    drop(writer);
    let free = log.free_blocks();
    drop(log);

    let (log, replay) = open(on_region(&region), 1024, 0).expect("opens");
    assert_eq!(replay.positions().into_iter().collect::<Vec<_>>(), [(1, 1)]);
    assert!(log.free_blocks() > free, "blocks behind the cut are free");
    // Slot 2 goes past version 5, and slot 1 goes on: the tail in the old block now looks met.
    put(&log, 2, &[(5, 0, &[]), (6, 0, &[])]);
    assert_eq!(versions(&region, 0).expect("opens"), [(1, 1), (2, 5), (2, 6)]);
    let (log, _) = open(on_region(&region), 1024, 0).expect("opens");
    let mut writer = log.writer(1, 100);
    writer.entry(101, 0, &[b"new"]);
    writer.write(100, &[(2, 6)]).expect("room");
    writer.entry(102, 0, &[b"new"]);
    writer.write(101, &[]).expect("room");
    assert_eq!(versions(&region, 0).expect("opens"), [(1, 1), (1, 101), (1, 102), (2, 5), (2, 6)]);
}

#[test]
fn a_cut_below_a_claimed_position_is_corruption() {
    let region = region(4);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    put(&log, 1, &[(1, 0, &[(2, 9)]), (2, 1, &[])]);
    let before = region.to_bytes();
    let error = versions(&region, 0).expect_err("version 1 was durable, and so was what it rests on");
    assert!(matches!(error, LogError::Corrupt { slot: Some(1), .. }), "{error}");
    assert_eq!(region.to_bytes(), before, "an error changes nothing");
}

#[test]
fn a_lost_first_page_takes_the_later_blocks_with_it() {
    let device = SimBlock::from_image(vec![0; 4096 * 9]);
    let log = Log::create(on_block(&device), options(4096)).expect("created");
    let blank = device.to_bytes();
    let mut writer = log.writer(1, 0);
    for version in 1..=3 {
        writer.entry(version, 0, &[&[1; 3000]]);
        writer.write(0, &[]).expect("room");
    }
    let whole = device.to_bytes();
    for lost in 1..=3 {
        let mut image = whole.clone();
        image[lost * 4096..][..4096].copy_from_slice(&blank[lost * 4096..][..4096]);
        let image = SimBlock::from_image(image);
        let (_, replay) = open(on_block(&image), 4096, 0).expect("unsynced pages may be lost");
        let kept: Vec<_> = found(&replay).iter().map(|entry| entry.1).collect();
        assert_eq!(kept, (1..lost as u64).collect::<Vec<_>>(), "block {lost} lost");
    }
}
