//! Crashes everywhere in seeded histories that fill slots, let them go and give slabs to other classes.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_blocks::FooterEntry;
use terrace_engine::Buffer;
use terrace_engine::record::{Kind, Lifetime, NewRecord};
use terrace_engine::space::{Fetch, Want};
use terrace_index::Key;
use terrace_media_sim::{
    Crash, CrashImage, CrashPoint, Explorer, Model, Position, Recorder, Rng, SimRegion, Trace, set_actor,
};

use super::layout::{SlabHeader, SlotPlace};
use super::medium::Area;
use super::slab::{Fills, PmemSlabs};

const SLAB: usize = 2048;
const SLABS: usize = 3;
const LONGEST: usize = 1000;

/// When a record came to a slot, and when it left.
#[derive(Clone, Copy, Debug)]
struct Stay {
    version: u64,
    at: u64,
    /// Nothing of it was there before.
    begun: Position,
    /// It must be there from here on.
    filled: Position,
    /// It must be there up to here.
    leaving: Position,
    /// It must not be there from here on.
    left: Position,
}

fn slabs(region: &SimRegion) -> PmemSlabs {
    let area = Area::new(Arc::new(region.clone()), 256, (SLAB * SLABS) as u64, String::new());
    PmemSlabs::new(Box::new(area), SLAB, LONGEST, 77, false)
}

fn blank() -> Vec<u8> {
    vec![0; 256 + SLAB * SLABS]
}

fn value(version: u64) -> Vec<u8> {
    vec![version as u8; (version as usize * 211) % 880]
}

fn hash(version: u64) -> u64 {
    version << 40 | version
}

fn entry_of(hash: u64, check: u32, version: u64) -> FooterEntry {
    FooterEntry { hash, version, check, offset: 0, kind: Kind::Value, db: 0, life: Lifetime::NEVER }
}

fn fill(slabs: &PmemSlabs, versions: &[u64]) -> Vec<(u64, u64)> {
    let mut fills = Fills::default();
    let mut filled = Vec::new();
    for &version in versions {
        let (kind, db, value) = (Kind::Value, 0, value(version));
        let key = version.to_le_bytes();
        let record = NewRecord {
            version,
            kind,
            db,
            flags: 0,
            state: 0,
            expire_at: 0,
            token: 0,
            key: &key,
            value: &value,
        };
        let Some(at) = slabs.class_for(record.words()).and_then(|class| slabs.take(class)) else { continue };
        let entry = entry_of(hash(version), version as u32, version);
        slabs.add(&mut fills, at, &entry, version as u8, &record);
        filled.push((version, at));
    }
    // Whoever formatted a slab need not be who fills it.
    set_actor(1);
    slabs.fill(&fills);
    set_actor(0);
    filled
}

fn run(seed: u64) -> (Trace, Vec<Stay>) {
    let recorder = Recorder::new();
    let region = recorder.region(blank());
    let slabs = slabs(&region);
    set_actor(0);
    slabs.make();
    let created = recorder.position();
    let (mut rng, mut version, mut stays) = (Rng::new(seed), seed * 1000, Vec::<Stay>::new());
    for _ in 0..30 {
        let here = |stay: &Stay| stay.leaving == Position::MAX;
        let there = stays.iter().filter(|stay| here(stay)).count();
        if there > 0 && rng.below(16) < there as u64 {
            // All of them at times, so that slabs change class.
            let all = rng.one_in(3);
            let leaving = recorder.position();
            let mut slots = Vec::new();
            for stay in stays.iter_mut().filter(|stay| here(stay)) {
                if all || rng.one_in(3) {
                    (stay.leaving, _) = (leaving, slots.push(stay.at));
                    slabs.let_go(stay.at);
                }
            }
            slabs.clear(&slots);
            let left = recorder.position();
            stays.iter_mut().filter(|stay| stay.leaving == leaving).for_each(|stay| stay.left = left);
        } else {
            let versions: Vec<u64> = (0..=rng.below(3)).map(|n| version + n + 1).collect();
            version += versions.len() as u64;
            let begun = recorder.position();
            let filled = fill(&slabs, &versions);
            let position = recorder.position();
            let (leaving, left) = (Position::MAX, Position::MAX);
            stays.extend(filled.into_iter().map(|(version, at)| Stay {
                version,
                at,
                begun,
                filled: position,
                leaving,
                left,
            }));
        }
    }
    let mut trace = recorder.finish();
    assert_eq!(trace.strays().len(), 0);
    trace.truncate(trace.len());
    // Before that there is no store.
    stays.insert(0, Stay { version: 0, at: 0, begun: created, filled: 0, leaving: 0, left: 0 });
    (trace, stays)
}

/// What an opening finds, all of it whole.
fn open(region: &SimRegion) -> Result<(PmemSlabs, BTreeMap<u64, u64>), String> {
    let slabs = slabs(region);
    let mut heads = Vec::new();
    let damaged = slabs.scan(&mut |at, head| heads.push((at, *head))).map_err(|error| error.to_string())?;
    if let Some((at, head)) = damaged.first() {
        return Err(format!("the slot at {at} is damaged: {head:?}"));
    }
    let mut found = BTreeMap::new();
    for (at, head) in heads {
        let bytes = head.version.to_le_bytes();
        let key = Key { hash: head.hash, db: 0, bytes: &bytes };
        let mut out = Buffer::new();
        let fetched = slabs.fetch(at, Some(&key), Want::Value, &mut out);
        let right = (head.hash, head.check, head.temperature)
            == (hash(head.version), head.version as u32, head.version as u8);
        if !matches!(fetched, Fetch::Match(found) if found.version == head.version)
            || !right
            || out != value(head.version)
        {
            return Err(format!("version {} is not whole: {fetched:?}", head.version));
        }
        slabs.adopt(at);
        found.insert(at, head.version);
    }
    slabs.clear_unadopted();
    Ok((slabs, found))
}

fn judge(stays: &[Stay], position: Position, found: &BTreeMap<u64, u64>) -> Result<(), String> {
    for stay in stays {
        let there = found.get(&stay.at) == Some(&stay.version);
        if there && (position < stay.begun || position >= stay.left) {
            return Err(format!("{stay:?} is there"));
        }
        if !there && position >= stay.filled && position <= stay.leaving {
            return Err(format!("{stay:?} is missing"));
        }
    }
    match found.values().find(|version| !stays.iter().any(|stay| stay.version == **version)) {
        Some(version) => Err(format!("version {version} was never written")),
        None => Ok(()),
    }
}

fn check(stays: &[Stay], point: &CrashPoint, image: &CrashImage, nested: bool) -> Result<(), String> {
    if point.position < stays[0].begun {
        return Ok(());
    }
    let stays = &stays[1..];
    if nested {
        return crash_again(stays, point, image);
    }
    let region = image.region(0);
    let (slabs, found) = open(&region)?;
    judge(stays, point.position, &found)?;
    // It goes on, over whatever fill or format was torn.
    let more = [1 << 30, (1 << 30) + 1, (1 << 30) + 2, (1 << 30) + 3];
    let filled = fill(&slabs, &more);
    drop(slabs);
    let (_, again) = open(&region)?;
    let expected = found.into_iter().chain(filled.into_iter().map(|(version, at)| (at, version)));
    (again == expected.collect()).then_some(()).ok_or_else(|| "opening again finds something else".into())
}

/// Opens a copy and goes on; crashes that everywhere. What was found once may not go any more.
fn crash_again(stays: &[Stay], point: &CrashPoint, image: &CrashImage) -> Result<(), String> {
    let (recorder, copy) = image.recording(point.crash);
    let region = copy.region(0);
    set_actor(0);
    let (slabs, found) = open(&region)?;
    judge(stays, point.position, &found)?;
    let opened = recorder.position();
    let filled = fill(&slabs, &[1 << 30, (1 << 30) + 1]);
    let done = recorder.position();
    let explorer = Explorer::new(1).images_per_point(8).only(Crash::Power).minimise(false);
    let explored = explorer.explore(&recorder.finish(), |point, image| {
        let (_, again) = open(&image.region(0))?;
        for (at, version) in &found {
            if point.position >= opened && again.get(at) != Some(version) {
                return Err(format!("version {version} was found, and is gone"));
            }
        }
        for (version, at) in &filled {
            if point.position >= done && again.get(at) != Some(version) {
                return Err(format!("version {version} is missing"));
            }
        }
        Ok(())
    });
    explored.map(|_| ()).map_err(|failure| format!("crash after opening: {failure:?}"))
}

/// Explores; every so manyth image crashes again.
fn explore(seed: u64, explorer: &Explorer, again: u64) -> Result<u64, String> {
    let (trace, stays) = run(seed);
    let mut nth = 0;
    let explored = explorer.explore(&trace, |point, image| {
        nth += 1;
        check(&stays, point, image, nth % again == 0)
    });
    explored.map(|statistics| statistics.images).map_err(|failure| format!("seed {seed}: {failure:?}"))
}

#[test]
fn fills_and_clears_and_formats_are_atomic() {
    for model in [Model::Prefix, Model::Strict] {
        let mut images = 0;
        for seed in 1..5 {
            let explorer = Explorer::new(seed).model(model).images_per_point(16).store_sample(4);
            match explore(seed, &explorer, 32) {
                Ok(explored) => images += explored,
                Err(failure) => panic!("{model:?}, {failure}"),
            }
        }
        assert!(images > 2000, "{images} images");
    }
}

#[test]
fn slabs_change_class_in_these_histories() {
    let classes: usize = (1..5)
        .map(|seed| {
            let (_, stays) = run(seed);
            let mut of_slab: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
            for stay in &stays[1..] {
                let key = stay.version.to_le_bytes();
                let words = terrace_engine::record::words_for(key.len(), value(stay.version).len(), false);
                of_slab.entry(stay.at / SLAB as u64).or_default().push(words * 8 / 256);
            }
            of_slab
                .values_mut()
                .map(|all| {
                    all.dedup();
                    all.len() - 1
                })
                .sum::<usize>()
        })
        .sum();
    assert!(classes > 10, "{classes}");
}

#[test]
fn every_flush_and_fence_is_needed() {
    let (trace, _) = run(1);
    let mut sites = trace.sites();
    sites.retain(|&site| trace.site_name(site).contains("pmem"));
    assert!(sites.len() >= 14, "{:?}", sites.iter().map(|&site| trace.site_name(site)).collect::<Vec<_>>());
    for site in sites {
        let seen = (1..5).any(|seed| {
            [Model::Prefix, Model::Strict].into_iter().any(|model| {
                let explorer =
                    Explorer::new(seed).model(model).images_per_point(16).store_sample(4).minimise(false);
                explore(seed, &explorer.without_site(site), 1 << 40).is_err()
            })
        });
        // The first line of a store is made before there is one.
        assert!(
            seen || trace.site_name(site).contains("medium.rs"),
            "{} is not missed",
            trace.site_name(site)
        );
    }
}

/// A planted mistake: the commit word is stored with the rest of the slot, in one fence.
#[test]
fn a_commit_word_in_the_first_fence_is_seen() {
    let recorder = Recorder::new();
    let region = recorder.region(blank());
    let slabs = slabs(&region);
    slabs.make();
    let class = slabs.class_for(60).unwrap();
    let at = slabs.take(class).unwrap();
    let created = recorder.position();
    let place = SlotPlace { seq: 1, slab: 0, offset: 256 };
    assert_eq!(at, 256);
    let (kind, db, version, value) = (Kind::Value, 0, 5u64, value(5));
    let key = version.to_le_bytes();
    let record =
        NewRecord { version, kind, db, flags: 0, state: 0, expire_at: 0, token: 0, key: &key, value: &value };
    let entry = entry_of(hash(version), version as u32, version);
    let mut bytes = Vec::new();
    place.encode(&entry, version as u8, &record, &mut bytes);
    bytes[..8].copy_from_slice(&place.commit(version).to_le_bytes());
    terrace_media::ByteRegion::write_nt(&region, 256 + at, &bytes);
    terrace_media::ByteRegion::fence(&region);
    let explored = Explorer::new(1).store_sample(1).explore(&recorder.finish(), |point, image| {
        if point.position < created { Ok(()) } else { open(&image.region(0)).map(|_| ()) }
    });
    assert!(explored.is_err(), "a commit word without its record");
}

#[test]
fn damage_is_told_apart() {
    let filled = || {
        let region = SimRegion::from_image(blank());
        let slabs = slabs(&region);
        slabs.make();
        let filled = fill(&slabs, &[5, 6]);
        (region, filled)
    };
    let opened = |region: &SimRegion| {
        let slabs = slabs(region);
        let mut found = 0;
        slabs.scan(&mut |_, _| found += 1).map(|damaged| (found, damaged)).map_err(|error| error.to_string())
    };
    let (region, all) = filled();
    assert_eq!(opened(&region).unwrap(), (2, Vec::new()));
    // Its commit word: the record is known and damaged.
    let (version, at) = all[0];
    region.rot(256 + at, 1);
    let (found, damaged) = opened(&region).unwrap();
    assert_eq!(
        (found, damaged.len(), damaged[0].1.version, damaged[0].1.hash),
        (1, 1, version, hash(version))
    );
    let slabs = slabs(&region);
    slabs.scan(&mut |_, _| {}).unwrap();
    let bytes = version.to_le_bytes();
    let key = Key { hash: hash(version), db: 0, bytes: &bytes };
    let fetched = slabs.fetch(at, Some(&key), Want::Value, &mut Buffer::new());
    assert!(matches!(fetched, Fetch::Damaged(head) if head.version == version), "{fetched:?}");
    // Its value.
    let (region, all) = filled();
    region.rot(256 + all[0].1 + 80, 1);
    assert_eq!(opened(&region).unwrap().0, 2, "which only a read finds out");
    let slabs = super::sweep::slabs(&region);
    slabs.scan(&mut |_, _| {}).unwrap();
    let fetched = slabs.fetch(all[0].1, Some(&key), Want::Value, &mut Buffer::new());
    assert!(matches!(fetched, Fetch::Damaged(head) if head.version == version), "{fetched:?}");
    // Its hash, the whole of its head, a slab's header, the whole of that, its first word.
    let lines = |at: u64| (at..at + 64).collect::<Vec<_>>();
    let at = all[0].1;
    for (bytes, zero) in [
        (vec![at + 8], false),
        (lines(at), true),
        (vec![16], false),
        (lines(0), true),
        ((0..8).collect(), true),
    ] {
        let (region, _) = filled();
        for &byte in &bytes {
            if zero { region.scribble(256 + byte, &[0]) } else { region.rot(256 + byte, 1) }
        }
        assert!(opened(&region).is_err_and(|error| error.contains("nobody can tell")), "{bytes:?}");
    }
    // A header of no use at all, and one of another store.
    let other = SlabHeader { store_id: 78, seq: 1, slab: 0, granules: 1 };
    let (region, _) = filled();
    region.scribble(256, &other.encode());
    assert!(opened(&region).is_err());
}
