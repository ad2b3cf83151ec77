//! What the program's allocator keeps of memory that was freed.

#![cfg(all(feature = "mimalloc", not(shuttle)))]
#![cfg_attr(feature = "mimalloc", expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking"))]

use std::sync::Barrier;

use terrace_index::allocator::{Sparing, give_back, keep_little};

#[global_allocator]
static ALLOCATOR: Sparing = Sparing;

const MIB: u64 = 1 << 20;
const THREADS: usize = 4;

fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// What is held once threads have used buffers of these sizes, `each` at a time, and live on.
fn kept_of(sizes: impl Iterator<Item = usize> + Clone + Send + Sync, each: usize) -> u64 {
    give_back();
    let before = anonymous_bytes();
    let (freed, looked) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for bytes in sizes.clone() {
                    let buffers: Vec<_> = (0..each).map(|_| vec![1u8; bytes]).collect();
                    assert!(buffers.iter().all(|buffer| buffer.iter().all(|&byte| byte == 1)));
                }
                freed.wait();
                looked.wait();
            });
        }
        freed.wait();
        give_back();
        let kept = anonymous_bytes().saturating_sub(before);
        looked.wait();
        kept
    })
}

/// One test, for it measures the process.
#[test]
fn little_is_kept_of_what_was_freed() {
    keep_little();
    let large = kept_of((70 << 10..512 << 10).step_by(30 << 10), 8);
    assert!(large < 8 * MIB, "{} MiB of large buffers", large / MIB);
    let medium = kept_of((9 << 10..64 << 10).step_by(3 << 10), 50);
    assert!(medium < 12 * MIB, "{} MiB of buffers", medium / MIB);

    // Zeros are zeros where others have been, and what grows keeps what it holds.
    for bytes in [8 << 10, 9 << 10, 64 << 10, 65 << 10, 512 << 10, 513 << 10] {
        drop(vec![7u8; bytes]);
        let zeros = vec![0u8; bytes];
        assert!(zeros.iter().all(|&byte| byte == 0), "{bytes}");
    }
    let mut growing = Vec::new();
    for number in 0..200_000u32 {
        growing.push(number);
        if number.is_multiple_of(10_000) {
            growing.shrink_to_fit();
        }
    }
    assert!((0..).zip(&growing).all(|(at, &number)| at == number));
}
