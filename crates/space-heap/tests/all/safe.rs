//! What is safe by when, where the histories of the crash sweep show nothing: what an offline check reads, what several threads of
//! an opening have read, and what an opening undoes.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use terrace_engine::record::Kind as RecordKind;
use terrace_engine::{Progress, Store};
use terrace_media::AnyRegion;
use terrace_media_sim::trace::{Position, Trace};
use terrace_media_sim::{Crash, CrashImage, Explorer, Model, SimRegion};
use terrace_space_heap::inspect::{Chunk, Described, Inspector};
use terrace_space_heap::stored_bytes;

use super::schedules::{Life, PAGE_BYTES, State, read, value};
use super::{ALL, Kind, STORE_ID, geometry, store, store_read_by};

/// The heaps without an index.
const HYBRID: [Kind; 2] = [ALL[0], ALL[1]];
/// Of each line any prefix of its stores survives: so many images are all that there are, while a record is stored.
const PREFIXES: (Model, u64) = (Model::Prefix, 1024);
/// Of each line any of its words survive.
const WORDS: (Model, u64) = (Model::Strict, 16);

fn inspector(region: SimRegion, kind: Kind) -> Inspector<SimRegion> {
    Inspector::new(Arc::new(region), 0, geometry((PAGE_BYTES, kind)), STORE_ID).unwrap()
}

fn states<const N: usize>(store: &dyn Store, keys: [&str; N]) -> [State; N] {
    let mut session = store.session().unwrap();
    keys.map(|key| read(&mut *session, key))
}

/// Crashes in a range, each with so many images, and checks what is left; how many.
fn crash_in(
    trace: &Trace,
    within: Range<Position>,
    (crash, (model, images)): (Crash, (Model, u64)),
    check: impl FnMut(&CrashImage) -> Result<(), String>,
) -> u64 {
    let explorer = Explorer::new(3).only(crash).model(model).store_sample(1).minimise(false);
    let mut check = check;
    let explored = explorer
        .within(std::iter::once(within).collect())
        .images_per_point(images)
        .explore(trace, |_, image| check(image));
    explored.unwrap_or_else(|failure| panic!("{failure:?}")).images
}

/// What `terrace check` asks of a value.
#[test]
fn a_record_that_counts_has_all_parts_of_its_value_whatever_a_crash_leaves() {
    for kind in HYBRID {
        let large = |byte: u8| Some((0..4000u32).map(|at| at as u8 ^ byte).collect::<Vec<u8>>());
        let mut life = Life::new(kind);
        // A session that goes on has chunks for its records, and makes nothing else durable between the value and its record.
        let mut session = life.store.session().unwrap();
        life.step_of(&mut *session, &[("a", large(1))]);
        life.step_of(&mut *session, &[("a", large(2))]);
        life.step_of(&mut *session, &[("a", large(3)), ("b", large(4))]);
        life.step_of(&mut *session, &[("b", None)]);
        life.step_of(&mut *session, &[("a", value("short"))]);
        drop(session);
        drop(life.store);
        let trace = life.recorder.finish();
        let mut values = 0;
        crash_in(&trace, 0..trace.len() + 1, (Crash::Power, PREFIXES), |image| {
            let inspector = inspector(image.region(0), kind);
            let sessions = inspector.sessions();
            // Of each key the newest record counts.
            let mut newest: HashMap<Vec<u8>, (u64, Option<Described>)> = HashMap::new();
            for page in 0..inspector.pages() {
                inspector.chunks(&inspector.read(page), &sessions, |_, chunk| {
                    if let Chunk::Record { front, view: Some(view) } = chunk {
                        let described = Described::decode(view.value);
                        let is_large = view.head.meta.kind() == RecordKind::Extent;
                        let record = (front.version, described.filter(|_| is_large));
                        let known = newest.entry(view.key.to_vec()).or_default();
                        if record.0 > known.0 {
                            *known = record;
                        }
                    }
                });
            }
            let found: Vec<Described> = newest.into_values().filter_map(|(_, described)| described).collect();
            for described in &found {
                let (mut bytes, most) = (Vec::new(), described.bytes as usize);
                let is_part = |part: &u64| inspector.read_part(*part, described.number, most, &mut bytes);
                if !described.parts.iter().all(is_part) || bytes.len() != most {
                    return Err(format!("of value {} parts are missing", described.number));
                }
            }
            values += found.len();
            Ok(())
        });
        assert!(values > 100, "{kind:?}: {values} values were read");
    }
}

/// A process dies with a record in caches alone. Whoever opens the store answers with it, and power is lost: it stays.
#[test]
fn what_a_thread_of_an_opening_has_read_is_safe() {
    for kind in HYBRID {
        let long = |byte: u8| Some(vec![byte; 300]);
        let mut life = Life::new(kind);
        // In other pages than the first, which the thread that opens reads itself.
        for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            life.step(&[(key, long(1))]);
        }
        let from = life.recorder.position();
        life.step(&[("late", long(2))]);
        let to = life.recorder.position();
        drop(life.store);
        let mut there = 0;
        crash_in(&life.recorder.finish(), from..to, (Crash::Process, WORDS), |image| {
            let (recorder, copy) = image.recording(Crash::Process);
            let store = open_with_two(copy.region(0), kind);
            let [seen] = states(&*store, ["late"]);
            there += u64::from(seen.is_some());
            let end = recorder.position();
            crash_in(&recorder.finish(), end..end + 1, (Crash::Power, WORDS), |image| {
                let [found] = states(&*self::store(image.region(0), (PAGE_BYTES, kind), false), ["late"]);
                (found == seen).then_some(()).ok_or_else(|| format!("{found:?} after {seen:?} was read"))
            });
            Ok(())
        });
        assert!(there > 0, "{kind:?}: no process died with the record stored");
    }
}

/// Opens a store with two threads, of which this one reads a page and leaves the others to the second.
fn open_with_two(region: SimRegion, kind: Kind) -> Box<dyn Store> {
    let mine = std::thread::current().id();
    let (all_read, told, has_waited) = (Mutex::new(false), Condvar::new(), AtomicBool::new(false));
    let progress = |done: u64, all: u64| {
        let mut all_read = all_read.lock().unwrap();
        *all_read |= done == all;
        told.notify_all();
        if std::thread::current().id() == mine && !has_waited.swap(true, Relaxed) {
            // A thread that fails never says so: the end of the wait is for that alone.
            drop(told.wait_timeout_while(all_read, Duration::from_secs(10), |all_read| !*all_read));
        }
    };
    store_read_by(region, (PAGE_BYTES, kind), false, (2, &progress))
}

/// A step that did not count was to remove a record. An opening gives that its hash back, in whatever order words survive.
#[test]
fn a_record_that_a_step_would_have_removed_stays_however_often_power_is_lost() {
    for kind in HYBRID {
        crash_a_removal(kind, |recorded, seen| {
            crash_in(&recorded, 0..recorded.len() + 1, (Crash::Power, WORDS), |image| {
                let found = states(&*store(image.region(0), (PAGE_BYTES, kind), false), KEYS);
                (found == *seen).then_some(()).ok_or_else(|| format!("{found:?} after {seen:?} was found"))
            });
        });
    }
}

/// Nor is it dying any more: a bit of its hash that goes bad would make that the version of a step that counts.
#[test]
fn a_record_that_a_step_would_have_removed_is_not_dying_after_an_opening() {
    for kind in HYBRID {
        let mut rotten = 0;
        crash_a_removal(kind, |recorded, seen| {
            let end = recorded.len();
            crash_in(&recorded, end..end + 1, (Crash::Power, WORDS), |image| {
                let region = image.region(0);
                let inspector = inspector(region.clone(), kind);
                let sessions = inspector.sessions();
                let newest = sessions.intents.iter().flatten().max().copied().unwrap();
                let mut records = Vec::new();
                for page in 0..inspector.pages() {
                    inspector.chunks(&inspector.read(page), &sessions, |offset, chunk| {
                        if matches!(chunk, Chunk::Record { .. }) {
                            records.push(geometry((PAGE_BYTES, kind)).front_bytes() + offset);
                        }
                    });
                }
                for at in &records {
                    let rot = SimRegion::from_image(region.to_bytes());
                    rot.scribble(at + 8, &newest.to_le_bytes());
                    let found = states(&*store(rot, (PAGE_BYTES, kind), false), KEYS);
                    if found != *seen {
                        return Err(format!("{found:?} after {seen:?} was found, and rot"));
                    }
                }
                rotten += records.len();
                Ok(())
            });
        });
        assert!(rotten > 10, "{kind:?}: {rotten} records went bad");
    }
}

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Loses power in a step that removes a record and makes two, opens what is left, and shows what that stored and answered.
fn crash_a_removal(kind: Kind, mut show: impl FnMut(Trace, &[State; 5])) {
    let mut life = Life::new(kind);
    life.step(&[("a", value("1"))]);
    life.step(&[("c", value("1")), ("d", value("1"))]);
    let from = life.recorder.position();
    // Of two records, so that no run is stored: the one that there is names the chunk of the record that goes.
    life.step(&[("a", None), ("b", value("2")), ("e", value("2"))]);
    let to = life.recorder.position();
    drop(life.store);
    crash_in(&life.recorder.finish(), from..to, (Crash::Power, WORDS), |image| {
        let (recorder, copy) = image.recording(Crash::Power);
        let store = store(copy.region(0), (PAGE_BYTES, kind), false);
        let seen = states(&*store, KEYS);
        show(recorder.finish(), &seen);
        Ok(())
    });
}

/// Power is lost between the two copies of how long the heap is. Whoever opens it makes both what one of them says: that one which
/// it has gone by itself.
#[test]
fn openings_that_are_cut_off_agree_on_how_long_the_heap_is() {
    for kind in HYBRID {
        let stored = |region: SimRegion| {
            stored_bytes(&AnyRegion::of(region), 0, geometry((PAGE_BYTES, kind)), STORE_ID).unwrap()
        };
        let mut life = Life::new(kind);
        life.step(&[("a", value("1"))]);
        let from = life.recorder.position();
        for bytes in [30 << 10, 36 << 10] {
            life.store.resize_tier("pmem", bytes).unwrap();
            while life.store.step() == Progress::Worked {}
        }
        let to = life.recorder.position();
        drop(life.store);
        let mut lengths = HashSet::new();
        crash_in(&life.recorder.finish(), from..to, (Crash::Power, WORDS), |image| {
            let (recorder, copy) = image.recording(Crash::Power);
            let bytes = stored(copy.region(0));
            drop(store(copy.region(0), (PAGE_BYTES, kind), false));
            let recorded = recorder.finish();
            crash_in(&recorded, 0..recorded.len() + 1, (Crash::Power, WORDS), |image| {
                let found = stored(image.region(0));
                (found == bytes).then_some(()).ok_or_else(|| format!("{found} bytes after {bytes}"))
            });
            lengths.insert(bytes);
            Ok(())
        });
        assert_eq!(lengths.len(), 3, "{kind:?}: {lengths:?}");
    }
}
