//! Stores of engine `bonsai` on several NUMA nodes, which are emulated: threads are said to be on one or the other.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use terrace::{Coherence, OpenStore, Options};
use terrace_media::settle;

use super::{Home, fill, verify};

/// Short records: those that nodes have themselves.
const SHORT: u32 = 4000;
const HOW: [Coherence; 3] = [Coherence::SelfInvalidate, Coherence::Invalidate, Coherence::Update];

fn options(home: &Home, names: &[&str], nodes: u32, coherence: Coherence) -> Options {
    Options { nodes: Some(nodes), coherence, ..home.options("bonsai", names) }
}

fn detail(store: &OpenStore, name: &str) -> u64 {
    let stats = store.stats();
    let of = stats.engine_details.iter().find(|(detail, _)| *detail == name);
    of.unwrap_or_else(|| panic!("nothing is told of {name}")).1
}

fn short(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// Puts all short records, and waits until nodes have them.
fn put_all(store: &OpenStore, value: u32) {
    (0..SHORT).for_each(|i| store.set(&short(i), &value.to_le_bytes()).unwrap());
    wait_for_rounds(store);
}

/// Waits until no round has come for a while: an idle store makes one of all that it has.
fn wait_for_rounds(store: &OpenStore) {
    let (mut rounds, mut quiet) = (0, 0);
    for _ in 0..600 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let now = detail(store, "scm_rounds");
        quiet = if now == rounds { quiet + 1 } else { 0 };
        rounds = now;
        if quiet == 20 && rounds > 0 {
            return;
        }
    }
    panic!("rounds never end");
}

#[test]
fn what_is_read_often_is_read_at_home() {
    let Some(home) = Home::new() else { return };
    for coherence in HOW {
        for names in [&["a", "b"][..], &["c", "d", "e", "f"]] {
            let store = terrace::open(options(&home, names, 2, coherence)).unwrap();
            let told = store.description.join("\n");
            assert!(
                told.contains("devices on 2 NUMA nodes (emulated: threads take turns) in strips"),
                "{told}"
            );
            fill(&store);
            put_all(&store, 1);
            for node in [0, 1] {
                settle(node);
                for _ in 0..4 {
                    (0..SHORT).for_each(|i| assert_eq!(store.get(&short(i)).unwrap().unwrap(), [1, 0, 0, 0]));
                }
            }
            assert!(detail(&store, "bonsai_copy_reads") > u64::from(SHORT), "{coherence:?}");
            verify(&store);
            // And what was copied is found changed.
            for value in 2..4_u32 {
                put_all(&store, value);
                for node in [0, 1] {
                    settle(node);
                    for i in (0..SHORT).chain(0..SHORT) {
                        assert_eq!(
                            store.get(&short(i)).unwrap().unwrap(),
                            value.to_le_bytes(),
                            "{coherence:?}"
                        );
                    }
                }
            }
            store.close().unwrap();
            let store = terrace::open(options(&home, names, 2, coherence)).unwrap();
            verify(&store);
            assert_eq!(store.get(&short(7)).unwrap().unwrap(), 3_u32.to_le_bytes());
            store.close().unwrap();
            home.check(names).unwrap();
            home.forget();
            names.iter().for_each(|name| std::fs::remove_dir_all(home.0.path().join(name)).unwrap());
        }
    }
}

#[test]
fn readers_on_both_nodes_find_values_that_only_rise() {
    let Some(home) = Home::new() else { return };
    for coherence in HOW {
        let names = ["a", "b"];
        let store = terrace::open(options(&home, &names, 2, coherence)).unwrap();
        put_all(&store, 0);
        let (written, ends) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|node| {
                    let (store, written, ends) = (&store, &written, &ends);
                    scope.spawn(move || {
                        settle(node);
                        let mut i = node;
                        while !ends.load(Relaxed) {
                            // Few keys, so that they are copied again and again.
                            i = (i * 5 + 1) % 64;
                            let least = written.load(Acquire);
                            let found = store.get(&short(i)).unwrap().unwrap();
                            let found = u32::from_le_bytes(found[..].try_into().unwrap());
                            assert!(found >= least, "{coherence:?}: {found} after {least} of all keys");
                        }
                    })
                })
                .collect();
            for value in 1..400_u32 {
                (0..64).for_each(|i| store.set(&short(i), &value.to_le_bytes()).unwrap());
                written.store(value, Release);
                // So that nodes have them now and then.
                (64..SHORT / 4).for_each(|i| store.set(&short(i), &value.to_le_bytes()).unwrap());
            }
            ends.store(true, Relaxed);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        store.close().unwrap();
        home.forget();
        names.iter().for_each(|name| std::fs::remove_dir_all(home.0.path().join(name)).unwrap());
    }
}

#[test]
fn writers_write_on_their_own_node() {
    let Some(home) = Home::new() else { return };
    let store = terrace::open(options(&home, &["a", "b"], 2, Coherence::default())).unwrap();
    let long = [7; 2000];
    settle(1);
    (0..3000_u32).for_each(|i| store.set(&short(i), &long).unwrap());
    store.close().unwrap();
    let count = |name: &str| {
        let bytes = std::fs::read(home.file(name)).unwrap();
        bytes.chunks(256).filter(|strip| strip.iter().filter(|byte| **byte == 7).count() > 200).count()
    };
    let (away, here) = (count("a"), count("b"));
    assert!(here > 5 * away, "{away} strips of the other node, {here} of the writer's");
}

#[test]
fn what_makes_no_nodes_is_refused() {
    let Some(home) = Home::new() else { return };
    let refused = |options: Options| terrace::open(options).err().unwrap().to_string();
    let three = refused(options(&home, &["a", "b", "c"], 2, Coherence::default()));
    assert!(three.contains("--nodes 2 with 3 places"), "{three}");
    let scmkv = Options { nodes: Some(2), ..home.options("scmkv", &["a", "b"]) };
    assert!(refused(scmkv.clone()).contains("engine scmkv keeps no copies on NUMA nodes"));
    let one = refused(options(&home, &["a"], 2, Coherence::default()));
    assert!(one.contains("--pmem needs a place for each NUMA node"), "{one}");
    let none = refused(options(&home, &["a", "b"], 0, Coherence::default()));
    assert!(none.contains("--nodes 0"), "{none}");
    // A store keeps its nodes.
    home.forget();
    let store = terrace::open(options(&home, &["x", "y"], 2, Coherence::default())).unwrap();
    store.close().unwrap();
    let store = terrace::open(options(&home, &["y", "x"], 1, Coherence::default())).unwrap();
    let told = store.description.join("\n");
    assert!(told.contains("the store keeps its NUMA nodes, 2, where --nodes 1 was given"), "{told}");
    assert!(told.contains("the devices were given in another order"), "{told}");
    store.close().unwrap();
}
