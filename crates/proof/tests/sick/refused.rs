//! Memory and queues that the system refuses, where that is handled: an error, and the store goes on.

#![expect(clippy::unwrap_used, reason = "helpers stop a test by panicking")]

use std::sync::atomic::Ordering::SeqCst;

use terrace::{Options, Tier};
use terrace_engine::{Durability, StoreError};
use terrace_proof::subjects::{SUBJECTS, WITH_BLOCKS};

use crate::failed_sync::{Media, options};

#[test]
fn a_session_without_a_queue_is_refused_and_costs_no_slot() {
    WITH_BLOCKS.iter().for_each(|(engine, _)| is_refused(engine));
}

fn is_refused(engine: &str) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let media = Media::default();
    let store = terrace::open_on(options(engine, dir.path(), Durability::Sync), &media).unwrap();
    store.set(b"key", b"value").unwrap();
    media.no_queues.store(true, SeqCst);
    // More often than there are slots.
    for _ in 0..300 {
        match store.session() {
            Err(StoreError::Io { what, source }) => {
                assert!(!what.is_empty() && source.to_string().contains("no memory for a queue"));
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("a session without a queue"),
        }
    }
    assert_eq!(store.get(b"key").unwrap().unwrap(), b"value", "sessions that are there go on");
    media.no_queues.store(false, SeqCst);
    drop(store.session().unwrap());
    store.close().unwrap();
}

#[test]
fn a_region_that_can_not_be_mapped_is_refused() {
    for (engine, _) in SUBJECTS {
        a_region_is_refused(engine);
    }
}

fn a_region_is_refused(engine: &str) {
    let tier = Some(Tier { bytes: 1 << 60, place: None });
    let options = Options {
        engine: engine.into(),
        dram_records: Some(2 << 20),
        pmem: tier,
        profile: Some("dram".into()),
        durability: Durability::None,
        ..Options::default()
    };
    let error = terrace::open(options).err().unwrap().to_string();
    assert!(error.contains("of memory") && error.contains("os error"), "{error}");
}
