//! A store has places for the threads that are asked for, or says how many fit.

use std::path::Path;

use terrace::engine::{Batch, Condition, Expiry, OpKind, Reply};
use terrace::{Options, Place, Tier};

fn options(engine: &str, dir: &Path, memory: Option<&Path>, threads: usize) -> Options {
    Options {
        engine: engine.into(),
        dir: Some(dir.into()),
        dram_records: Some(16 << 20),
        pmem: memory.map(|path| Tier { bytes: 64 << 20, place: Some(Place::Path(path.into())) }),
        ssd: memory.is_none().then_some(Tier { bytes: 64 << 20, place: None }),
        profile: memory.map(|_| "dram".into()),
        threads,
        ..Options::default()
    }
}

#[test]
fn a_small_store_has_places_for_many_threads_or_names_how_many_fit() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    for (engine, place) in [("tac", false), ("hetermm", false), ("tac", true), ("hetermm", true)] {
        let home = tempfile::tempdir().unwrap();
        let memory = memory.path().join(engine);
        let options = |threads, name: &str| {
            let memory = memory.join(name);
            options(engine, &home.path().join(name), place.then_some(&*memory), threads)
        };
        let store = terrace::open(options(40, "many")).unwrap();
        let mut sessions: Vec<_> = (0..41).map(|_| store.session().unwrap()).collect();
        // Each holds its places in the log at once.
        for (i, session) in sessions.iter_mut().enumerate() {
            let mut batch = Batch::new();
            let key = format!("key {i}");
            let value = batch.bytes(&[7; 5000]);
            let kind = OpKind::Set {
                value,
                condition: Condition::Always,
                expiry: Expiry::Clear,
                flags: None,
                old_value: false,
            };
            batch.push(0, key.as_bytes(), kind);
            session.execute(&mut batch);
            let proof = session.wait(&mut batch);
            assert!(matches!(batch.reply(0, &proof), Reply::Stored { .. }), "{engine}: session {i}");
        }
        drop(sessions);
        store.close().unwrap();

        terrace::open(options(1, "few")).unwrap().close().unwrap();
        let refused = terrace::open(options(100, "few")).map(drop).unwrap_err().to_string();
        let fit = refused.split("give --threads ").nth(1).and_then(|rest| rest.split(' ').next());
        let fit: usize = fit.unwrap_or_else(|| panic!("{refused}")).parse().unwrap();
        assert!((2..100).contains(&fit), "{refused}");
        assert!(terrace::open(options(fit + 1, "few")).is_err());
        let store = terrace::open(options(fit, "few")).unwrap();
        let sessions: Vec<_> = (0..fit + 1).map(|_| store.session().unwrap()).collect();
        drop(sessions);
        store.close().unwrap();

        let refused = terrace::open(options(200, "none")).map(drop).unwrap_err().to_string();
        assert!(
            refused.contains("--threads ") && refused.contains(if place { "--pmem" } else { "--ssd" }),
            "{refused}"
        );
    }
}
