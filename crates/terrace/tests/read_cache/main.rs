//! The read cache of engine `hetermm`: what comes up, what it must never do, and how it and writers share DRAM.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use terrace::{OpenStore, Options, Place, ReadCache, Tier};

const MIB: u64 = 1 << 20;
const DRAM: u64 = 4 * MIB;
const KEYS: u32 = 15_000;
/// Of the first that were written, so that nothing but a cache has them in DRAM.
const HOT: u32 = 1_500;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Medium {
    Pmem,
    Ssd,
}

fn options(dir: &Path, medium: Medium, cache: ReadCache) -> Options {
    let tier = Some(Tier { bytes: 24 * MIB, place: Some(Place::Path(dir.into())) });
    let (pmem, ssd) = if medium == Medium::Pmem { (tier, None) } else { (None, tier) };
    Options {
        engine: "hetermm".into(),
        dir: Some(dir.into()),
        dram_records: Some(DRAM),
        profile: pmem.is_some().then(|| "dram".into()),
        pmem,
        ssd,
        read_cache: Some(cache),
        ..Options::default()
    }
}

/// Stores on each kind of media that there is here, with records of some 900 bytes, three times as many as DRAM holds.
fn filled(cache: ReadCache) -> Vec<(tempfile::TempDir, Options, OpenStore)> {
    let fill = |medium| {
        let dir = match medium {
            Medium::Pmem => tempfile::tempdir_in("/dev/shm").ok()?,
            Medium::Ssd => tempfile::tempdir().unwrap(),
        };
        let options = options(dir.path(), medium, cache);
        let store = terrace::open(options.clone()).unwrap();
        (0..KEYS).for_each(|i| store.set(&key(i), &value(i, 0)).unwrap());
        Some((dir, options, store))
    };
    [Medium::Pmem, Medium::Ssd].into_iter().filter_map(fill).collect()
}

fn key(i: u32) -> Vec<u8> {
    format!("key:{i}").into_bytes()
}

fn value(i: u32, version: u32) -> Vec<u8> {
    format!("[{i}:{version}]").into_bytes().repeat(80 + (i % 40) as usize)
}

fn detail(store: &OpenStore, name: &str) -> u64 {
    let details = store.stats().engine_details;
    details.iter().find(|(of, _)| *of == name).unwrap_or_else(|| panic!("{name}: {details:?}")).1
}

/// Gets what is hot; the share of it that DRAM answered.
fn read_hot(store: &OpenStore) -> f64 {
    let before = store.stats().tiers[0].hits;
    for i in 0..HOT {
        assert!(store.get(&key(i)).unwrap() == Some(value(i, 0)), "{i}");
    }
    (store.stats().tiers[0].hits - before) as f64 / f64::from(HOT)
}

/// Waits for background steps: a store does not tell when it has nothing left to do.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_read_below_dram_comes_up() {
    for (_dir, _, store) in filled(ReadCache::Gated) {
        until("hot records are in DRAM", || read_hot(&store) > 0.99);
        let stats = store.stats();
        assert!(stats.dram_other_bytes <= DRAM + MIB / 2, "{} bytes", stats.dram_other_bytes);
        let [pages, of_page, beside] =
            ["pages", "page_bytes", "cache_table_bytes"].map(|name| detail(&store, name));
        assert!(beside > 0 && pages * of_page + beside <= DRAM, "{pages} pages and {beside} bytes");
        store.set_read_cache(ReadCache::Off).unwrap();
        until("pages are given back", || detail(&store, "pages_cached") == 0);
        assert!(read_hot(&store) < 0.01, "there is no cache any more");
        store.set_read_cache(ReadCache::Gated).unwrap();
        until("hot records are in DRAM again", || read_hot(&store) > 0.99);
        store.close().unwrap();
    }
}

#[test]
fn without_one_reads_change_nothing() {
    for (_dir, _, store) in filled(ReadCache::Off) {
        (0..3).for_each(|_| assert!(read_hot(&store) < 0.01));
        assert_eq!((detail(&store, "cache_admitted"), detail(&store, "pages_cached")), (0, 0));
    }
}

#[test]
fn of_sampled_reads_one_of_so_many_comes_up() {
    for (_dir, _, store) in filled("sampled:10".parse().unwrap()) {
        until("a frame was there", || {
            read_hot(&store);
            detail(&store, "cache_admitted") > 0
        });
        let before = (detail(&store, "cache_admitted"), store.stats().tiers[1].hits);
        (0..5).for_each(|_| _ = read_hot(&store));
        let after = (detail(&store, "cache_admitted"), store.stats().tiers[1].hits);
        let (admitted, missed) = (after.0 - before.0, after.1 - before.1);
        // Fewer where there is no frame for a moment.
        assert!(admitted <= missed / 10 + 1 && admitted > missed / 40, "{admitted} of {missed}");
    }
}

#[test]
fn what_was_written_since_is_read() {
    for (_dir, options, store) in filled(ReadCache::Gated) {
        until("hot records are in DRAM", || read_hot(&store) > 0.99);
        for i in (0..HOT).filter(|i| i % 2 == 0) {
            if i % 4 == 0 {
                assert!(store.delete(&key(i)).unwrap())
            } else {
                store.set(&key(i), &value(i, 1)).unwrap()
            }
        }
        let expected = |i: u32| match i % 4 {
            0 => None,
            2 => Some(value(i, 1)),
            _ => Some(value(i, 0)),
        };
        let is_right = |store: &OpenStore| (0..HOT).all(|i| store.get(&key(i)).unwrap() == expected(i));
        assert!(is_right(&store));
        // Their pages are written down, and they are read from there.
        (HOT..KEYS).for_each(|i| store.set(&key(i), &value(i, 2)).unwrap());
        assert!((0..3).all(|_| is_right(&store)));
        store.kill();
        assert!(is_right(&terrace::open(options).unwrap()));
    }
}

#[test]
fn writers_get_pages_back() {
    for (_dir, _, store) in filled(ReadCache::Gated) {
        until("the cache has more than half of DRAM", || {
            // More than half of what DRAM holds, and less than all.
            (0..2 * HOT).for_each(|i| assert!(store.get(&key(i)).unwrap().is_some()));
            detail(&store, "pages_cached") * 2 > detail(&store, "pages")
        });
        let cached = detail(&store, "pages_cached");
        for version in 1..4 {
            (0..KEYS / 2).for_each(|i| store.set(&key(i), &value(i, version)).unwrap());
        }
        let left = detail(&store, "pages_cached");
        assert!(left * 2 < cached, "{left} of {cached}");
        assert!(
            (0..KEYS)
                .all(|i| store.get(&key(i)).unwrap() == Some(value(i, if i < KEYS / 2 { 3 } else { 0 })))
        );
    }
}

/// Blocks are freed and used again while copies of what was in them are there.
#[test]
fn no_copy_outlives_its_record() {
    for (_dir, _, store) in filled(ReadCache::Gated) {
        let mut versions: HashMap<u32, Option<u32>> = (0..KEYS).map(|i| (i, Some(0))).collect();
        let mut random = 9u64;
        for round in 0..60_000u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (of, what) = ((random >> 33) as u32, random >> 20 & 15);
            // Half of all is about what is hot.
            let i = if of & 1 == 0 { (of >> 1) % HOT } else { (of >> 1) % KEYS };
            match what {
                0..=2 => {
                    store.set(&key(i), &value(i, round)).unwrap();
                    versions.insert(i, Some(round));
                }
                3 => {
                    assert_eq!(store.delete(&key(i)).unwrap(), versions[&i].is_some());
                    versions.insert(i, None);
                }
                _ => {
                    let expected = versions[&i].map(|version| value(i, version));
                    assert!(store.get(&key(i)).unwrap() == expected, "{i} in round {round}");
                }
            }
        }
        let counts = ["cache_admitted", "cache_left", "blocks_reused"].map(|name| detail(&store, name));
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    }
}

#[test]
fn other_engines_have_none() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { engine: "tac".into(), ..options(dir.path(), Medium::Ssd, ReadCache::Gated) };
    let text = terrace::open(options.clone()).err().unwrap().to_string();
    assert!(text.contains("engine tac has no read cache") && text.contains("--read-cache gated"), "{text}");
    let store = terrace::open(Options { read_cache: None, ..options }).unwrap();
    assert_eq!(store.read_cache(), None);
    assert!(store.set_read_cache(ReadCache::Off).unwrap_err().to_string().contains("no read cache"));
}
