//! Block files: reads, writes, syncs and queues, through io_uring and through threads, direct and buffered.

#![expect(clippy::unwrap_used, reason = "helpers stop a test by panicking")]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use terrace_media::{AlignedBuf, BlockDevice, BlockFile, BlockFileOptions, BlockQueue, Completion, IO_ALIGN};

const PAGES: u64 = 64;
const LEN: u64 = PAGES * IO_ALIGN as u64;

fn options(direct: bool, ring: bool) -> BlockFileOptions {
    BlockFileOptions { direct, ring, prewrite: false }
}

/// Every way a file can be opened.
fn all() -> impl Iterator<Item = BlockFileOptions> {
    [(true, true), (true, false), (false, true), (false, false)].into_iter().map(|(d, r)| options(d, r))
}

fn page(fill: u8, pages: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(pages * IO_ALIGN);
    buf.fill(fill);
    buf
}

/// A file whose page `i` is filled with `i`.
fn numbered(dir: &Path, options: &BlockFileOptions) -> BlockFile {
    let file = BlockFile::create(&dir.join("blocks"), LEN, options).unwrap();
    for i in 0..PAGES {
        file.write_at(i * IO_ALIGN as u64, &page(i as u8, 1)).unwrap();
    }
    file
}

#[test]
fn what_was_written_is_read_and_counted() {
    for options in all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blocks");
        let file = BlockFile::create(&path, LEN - 1, &options).unwrap();
        assert_eq!(file.len(), LEN, "rounded up to whole pages");
        let mut out = page(9, 2);
        file.read_at(0, &mut out).unwrap();
        assert!(out.iter().all(|byte| *byte == 0));
        file.write_at(4096, &page(7, 3)).unwrap();
        file.sync().unwrap();
        file.read_at(8192, &mut out).unwrap();
        assert!(out.iter().all(|byte| *byte == 7));
        let seen = file.counters().snapshot();
        assert_eq!((seen.reads, seen.read_bytes, seen.writes, seen.write_bytes), (2, 16384, 1, 12288));
        assert_eq!(seen.fences, 1);
        drop(file);
        let file = BlockFile::open(&path, &options).unwrap();
        file.read_at(12288, &mut out).unwrap();
        assert_eq!((out[0], out[4096], file.len()), (7, 0, LEN));
    }
}

#[test]
fn what_was_obtained_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = numbered(dir.path(), &options(false, false));
    assert!(file.describe().ends_with("file, buffered, reader threads"), "{}", file.describe());
    let file = BlockFile::open(&dir.path().join("blocks"), &BlockFileOptions::default()).unwrap();
    assert_eq!(file.describe().contains("O_DIRECT"), file.is_direct());
    assert_eq!(file.describe().contains("io_uring"), file.has_ring());
}

#[test]
fn a_file_is_written_through_if_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blocks");
    let options = BlockFileOptions { prewrite: true, ..Default::default() };
    let file = BlockFile::create(&path, 3 << 19, &options).unwrap();
    let mut out = page(1, 384);
    file.read_at(0, &mut out).unwrap();
    assert!(out.iter().all(|byte| *byte == 0));
    assert_eq!(file.counters().snapshot().writes, 0, "making a file is no write of its user's");
}

#[test]
fn bad_requests_and_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = numbered(dir.path(), &BlockFileOptions::default());
    for offset in [1, LEN, LEN - 4096, u64::MAX - 4095] {
        let error = file.read_at(offset, &mut page(0, 2)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{offset}");
        assert!(file.write_at(offset, &page(0, 2)).is_err(), "{offset}");
    }
    let again = BlockFile::create(&dir.path().join("blocks"), LEN, &BlockFileOptions::default());
    assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert!(BlockFile::create(&dir.path().join("empty"), 0, &BlockFileOptions::default()).is_err());
    assert!(BlockFile::open(&dir.path().join("none"), &BlockFileOptions::default()).is_err());
}

/// The kernel tells one `fdatasync` of a failed write-back and then calls the file well again.
#[test]
fn an_fdatasync_that_really_failed_stays_failed() {
    let dir = tempfile::tempdir().unwrap();
    let file = numbered(dir.path(), &options(false, false));
    file.sync().unwrap();
    let links = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap());
    let blocks = dir.path().join("blocks");
    let entry = links.into_iter().find(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to == blocks));
    let fd: i32 = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
    // It takes writes and has nothing to sync, so that `fdatasync` answers EINVAL.
    let sick = std::fs::File::options().write(true).open("/dev/null").unwrap();
    // SAFETY: `fd` is open, it is the file's.
    let well = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().unwrap();
    // SAFETY: both descriptors are open, and the file's stays open; nobody else knows it.
    assert_eq!(unsafe { libc::dup2(sick.as_raw_fd(), fd) }, fd);
    file.write_at(0, &page(7, 1)).unwrap();
    let error = file.sync().unwrap_err().to_string();
    assert!(error.contains(&*blocks.to_string_lossy()) && error.contains("os error 22"), "{error}");
    // SAFETY: as above.
    assert_eq!(unsafe { libc::dup2(well.as_raw_fd(), fd) }, fd);
    rustix::fs::fdatasync(&well).unwrap();
    for _ in 0..2 {
        file.write_at(0, &page(8, 1)).unwrap();
        let error = file.sync().unwrap_err().to_string();
        assert!(error.contains("an earlier sync failed") && error.contains("os error 22"), "{error}");
    }
    let mut out = page(0, 1);
    file.read_at(0, &mut out).unwrap();
    assert_eq!(out[0], 8, "reads go on");
}

#[test]
fn tmpfs_has_nothing_but_the_page_cache() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    let file = numbered(dir.path(), &options(true, true));
    if file.describe().starts_with("tmpfs") {
        assert!(!file.is_direct() && file.describe().contains("buffered"), "{}", file.describe());
    }
    let mut out = page(0, 1);
    file.read_at(5 * 4096, &mut out).unwrap();
    assert_eq!(out[0], 5);
}

#[test]
fn a_queue_reads_everything_once() {
    for options in all() {
        let dir = tempfile::tempdir().unwrap();
        let file = numbered(dir.path(), &options);
        let mut queue = file.queue(8).unwrap();
        assert_eq!(format!("{queue:?}").contains("io_uring"), file.has_ring());
        let (mut seen, mut next) = (vec![0; PAGES as usize], 0);
        let mut out = Vec::new();
        while next < PAGES || queue.in_flight() > 0 {
            while next < PAGES && queue.submit(next, next * 4096, page(0xFF, 1)).is_ok() {
                next += 1;
            }
            assert!(queue.in_flight() <= 8);
            queue.reap(true, &mut out);
            assert!(!out.is_empty(), "waiting returns with something");
            for Completion { token, buf, result } in out.drain(..) {
                result.unwrap();
                assert!(buf.iter().all(|byte| u64::from(*byte) == token), "page {token}");
                seen[token as usize] += 1;
            }
        }
        assert_eq!(seen, vec![1; PAGES as usize]);
        assert_eq!(file.counters().snapshot().reads, PAGES);
        queue.reap(true, &mut out);
        assert!(out.is_empty(), "with nothing in flight there is nothing to wait for");
    }
}

#[test]
fn a_full_queue_gives_the_buffer_back() {
    for options in all() {
        let dir = tempfile::tempdir().unwrap();
        let file = numbered(dir.path(), &options);
        let mut queue = file.queue(3).unwrap();
        for i in 0..3 {
            queue.submit(i, 0, page(0, 2)).unwrap();
        }
        let back = queue.submit(3, 0, page(0xAB, 2)).unwrap_err();
        assert_eq!((back.len(), back[0], queue.in_flight()), (8192, 0xAB, 3));
    }
}

#[test]
fn a_read_that_can_not_be_completes_with_an_error() {
    for options in all() {
        let dir = tempfile::tempdir().unwrap();
        let file = numbered(dir.path(), &options);
        let mut queue = file.queue(4).unwrap();
        queue.submit(1, LEN, page(0, 1)).unwrap();
        assert_eq!(queue.in_flight(), 1);
        let mut out = Vec::new();
        queue.reap(true, &mut out);
        assert_eq!((out.len(), out[0].token, queue.in_flight()), (1, 1, 0));
        assert!(out[0].result.is_err());
        // The file shrinks under the reader: the read fails, and nothing waits for ever.
        std::fs::File::options().write(true).open(dir.path().join("blocks")).unwrap().set_len(4096).unwrap();
        queue.submit(2, 0, page(0, 2)).unwrap();
        out.clear();
        queue.reap(true, &mut out);
        assert_eq!(out[0].result.as_ref().unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn the_descriptor_wakes_and_falls_quiet() {
    fn readable(queue: &impl BlockQueue, wait: bool) -> bool {
        let raw = queue.event_fd().unwrap();
        // SAFETY: the queue keeps its descriptor open while it is borrowed.
        let fd = unsafe { BorrowedFd::borrow_raw(raw) };
        let timeout = Timespec { tv_sec: if wait { 30 } else { 0 }, tv_nsec: 0 };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap() == 1
    }
    for options in all() {
        let dir = tempfile::tempdir().unwrap();
        let file = numbered(dir.path(), &options);
        let mut queue = file.queue(4).unwrap();
        assert!(!readable(&queue, false));
        let mut out = Vec::new();
        for round in 0..20 {
            queue.submit(round, 0, page(0, 1)).unwrap();
            queue.reap(false, &mut out);
            while out.is_empty() {
                assert!(readable(&queue, true), "a completion wakes");
                queue.reap(false, &mut out);
            }
            out.clear();
            // A completion may have come between clearing and collecting: one empty reap then quiets it.
            queue.reap(false, &mut out);
            assert!(out.is_empty() && !readable(&queue, false), "level-triggered loops must not spin");
        }
    }
}

#[test]
fn dropping_a_queue_waits_and_the_file_may_go_first() {
    for options in all() {
        let dir = tempfile::tempdir().unwrap();
        let file = numbered(dir.path(), &options);
        let mut queue = file.queue(32).unwrap();
        for i in 0..32 {
            queue.submit(i, i * 4096, page(0, 1)).unwrap();
        }
        let mut out = Vec::new();
        queue.reap(false, &mut out);
        drop(file);
        drop(queue);
    }
}

#[test]
fn queues_of_several_threads() {
    for options in all() {
        let dir = tempfile::tempdir().unwrap();
        let file = numbered(dir.path(), &options);
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let file = &file;
                scope.spawn(move || {
                    let mut queue = file.queue(4).unwrap();
                    let mut out = Vec::new();
                    for i in 0..100 {
                        let at = (i * 7 + thread * 13) % PAGES;
                        queue.submit(at, at * 4096, page(0, 1)).unwrap();
                        queue.reap(i % 4 == 3 || queue.in_flight() == 4, &mut out);
                        for done in out.drain(..) {
                            done.result.unwrap();
                            assert_eq!(u64::from(done.buf[4095]), done.token);
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn a_file_grows_and_shrinks_while_it_is_used() {
    for options in all() {
        let dir = tempfile::tempdir().unwrap();
        let file = numbered(dir.path(), &options);
        let on_disk = || dir.path().join("blocks").metadata().unwrap().len();
        let half = LEN / 2;
        file.resize(half).unwrap();
        assert_eq!((file.len(), on_disk()), (half, half));
        let mut out = page(0, 1);
        assert!(file.read_at(half, &mut out).is_err() && file.write_at(half, &out).is_err());
        file.resize(LEN * 2).unwrap();
        file.sync().unwrap();
        assert_eq!((file.len(), on_disk()), (LEN * 2, LEN * 2));
        for (at, fill) in [(half - 4096, PAGES as u8 / 2 - 1), (half, 0), (LEN * 2 - 4096, 0)] {
            file.read_at(at, &mut out).unwrap();
            assert!(out.iter().all(|byte| *byte == fill), "{at}");
        }
        // More than any file system has.
        assert!(file.resize(1 << 62).is_err());
        assert_eq!((file.len(), on_disk()), (LEN * 2, LEN * 2), "a refusal changes nothing");
        assert!(file.resize(0).is_err() && file.resize(4097).is_err());
    }
}
