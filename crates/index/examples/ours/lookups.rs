//! Look-ups on one core: found, verified, copied.

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::time::{Duration, Instant};

use terrace_index::{Direction, Index, Key, Lookup, OrderedIndex};

use crate::keys;
use crate::records::{Record, Records};

/// Keys in a batch.
pub const BATCH_MAX: usize = 64;

/// Millions of look-ups a second.
pub struct Best {
    /// By the clock on the wall.
    pub wall: f64,
    /// By the thread's CPU time.
    pub cpu: f64,
}

/// The thread's CPU time.
#[inline]
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to where the pointer says, which is one.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "this system has no clock of thread CPU time");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs several times and keeps the best of each clock.
pub fn best(runs: usize, keys: &[[u8; 8]], mut once: impl FnMut() -> u64) -> Best {
    let mut best = Best { wall: 0.0, cpu: 0.0 };
    for _ in 0..runs {
        let (wall, cpu) = (Instant::now(), thread_time());
        let found = once();
        let (wall, cpu) = (wall.elapsed(), thread_time() - cpu);
        assert_eq!(found, keys.len() as u64, "every key is there");
        best.wall = best.wall.max(found as f64 / wall.as_secs_f64() / 1e6);
        best.cpu = best.cpu.max(found as f64 / cpu.as_secs_f64() / 1e6);
    }
    best
}

/// Looks keys up one by one; returns how many were there.
#[inline(never)]
pub fn gets_one_by_one<I: Index>(index: &I, records: &Records, keys: &[[u8; 8]]) -> u64 {
    let mut found = 0;
    let mut copy = Record { key: 0, value: [0; 7] };
    for bytes in keys {
        let key = u64::from_ne_bytes(*bytes);
        let probe = Key { hash: keys::hash(key), db: 0, bytes };
        if let Lookup::Found(address) = index.get(&probe, |address| records.verify(key, address)) {
            records.copy(address, &mut copy);
            black_box(&copy);
            found += 1;
        }
    }
    found
}

/// Looks keys up in batches of at most [`BATCH_MAX`]; returns how many were there.
#[inline(never)]
pub fn gets_in_batches<I: Index>(index: &I, records: &Records, keys: &[[u8; 8]], batch: usize) -> u64 {
    let mut found = 0;
    let mut copy = Record { key: 0, value: [0; 7] };
    let mut probes = [Key { hash: 0, db: 0, bytes: &[] }; BATCH_MAX];
    let mut out = [Lookup::Absent; BATCH_MAX];
    for keys in keys.chunks(batch) {
        let (probes, out) = (&mut probes[..keys.len()], &mut out[..keys.len()]);
        for (probe, bytes) in probes.iter_mut().zip(keys) {
            *probe = Key { hash: keys::hash(u64::from_ne_bytes(*bytes)), db: 0, bytes };
        }
        index.get_batch(
            probes,
            |address| records.prefetch(address),
            |i, address| records.verify(u64::from_ne_bytes(keys[i]), address),
            out,
        );
        for lookup in out {
            if let Lookup::Found(address) = *lookup {
                records.copy(address, &mut copy);
                black_box(&copy);
                found += 1;
            }
        }
    }
    found
}

/// Visits 100 entries from each key on, without their records; returns how many keys were there.
#[inline(never)]
pub fn scans(index: &dyn OrderedIndex, keys: &[[u8; 8]]) -> u64 {
    let mut found = 0;
    for key in keys {
        let mut left = 100;
        index.range(0, Bound::Included(key), Direction::Forward, &mut |bytes, address| {
            if left == 100 {
                found += u64::from(bytes == key);
            }
            black_box(address);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    found
}
