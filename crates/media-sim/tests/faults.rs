//! Devices that fail, and queues that complete in any order.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use terrace_media::{AlignedBuf, BlockDevice, BlockQueue, ByteRegion, IO_ALIGN};
use terrace_media_sim::{Access, Crash, Explorer, Fault, FaultKind, QueueOrder, Recorder, SimBlock};

fn page(fill: u8) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(IO_ALIGN);
    buf.fill(fill);
    buf
}

fn code(result: std::io::Result<()>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn the_nth_access_fails_once_and_has_no_effect() {
    let block = SimBlock::from_image(vec![0; IO_ALIGN]);
    block.inject(Fault::new(Access::Write, FaultKind::NoSpace).after(1));
    block.inject(Fault::new(Access::Read, FaultKind::Io));
    assert_eq!(code(block.write_at(0, &page(1))), None);
    assert_eq!(code(block.write_at(0, &page(2))), Some(28));
    let mut buf = page(0);
    assert_eq!(code(block.read_at(0, &mut buf)), Some(5));
    assert_eq!(code(block.read_at(0, &mut buf)), None);
    assert_eq!(buf[0], 1);
    assert_eq!(code(block.write_at(0, &page(3))), None);
}

#[test]
fn a_failed_sync_stays_failed_and_makes_nothing_durable() {
    let recorder = Recorder::new();
    let block = recorder.block(vec![0; IO_ALIGN]);
    block.inject(Fault::new(Access::Sync, FaultKind::Io));
    block.write_at(0, &page(1)).unwrap();
    assert_eq!(code(block.sync()), Some(5));
    assert_eq!(code(block.sync()), Some(5));
    let trace = recorder.finish();
    let lost = Explorer::new(1).only(Crash::Power).explore(&trace, |point, image| {
        let mut buf = page(0);
        image.block(0).read_at(0, &mut buf).unwrap();
        if point.position == trace.len() && buf[0] == 0 { Err("lost") } else { Ok(()) }
    });
    assert_eq!(lost.unwrap_err().message, "lost");
}

#[test]
fn misuse_of_a_device_is_an_error() {
    let block = SimBlock::from_image(vec![0; 2 * IO_ALIGN]);
    assert!(block.write_at(512, &page(1)).is_err());
    assert!(block.write_at(2 * IO_ALIGN as u64, &page(1)).is_err());
}

fn all_reads(order: QueueOrder) -> Vec<u64> {
    let block = SimBlock::from_image((0..8 * IO_ALIGN).map(|i| (i / IO_ALIGN) as u8).collect());
    block.set_queue_order(order);
    let mut queue = block.queue(8).unwrap();
    for token in 0..8 {
        queue.submit(token, token * IO_ALIGN as u64, page(0xff)).unwrap();
    }
    assert!(queue.submit(8, 0, page(0)).is_err(), "the queue is full");
    let (mut done, mut rounds) = (Vec::new(), 0);
    while queue.in_flight() > 0 {
        let before = done.len();
        queue.reap(true, &mut done);
        assert!(done.len() > before, "a waiting reap brings something");
        rounds += 1;
    }
    assert!(rounds <= 8);
    queue.reap(true, &mut done);
    for completion in &done {
        completion.result.as_ref().unwrap();
        assert!(completion.buf.iter().all(|byte| u64::from(*byte) == completion.token));
    }
    done.iter().map(|completion| completion.token).collect()
}

#[test]
fn reads_complete_in_order_or_as_the_seed_says() {
    let in_order: Vec<u64> = (0..8).collect();
    assert_eq!(all_reads(QueueOrder::InOrder), in_order);
    let shuffled: Vec<Vec<u64>> = (0..5).map(|seed| all_reads(QueueOrder::Shuffled { seed })).collect();
    assert!(shuffled.iter().any(|order| *order != in_order));
    assert_eq!(shuffled[3], all_reads(QueueOrder::Shuffled { seed: 3 }));
    for mut order in shuffled {
        order.sort_unstable();
        assert_eq!(order, in_order, "each read completes once");
    }
}

#[test]
fn a_queued_read_fails_by_completion() {
    let block = SimBlock::from_image(vec![0; IO_ALIGN]);
    block.inject(Fault::new(Access::Read, FaultKind::Io).forever());
    let mut queue = block.queue(1).unwrap();
    let mut done = Vec::new();
    for token in 0..2 {
        queue.submit(token, 0, page(0)).unwrap();
        queue.reap(false, &mut done);
    }
    assert_eq!(done.len(), 2);
    assert!(done.into_iter().all(|completion| code(completion.result) == Some(5)));
}

fn first_byte_of_each_sector(block: &SimBlock) -> Vec<u8> {
    block.to_bytes().iter().copied().step_by(512).collect()
}

#[test]
fn a_failed_write_may_leave_its_first_sectors() {
    let recorder = Recorder::new();
    let block = recorder.block(vec![0; 2 * IO_ALIGN]);
    block.inject(Fault::new(Access::Write, FaultKind::Partial { sectors: 3 }));
    assert_eq!(code(block.write_at(0, &page(7))), Some(5));
    assert_eq!(first_byte_of_each_sector(&block)[..8], [7, 7, 7, 0, 0, 0, 0, 0]);
    block.sync().unwrap();
    // The explorer knows of it too.
    let trace = recorder.finish();
    let at_the_end = Explorer::new(1).only(Crash::Power).explore(&trace, |point, image| {
        let torn = first_byte_of_each_sector(&image.block(0))[..8] == [7, 7, 7, 0, 0, 0, 0, 0];
        if point.position == trace.len() && !torn { Err("lost") } else { Ok(()) }
    });
    at_the_end.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_short_read_is_an_error_with_part_of_the_bytes() {
    let block = SimBlock::from_image(vec![9; IO_ALIGN]);
    block.inject(Fault::new(Access::Read, FaultKind::Partial { sectors: 1 }));
    let mut buf = page(0);
    assert_eq!(block.read_at(0, &mut buf).unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!((buf[511], buf[512]), (9, 0));
}

#[test]
fn lies_succeed() {
    let block = SimBlock::from_image((0..4 * IO_ALIGN).map(|i| (i / IO_ALIGN) as u8).collect());
    let read = |page_number: u64| {
        let mut buf = page(0xff);
        block.read_at(page_number * IO_ALIGN as u64, &mut buf).unwrap();
        buf[5]
    };
    block.inject(Fault::new(Access::Write, FaultKind::Lost));
    block.write_at(0, &page(9)).unwrap();
    assert_eq!(read(0), 0);
    block.inject(Fault::new(Access::Write, FaultKind::Misdirected { pages: 3 }));
    block.write_at(IO_ALIGN as u64, &page(9)).unwrap();
    assert_eq!((read(1), read(0)), (1, 9), "it went around the end");
    block.inject(Fault::new(Access::Read, FaultKind::Misdirected { pages: 1 }));
    assert_eq!((read(2), read(2)), (3, 2));
    block.inject(Fault::new(Access::Read, FaultKind::Flip { byte: 5 + IO_ALIGN as u64, mask: 0x80 }));
    assert_eq!((read(2), read(2)), (0x82, 2));
    block.keep_history();
    block.write_at(IO_ALIGN as u64, &page(10)).unwrap();
    block.write_at(IO_ALIGN as u64, &page(11)).unwrap();
    block.inject(Fault::new(Access::Read, FaultKind::Stale).after(1));
    assert_eq!((read(1), read(1), read(1)), (11, 10, 11));
    block.rot(2 * IO_ALIGN as u64 + 5, 1);
    assert_eq!((read(2), block.faults_fired()), (3, 5));
}

#[test]
fn faults_by_place_and_by_chance() {
    let block = SimBlock::from_image(vec![0; 4 * IO_ALIGN]);
    let second = IO_ALIGN as u64..2 * IO_ALIGN as u64;
    block.inject(Fault::new(Access::Read, FaultKind::Io).within(second).forever());
    let failing = |page_number: u64| block.read_at(page_number * IO_ALIGN as u64, &mut page(0)).is_err();
    assert_eq!([0, 1, 2, 1].map(failing), [false, true, false, true]);
    assert!(block.read_at(0, &mut AlignedBuf::zeroed(2 * IO_ALIGN)).is_err(), "it touches the bad page");
    block.heal();
    assert!(!failing(1));
    let by_chance = |seed| {
        block.heal();
        block.inject(Fault::new(Access::Read, FaultKind::Io).one_in(4, seed).forever());
        (0..200).map(|_| failing(0)).collect::<Vec<_>>()
    };
    let failed = by_chance(1).into_iter().filter(|failed| *failed).count();
    assert!((20..90).contains(&failed), "{failed} of 200");
    assert!(by_chance(1) == by_chance(1) && by_chance(1) != by_chance(2));
}

#[test]
fn unsynced_writes_can_be_lost() {
    let states = |seed| {
        let block = SimBlock::from_image(vec![0; 4 * IO_ALIGN]);
        block.keep_history();
        block.write_at(0, &page(1)).unwrap();
        block.sync().unwrap();
        for at in 0..4 {
            block.write_at(at * IO_ALIGN as u64, &page(2)).unwrap();
        }
        block.lose_unsynced(seed);
        first_byte_of_each_sector(&block)
    };
    let all: Vec<_> = (0..50).map(states).collect();
    assert!(all.iter().all(|bytes| bytes[..8].iter().all(|byte| *byte != 0)), "what was synced stays");
    assert!(all.iter().any(|bytes| bytes[..8] == [1; 8]) && all.iter().any(|bytes| bytes[..8] == [2; 8]));
    assert!(all.iter().any(|bytes| bytes[8..16].contains(&0) && bytes[8..16].contains(&2)), "torn");
}

#[test]
fn a_late_read_completes_after_others() {
    let block = SimBlock::from_image(vec![0; 2 * IO_ALIGN]);
    block.inject(Fault::new(Access::Read, FaultKind::Late { reaps: 3 }).within(0..1));
    let mut queue = block.queue(4).unwrap();
    let mut done = Vec::new();
    queue.submit(0, 0, page(0)).unwrap();
    queue.submit(1, IO_ALIGN as u64, page(0)).unwrap();
    queue.reap(true, &mut done);
    assert_eq!(done.drain(..).map(|c| c.token).collect::<Vec<_>>(), [1]);
    queue.reap(false, &mut done);
    queue.reap(false, &mut done);
    assert!(done.is_empty() && queue.in_flight() == 1);
    queue.reap(true, &mut done);
    assert_eq!((done.len(), queue.in_flight()), (1, 0), "who waits long enough gets it");
}

#[test]
fn regions_rot() {
    let region = terrace_media_sim::SimRegion::from_image(vec![0; 128]);
    region.rot(67, 0x11);
    region.scribble(3, &[1, 2]);
    let bytes = region.to_bytes();
    assert_eq!((bytes[67], bytes[3], bytes[4]), (0x11, 1, 2));
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 3);
}

#[test]
fn what_is_cut_off_a_region_reads_as_zeros_and_a_crash_may_bring_it_back_until_the_next_fence() {
    let left_by = |fence: bool| {
        let recorder = Recorder::new();
        let region = recorder.region(vec![7; 256]);
        assert!(region.resize(320).is_err() && region.len_max() == Some(256), "it is as long as it can be");
        region.resize(100).unwrap();
        assert_eq!((region.load_u64(120), region.load_u64(128)), (0x0707_0707_0707_0707, 0));
        if fence {
            region.fence();
        }
        let end = recorder.position();
        let mut left = std::collections::BTreeSet::new();
        let explored = Explorer::new(1).minimise(false).explore(&recorder.finish(), |point, image| {
            if point.position == end {
                let bytes = image.region(0).to_bytes();
                left.insert((bytes[128], bytes[192]));
            }
            Ok::<(), String>(())
        });
        assert!(explored.is_ok());
        left
    };
    assert_eq!(left_by(false), [(0, 0), (0, 7), (7, 0), (7, 7)].into());
    assert_eq!(left_by(true), [(0, 0)].into());
}

#[test]
fn what_is_cut_off_reads_as_zeros_and_a_crash_may_bring_it_back_until_the_next_sync() {
    let cut = || {
        let block = SimBlock::from_image(vec![7; 3 * IO_ALIGN]);
        assert!(block.resize(4 * IO_ALIGN as u64).is_err(), "it is as long as it can be");
        block.keep_history();
        block.resize(2 * IO_ALIGN as u64).unwrap();
        let bytes = block.to_bytes();
        assert!(bytes[..2 * IO_ALIGN].iter().all(|byte| *byte == 7));
        assert!(bytes[2 * IO_ALIGN..].iter().all(|byte| *byte == 0));
        block
    };
    let comes_back = |seed| {
        let block = cut();
        block.lose_unsynced(seed);
        block.to_bytes().ends_with(&[7; IO_ALIGN])
    };
    assert!((0..32).any(comes_back) && !(0..32).all(comes_back));
    let block = cut();
    block.sync().unwrap();
    assert_eq!(block.lose_unsynced(1), 0);
}
