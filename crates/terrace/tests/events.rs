//! A session in an event loop: polled only when one of its descriptors says so, it must never wait for an event that does
//! not come. Large values are read in many parts, each submitted when the one before has arrived.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use terrace::engine::{Batch, Condition, Durability, Expiry, OpKind, Reply};
use terrace::{Options, Tier, open};

#[test]
fn reads_in_many_parts_end_without_being_asked_for() {
    // In memory reads complete as they are submitted: the case in which a part arrives before anybody sleeps.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        dir: Some(dir.path().into()),
        dram_records: Some(4 << 20),
        ssd: Some(Tier { bytes: 64 << 20, place: None }),
        durability: Durability::None,
        engine: "hetermm".into(),
        ..Options::default()
    };
    let store = open(options).unwrap();
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    let expected: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
    let value = batch.bytes(&expected);
    let kind = OpKind::Set {
        value,
        condition: Condition::Always,
        expiry: Expiry::Clear,
        flags: None,
        old_value: false,
    };
    batch.push(0, b"large", kind);
    session.execute(&mut batch);
    let _ = session.wait(&mut batch);
    let fds = session.event_fds();
    for round in 0..100 {
        batch.clear();
        batch.push(0, b"large", OpKind::Get { value: true });
        session.execute(&mut batch);
        let proof = loop {
            if session.poll(&mut batch)
                && let Some(proof) = session.settled(&batch)
            {
                break proof;
            }
            let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(|&fd| borrow(fd)).collect();
            let mut polled: Vec<PollFd<'_>> =
                borrowed.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            let limit = Timespec::try_from(Duration::from_secs(10)).unwrap();
            let ready = poll(&mut polled, Some(&limit)).unwrap();
            assert!(ready > 0, "round {round}: no event came for a read in flight");
            session.acknowledge_events();
        };
        let Reply::Hit { value: Some(value), .. } = batch.reply(0, &proof) else {
            panic!("{:?}", batch.reply(0, &proof))
        };
        assert!(batch.output(value) == expected, "round {round}");
    }
    drop(session);
    store.close().unwrap();
}

fn borrow<'a>(fd: std::os::fd::RawFd) -> BorrowedFd<'a> {
    // SAFETY: the session that owns the descriptor outlives every use in this test.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
