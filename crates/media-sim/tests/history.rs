//! Whole histories, driven as an engine's are: two sessions of a small log, crashed everywhere, judged by the oracle.
//!
//! Each session appends entries of one line to its own half of the medium. `persist` makes its log durable at once on
//! byte-addressable media; on a block device the log waits for a sync of both.

use std::collections::BTreeMap;

use terrace_media::{AlignedBuf, BlockDevice, ByteRegion, IO_ALIGN};
use terrace_media_sim::{
    Crash, CrashImage, CrashPoint, Explorer, Failure, Oracle, Promise, Recorder, Rng, SimBlock, SimRegion,
    Statistics, coverage, set_actor,
};

const SLOTS: u64 = 64;
const ENTRY: usize = 64;

/// version, key, value (0 deletes), checksum; the rest of the line is unused.
fn entry(version: u64, key: u64, value: u64) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    let words = [version, key, value, checksum(version, key, value)];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    bytes
}

fn checksum(version: u64, key: u64, value: u64) -> u64 {
    Rng::new(version ^ Rng::new(key ^ Rng::new(value).bits()).bits()).bits()
}

/// Reads both logs up to their first bad entry; the highest version of each key wins.
fn recover(mut slot: impl FnMut(u64, u64) -> [u64; 4]) -> BTreeMap<u64, u64> {
    let mut newest: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for session in 0..2 {
        for n in 0..SLOTS {
            let [version, key, value, sum] = slot(session, n);
            if version == 0 || sum != checksum(version, key, value) {
                break;
            }
            let known = newest.entry(key).or_default();
            *known = (*known).max((version, value));
        }
    }
    newest.into_iter().filter(|(_, (_, value))| *value != 0).map(|(key, (_, value))| (key, value)).collect()
}

/// What a driver must know of an operation: its session, number there, key and value.
struct Write {
    session: u64,
    n: u64,
    version: u64,
    key: u64,
    value: u64,
}

fn writes(seed: u64, count: u64) -> Vec<Write> {
    let mut rng = Rng::new(seed);
    let mut next = [0, 0];
    (1..=count)
        .map(|version| {
            let session = rng.below(2);
            let n = next[session as usize];
            next[session as usize] += 1;
            let value = if rng.one_in(4) { 0 } else { version * 1000 + session };
            Write { session, n, version, key: rng.below(3), value }
        })
        .collect()
}

fn issue(oracle: &mut Oracle<u64, u64>, recorder: &Recorder, write: &Write) -> usize {
    let value = (write.value != 0).then_some(write.value);
    oracle.issue(write.session as u32, recorder.position(), vec![(write.key, value)])
}

/// `sync` on byte-addressable media: every entry is persisted before its answer, unless `fenced` says otherwise.
fn sync_history(seed: u64, fenced: bool) -> Result<Statistics, Box<Failure>> {
    let recorder = Recorder::new();
    let region = recorder.region(vec![0; 2 * SLOTS as usize * ENTRY]);
    let mut oracle = Oracle::new(seed);
    for write in writes(seed, 24) {
        set_actor(write.session as u32);
        let op = issue(&mut oracle, &recorder, &write);
        let at = (write.session * SLOTS + write.n) * ENTRY as u64;
        region.write_nt(at, &entry(write.version, write.key, write.value));
        if fenced || write.version % 8 == 0 {
            region.fence();
        }
        oracle.acknowledge(op, recorder.acknowledged(op as u64));
    }
    let read = |region: &SimRegion, session: u64, n: u64| {
        let at = (session * SLOTS + n) * ENTRY as u64;
        std::array::from_fn(|i| region.load_u64(at + i as u64 * 8))
    };
    Explorer::new(seed).store_sample(4).images_per_point(64).explore(&recorder.finish(), |point, image| {
        recorder.reach("recovery");
        let region = image.region(0);
        let found = recover(|session, n| read(&region, session, n));
        oracle.verify(point.position, &Promise::sync(point.position), &found)
    })
}

#[test]
fn persisted_before_the_answer_nothing_is_lost() {
    let mut total = Statistics::default();
    for seed in 0..40 {
        total += sync_history(seed, true).unwrap_or_else(|failure| panic!("{failure}"));
    }
    assert!(total.histories == 40 && total.images > 4000, "{total}");
    assert!(coverage().iter().any(|(label, n)| *label == "recovery" && *n >= total.images));
}

#[test]
fn answered_before_the_fence_something_is_lost() {
    let failure = sync_history(1, false).unwrap_err();
    assert_eq!(failure.point.crash, Crash::Power);
    assert!(failure.message.contains("must be there"), "{failure}");
}

/// What a device under `batch` does wrong.
#[derive(PartialEq)]
enum Hole {
    Nothing,
    /// One sync of three never happens, and is believed to have.
    SkippedSync,
}

/// `batch` on a block device: an entry fills a page, is answered once written, and is safe from the next sync on.
fn batch_history(seed: u64, hole: Hole) -> Result<Statistics, Box<Failure>> {
    let recorder = Recorder::new();
    let block = recorder.block(vec![0; 2 * SLOTS as usize * IO_ALIGN]);
    let mut oracle = Oracle::new(seed);
    // When a sync was complete, and from when it was under way: what was answered before that is safe.
    let mut syncs: Vec<(usize, usize)> = Vec::new();
    for write in writes(seed, 18) {
        let op = issue(&mut oracle, &recorder, &write);
        let mut page = AlignedBuf::zeroed(IO_ALIGN);
        page[..ENTRY].copy_from_slice(&entry(write.version, write.key, write.value));
        let at = (write.session * SLOTS + write.n) * IO_ALIGN as u64;
        block.write_at(at, &page).unwrap_or_else(|error| panic!("{error}"));
        oracle.acknowledge(op, recorder.acknowledged(op as u64));
        if write.version % 5 == 0 {
            let begun = recorder.position();
            if hole == Hole::Nothing || syncs.len() != 2 {
                block.sync().unwrap_or_else(|error| panic!("{error}"));
            }
            syncs.push((recorder.position(), begun));
        }
    }
    let promise = |point: &CrashPoint| match point.crash {
        Crash::Process => Promise::sync(point.position),
        Crash::Power => {
            let complete = syncs.iter().rev().find(|(complete, _)| *complete <= point.position);
            // These sessions write without reading: a page lost in the middle ends its own log alone.
            Promise { causal: false, ..Promise::batch(complete.map_or(0, |(_, begun)| *begun)) }
        }
    };
    let read = |block: &SimBlock, session: u64, n: u64| {
        let mut page = AlignedBuf::zeroed(IO_ALIGN);
        let read = block.read_at((session * SLOTS + n) * IO_ALIGN as u64, &mut page);
        read.unwrap_or_else(|error| panic!("{error}"));
        std::array::from_fn(|i| u64::from_le_bytes(page.as_chunks::<8>().0[i]))
    };
    let check = |point: &CrashPoint, image: &CrashImage| {
        let block = image.block(0);
        let found = recover(|session, n| read(&block, session, n));
        oracle.verify(point.position, &promise(point), &found)
    };
    Explorer::new(seed).images_per_point(64).explore(&recorder.finish(), check)
}

#[test]
fn the_window_is_lost_and_no_more() {
    let mut total = Statistics::default();
    for seed in 0..20 {
        total += batch_history(seed, Hole::Nothing).unwrap_or_else(|failure| panic!("{failure}"));
    }
    assert!(total.images > 4000, "{total}");
}

#[test]
fn a_skipped_sync_breaks_the_window() {
    let failure = batch_history(2, Hole::SkippedSync).unwrap_err();
    assert!(failure.message.contains("must be there"), "{failure}");
}

#[test]
fn the_trace_knows_its_syncs() {
    let recorder = Recorder::new();
    let (first, second) = (recorder.block(vec![0; IO_ALIGN]), recorder.block(vec![0; IO_ALIGN]));
    recorder.acknowledged(0);
    for block in [&first, &second, &first] {
        block.sync().unwrap();
    }
    let trace = recorder.finish();
    assert_eq!([1, 2, 3, 4].map(|position| trace.last_sync(0, position)), [0, 1, 1, 3]);
    assert_eq!([1, 2, 3, 4].map(|position| trace.last_sync(1, position)), [0, 0, 2, 2]);
}
