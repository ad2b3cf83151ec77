//! Small persistence protocols on block media, with and without a known hole.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use terrace_media::{AlignedBuf, BlockDevice, ByteRegion, IO_ALIGN};
use terrace_media_sim::{Crash, CrashImage, Explorer, PointKind, Recorder, SimBlock, Trace};

const PAGE: u64 = IO_ALIGN as u64;

fn page(fill: u8) -> AlignedBuf {
    pages(fill, 1)
}

fn pages(fill: u8, count: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(count * IO_ALIGN);
    buf.fill(fill);
    buf
}

fn record(protocol: impl FnOnce(&SimBlock, &Recorder)) -> Trace {
    let recorder = Recorder::new();
    let block = recorder.block(vec![0; 8 * IO_ALIGN]);
    protocol(&block, &recorder);
    recorder.finish()
}

fn read(block: &SimBlock, offset: u64, count: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(count * IO_ALIGN);
    block.read_at(offset, &mut buf).unwrap();
    buf
}

/// A header page whose first byte counts the data pages behind it; each is filled with its number.
fn counted_pages_are_there(image: &CrashImage, at_least: u8) -> Result<(), String> {
    let block = image.block(0);
    let count = read(&block, 0, 1)[0];
    if count < at_least {
        return Err(format!("acknowledged {at_least} pages, found {count}"));
    }
    for n in 1..=count {
        if read(&block, u64::from(n) * PAGE, 1).iter().any(|byte| *byte != n) {
            return Err(format!("page {n} is counted but not whole"));
        }
    }
    Ok(())
}

/// The header holds its count in one sector, so it can't tear.
fn header(count: u8) -> AlignedBuf {
    let mut buf = page(0);
    buf[0] = count;
    buf
}

fn append(block: &SimBlock, recorder: &Recorder, n: u8, sync_data: bool, sync_header: bool) {
    block.write_at(u64::from(n) * PAGE, &page(n)).unwrap();
    if sync_data {
        block.sync().unwrap();
    }
    block.write_at(0, &header(n)).unwrap();
    if sync_header {
        block.sync().unwrap();
    }
    recorder.acknowledged(u64::from(n));
}

fn explore(trace: &Trace, explorer: &Explorer) -> Result<(), String> {
    let mut acknowledged = 0;
    let verdict = explorer.explore(trace, |point, image| {
        if let PointKind::Acknowledged(n) = point.kind {
            acknowledged = n as u8;
        }
        counted_pages_are_there(image, acknowledged)
    });
    verdict.map(|_| ()).map_err(|failure| failure.to_string())
}

#[test]
fn data_sync_header_sync_passes() {
    let trace = record(|block, recorder| (1..4).for_each(|n| append(block, recorder, n, true, true)));
    explore(&trace, &Explorer::new(2)).unwrap();
}

#[test]
fn an_unsynced_header_is_caught() {
    let trace = record(|block, recorder| append(block, recorder, 1, true, false));
    let failure = explore(&trace, &Explorer::new(2)).unwrap_err();
    assert!(failure.contains("acknowledged 1 pages, found 0"), "{failure}");
}

#[test]
fn a_header_that_may_overtake_its_data_is_caught() {
    let trace = record(|block, recorder| append(block, recorder, 1, false, true));
    let failure = explore(&trace, &Explorer::new(2)).unwrap_err();
    assert!(failure.contains("counted but not whole"), "{failure}");
}

#[test]
fn without_any_sync_only_the_process_may_die() {
    let trace = record(|block, recorder| append(block, recorder, 1, false, false));
    explore(&trace, &Explorer::new(2).only(Crash::Process)).unwrap();
    explore(&trace, &Explorer::new(2).only(Crash::Power)).unwrap_err();
}

#[test]
fn every_sync_is_needed() {
    let trace = record(|block, recorder| append(block, recorder, 1, true, true));
    let sites = trace.sites();
    assert_eq!(sites.len(), 2);
    for site in sites {
        explore(&trace, &Explorer::new(2).without_site(site)).unwrap_err();
    }
}

/// A page with a sum of its bytes in its last eight.
fn summed(fill: u8) -> AlignedBuf {
    let mut buf = page(fill);
    let sum: u64 = buf[..IO_ALIGN - 8].iter().map(|byte| u64::from(*byte)).sum();
    buf[IO_ALIGN - 8..].copy_from_slice(&sum.to_le_bytes());
    buf
}

fn sum_holds(buf: &[u8]) -> bool {
    let (body, sum) = buf.split_at(IO_ALIGN - 8);
    body.iter().map(|byte| u64::from(*byte)).sum::<u64>().to_le_bytes() == sum
}

#[test]
fn a_page_torn_between_sectors_is_caught_and_a_checksum_saves_it() {
    let trace = record(|block, _| {
        block.write_at(PAGE, &summed(1)).unwrap();
        block.sync().unwrap();
        block.write_at(PAGE, &summed(2)).unwrap();
        block.sync().unwrap();
    });
    let mut torn = 0;
    let unchecked = Explorer::new(3).images_per_point(200).explore(&trace, |_, image| {
        let buf = read(&image.block(0), PAGE, 1);
        let body = &buf[..IO_ALIGN - 8];
        if body.iter().any(|byte| *byte != body[0]) { Err("torn") } else { Ok(()) }
    });
    assert_eq!(unchecked.unwrap_err().message, "torn");
    let statistics = Explorer::new(3).images_per_point(200).explore(&trace, |_, image| {
        let buf = read(&image.block(0), PAGE, 1);
        let uniform = buf[..IO_ALIGN - 8].iter().all(|byte| *byte == buf[0]);
        if uniform == sum_holds(&buf) || buf.iter().all(|byte| *byte == 0) {
            torn += u64::from(!uniform);
            return Ok(());
        }
        Err("the checksum accepts a torn page, or refuses a whole one")
    });
    assert!(torn > 100, "{torn} torn pages of {}", statistics.unwrap());
}

#[test]
fn pages_of_one_write_are_lost_one_by_one() {
    let trace = record(|block, _| block.write_at(0, &pages(9, 3)).unwrap());
    for crash in [Crash::Power, Crash::Process] {
        let mut seen = std::collections::BTreeSet::new();
        let check = |_: &_, image: &CrashImage| {
            let buf = read(&image.block(0), 0, 3);
            let whole = |n: usize| buf[n * IO_ALIGN..(n + 1) * IO_ALIGN].iter().all(|byte| *byte == 9);
            let lost = |n: usize| buf[n * IO_ALIGN..(n + 1) * IO_ALIGN].iter().all(|byte| *byte == 0);
            if (0..3).all(|n| whole(n) || lost(n)) {
                seen.insert([whole(0), whole(1), whole(2)]);
            }
            Ok::<(), String>(())
        };
        Explorer::new(4).only(crash).explore(&trace, check).unwrap();
        assert_eq!(seen.len(), 8, "{crash:?}");
    }
}

#[test]
fn any_unsynced_version_may_survive() {
    let trace = record(|block, _| {
        block.write_at(0, &header(1)).unwrap();
        block.write_at(0, &header(2)).unwrap();
        block.write_at(0, &header(3)).unwrap();
    });
    let mut at_end = std::collections::BTreeSet::new();
    let check = |point: &terrace_media_sim::CrashPoint, image: &CrashImage| {
        if point.position == 3 && point.crash == Crash::Power {
            at_end.insert(read(&image.block(0), 0, 1)[0]);
        }
        Ok::<(), String>(())
    };
    Explorer::new(5).explore(&trace, check).unwrap();
    assert_eq!(at_end.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn a_sync_makes_the_last_version_durable() {
    let trace = record(|block, _| {
        block.write_at(0, &header(1)).unwrap();
        block.write_at(0, &header(2)).unwrap();
        block.sync().unwrap();
    });
    let mut after = Vec::new();
    let check = |point: &terrace_media_sim::CrashPoint, image: &CrashImage| {
        if point.kind == PointKind::AfterSync {
            after.push(read(&image.block(0), 0, 1)[0]);
        }
        Ok::<(), String>(())
    };
    Explorer::new(5).explore(&trace, check).unwrap();
    assert_eq!(after, [2, 2], "one image for power and one for the process");
}

#[test]
fn two_media_lose_independently() {
    let recorder = Recorder::new();
    let (region, block) = (recorder.region(vec![0; 4096]), recorder.block(vec![0; IO_ALIGN]));
    // The pointer in memory says that the page is there, and nobody synced the page.
    block.write_at(0, &page(1)).unwrap();
    region.write_nt(0, &1u64.to_le_bytes());
    region.fence();
    let trace = recorder.finish();
    let check = |_: &_, image: &CrashImage| {
        let (region, block) = (image.region(0), image.block(0));
        if region.load_u64(0) == 1 && read(&block, 0, 1)[0] != 1 { Err("dangling") } else { Ok(()) }
    };
    assert!(Explorer::new(6).explore(&trace, check).is_err());
    Explorer::new(6).only(Crash::Process).explore(&trace, check).unwrap();
}
