//! Devices that fail, and queues that complete in any order.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use terrace_media::{AlignedBuf, BlockDevice, BlockQueue, IO_ALIGN};
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
    block.inject(Fault { access: Access::Write, after: 1, kind: FaultKind::NoSpace, sticky: false });
    block.inject(Fault { access: Access::Read, after: 0, kind: FaultKind::Io, sticky: false });
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
    block.inject(Fault { access: Access::Sync, after: 0, kind: FaultKind::Io, sticky: false });
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
    block.inject(Fault { access: Access::Read, after: 0, kind: FaultKind::Io, sticky: true });
    let mut queue = block.queue(1).unwrap();
    let mut done = Vec::new();
    for token in 0..2 {
        queue.submit(token, 0, page(0)).unwrap();
        queue.reap(false, &mut done);
    }
    assert_eq!(done.len(), 2);
    assert!(done.into_iter().all(|completion| code(completion.result) == Some(5)));
}
