//! Engine `tac` with `--pmem` and `--ssd` together: what is written is in all three tiers, survives a kill and a close, is
//! checked, and neither half is opened without the other.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;

use terrace::check::CheckOptions;
use terrace::engine::StoreError;
use terrace::{OpenStore, Options, Place, Placement, Swap, Tier};

const KEYS: u32 = 60_000;

/// Memory stands in for the device.
fn options(files: &Path, memory: &Path) -> Options {
    Options {
        engine: "tac".into(),
        dir: Some(files.join("store")),
        dram_records: Some(4 << 20),
        pmem: Some(Tier { bytes: 28 << 20, place: Some(Place::Path(memory.to_path_buf())) }),
        ssd: Some(Tier { bytes: 128 << 20, place: None }),
        profile: Some("dram".into()),
        ..Options::default()
    }
}

fn value(i: u32) -> Vec<u8> {
    (0..200 + i % 300).map(|at| (at * 7 + i) as u8).collect()
}

fn all_answer(store: &OpenStore) {
    for i in 0..KEYS {
        assert_eq!(store.get(&i.to_be_bytes()).unwrap().as_deref(), Some(&value(i)[..]), "key {i}");
    }
    assert_eq!(store.get(b"large").unwrap().map(|value| value.len()), Some(300_000));
}

fn keys_checked(dir: &Path) -> u64 {
    let report = terrace::check(dir, &CheckOptions::default()).unwrap();
    assert!(report.is_clean(), "{report}");
    assert!(report.counts.middle_records > 1000, "{report}");
    report.counts.keys
}

fn refused(options: &Options) -> String {
    match terrace::open(options.clone()) {
        Err(StoreError::Options(text)) => text,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("half a store was opened"),
    }
}

#[test]
fn placements_need_the_engine_and_the_tiers_that_they_are_about() {
    let files = tempfile::tempdir().unwrap();
    let placed = |placement| Options {
        placement: Some(placement),
        pmem: None,
        profile: None,
        ..options(files.path(), files.path())
    };
    let error = refused(&placed(Placement::AntiNvm));
    assert!(error.contains("anti-nvm") && error.contains("--pmem SIZE@PATH and --ssd SIZE"), "{error}");
    let error = refused(&Options { engine: "hetermm".into(), ..placed(Placement::Tac) });
    assert!(error.contains("hetermm has no placements") && error.contains("--engine tac"), "{error}");
    let policy = "sieve".parse().ok();
    let error =
        refused(&Options { engine: "hetermm".into(), policy, placement: None, ..placed(Placement::Tac) });
    assert!(error.contains("hetermm has no policies") && error.contains("--engine tac"), "{error}");
    let swapped = |swap, placement, ssd| {
        let all = options(files.path(), files.path());
        refused(&Options {
            swap: Some(swap),
            placement,
            ssd: if ssd { all.ssd.clone() } else { None },
            ..all
        })
    };
    let error = swapped(Swap::Buf, None, false);
    assert!(error.contains("about the SSD") && error.contains("--ssd SIZE"), "{error}");
    let error = swapped(Swap::Buf, Some(Placement::AntiTuple), true);
    assert!(error.contains("swaps by tuple"), "{error}");
    let hetermm =
        Options { engine: "hetermm".into(), swap: Some(Swap::Tuple), ..options(files.path(), files.path()) };
    assert!(refused(&hetermm).contains("hetermm has no ways of swapping"));
    // With two tiers all are the same: what is meant anyway may be said.
    terrace::open(placed(Placement::Tac)).unwrap().close().unwrap();
}

#[test]
fn a_store_on_both_kinds_of_media() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let files = tempfile::tempdir().unwrap();
    let options = options(files.path(), memory.path());
    let dir = files.path().join("store");
    let store = terrace::open(options.clone()).unwrap();
    for i in 0..KEYS {
        store.set(&i.to_be_bytes(), &value(i)).unwrap();
    }
    store.set(b"large", &vec![7; 300_000]).unwrap();
    all_answer(&store);
    let tiers = store.stats().tiers;
    let names: Vec<_> = tiers.iter().map(|tier| tier.tier).collect();
    assert_eq!(names, ["dram", "pmem", "ssd"]);
    assert!(tiers.iter().all(|tier| tier.records > 1000), "{tiers:?}");
    assert!(tiers[1..].iter().all(|tier| tier.hits > 1000), "{tiers:?}");
    store.kill();
    assert_eq!(keys_checked(&dir), u64::from(KEYS) + 1);

    let store = terrace::open(options.clone()).unwrap();
    all_answer(&store);
    store.close().unwrap();
    assert_eq!(keys_checked(&dir), u64::from(KEYS) + 1);

    // One placement's store is another's.
    let other = Options {
        placement: Some(Placement::Anti2),
        policy: "s3-fifo".parse().ok(),
        swap: Some(Swap::Buf),
        ..options.clone()
    };
    let store = terrace::open(other).unwrap();
    assert!(
        store.description[0].ends_with("placement anti-2, policy s3-fifo/all, swap buf"),
        "{:?}",
        store.description
    );
    all_answer(&store);
    assert!(store.stats().engine_details.contains(&("records_from_pmem_to_dram", 0)), "never in this one");
    store.close().unwrap();

    // Neither half alone, and not with another store's.
    assert!(refused(&Options { pmem: None, profile: None, ..options.clone() }).contains("give --pmem"));
    assert!(refused(&Options { ssd: None, ..options.clone() }).contains("give --ssd"));
    let elsewhere = Options { dir: Some(files.path().join("other")), ..options.clone() };
    assert!(refused(&elsewhere).contains("holds a store"));
    let Ok(empty) = tempfile::tempdir_in("/dev/shm") else { return };
    let blank = self::options(files.path(), empty.path());
    assert!(
        matches!(terrace::open(blank.clone()), Err(StoreError::Corrupt(text)) if text.contains("is missing"))
    );
    let file = std::fs::File::create(empty.path().join("pmem")).unwrap();
    file.set_len(28 << 20).unwrap();
    assert!(matches!(terrace::open(blank), Err(StoreError::Corrupt(text)) if text.contains("is blank")));

    let store = terrace::open(options).unwrap();
    all_answer(&store);
    store.close().unwrap();
}
