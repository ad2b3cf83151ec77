//! The explorer against a second, slower reading of the rules: for random histories of one line both must find the same
//! set of images.

use std::collections::{BTreeMap, BTreeSet};

use terrace_media::ByteRegion;
use terrace_media_sim::{Crash, Explorer, PointKind, Recorder, Rng, set_actor};

type Line = Vec<u8>;

/// Every content that the line may have, in the order in which it had them.
struct Naive {
    states: Vec<Line>,
    /// By actor: the number of states that its last flush wrote back.
    flushed: BTreeMap<u32, usize>,
    durable: usize,
}

impl Naive {
    fn survivors(&self) -> BTreeSet<Line> {
        self.states[self.durable..].iter().cloned().collect()
    }
}

#[test]
fn prefix_images_are_the_contents_since_the_last_flushed_and_fenced_one() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let recorder = Recorder::new();
        let region = recorder.region(vec![0; 64]);
        let mut naive = Naive { states: vec![vec![0; 64]], flushed: BTreeMap::new(), durable: 0 };
        // The survivors after each fence, by position.
        let mut expected = BTreeMap::new();
        for _ in 0..40 {
            let actor = rng.below(2) as u32;
            set_actor(actor);
            match rng.below(8) {
                0..4 => {
                    // Aligned words, so that one store is one state.
                    let (word, value) = (rng.below(8), rng.below(3));
                    region.store_u64(word * 8, value);
                    let mut line = naive.states.last().unwrap().clone();
                    line[word as usize * 8..][..8].copy_from_slice(&value.to_le_bytes());
                    naive.states.push(line);
                }
                4..6 => {
                    region.flush(rng.below(60), 4);
                    naive.flushed.insert(actor, naive.states.len() - 1);
                }
                _ => {
                    region.fence();
                    let flushed = naive.flushed.remove(&actor).unwrap_or(0);
                    naive.durable = naive.durable.max(flushed);
                    expected.insert(recorder.position(), naive.survivors());
                }
            }
        }
        let live = region.to_bytes();
        let trace = recorder.finish();
        let mut found: BTreeMap<usize, BTreeSet<Line>> = BTreeMap::new();
        let explorer = Explorer::new(seed).store_sample(0);
        let check = |point: &terrace_media_sim::CrashPoint, image: &terrace_media_sim::CrashImage| {
            let bytes = image.region(0).to_bytes();
            if point.position == trace.len() && point.crash == Crash::Process {
                assert_eq!(bytes, live, "the process's death keeps everything");
            }
            if point.kind == PointKind::AfterFence && point.crash == Crash::Power {
                found.entry(point.position).or_default().insert(bytes);
            }
            Ok::<(), String>(())
        };
        explorer.explore(&trace, check).unwrap();
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[test]
fn unaligned_stores_of_threads_end_as_they_are_in_memory() {
    let recorder = Recorder::new();
    let region = recorder.region(vec![0; 1024]);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let region = region.clone();
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for _ in 0..300 {
                    // Each thread owns every third run of five bytes: neighbours share words and lines.
                    let at = (rng.below(68) * 3 + thread) * 5;
                    region.write(at, &rng.bits().to_le_bytes()[..5]);
                    if rng.one_in(3) {
                        region.flush(at, 5);
                    }
                    if rng.one_in(9) {
                        region.fence();
                    }
                }
            });
        }
    });
    let live = region.to_bytes();
    let trace = recorder.finish();
    let explorer = Explorer::new(0).store_sample(0).images_per_point(4);
    let mut ends = 0;
    let check = |point: &terrace_media_sim::CrashPoint, image: &terrace_media_sim::CrashImage| {
        if point.position == trace.len() && point.crash == Crash::Process {
            ends += 1;
            assert_eq!(image.region(0).to_bytes(), live);
        }
        Ok::<(), String>(())
    };
    explorer.explore(&trace, check).unwrap();
    assert_eq!(ends, 1);
}
