//! BonsaiKV's schedules, one test each, and what was found beside them. The third, of replicas on other nodes, waits for those.

use std::collections::BTreeSet;
use std::iter::once;
use std::sync::Arc;

use terrace_engine::Expiry;
use terrace_media_sim::SimRegion;
use terrace_media_sim::trace::Position;
use terrace_space_scm_log::inspect::examine_ordered;

use super::support::*;

/// From the start of a node to its commit word, to its first fingerprints, and to its entries: `docs/formats/scm.md`.
const COMMIT_AT: usize = 32;
const FPS_AT: usize = 48;
const ENTRIES_AT: usize = 128;

/// Where the node starts of which this is the smallest key. One of up to eight bytes stands there as a number.
fn node_of(bytes: &[u8], key: &str) -> usize {
    let mut padded = [0; 8];
    padded[..key.len()].copy_from_slice(key.as_bytes());
    let word = u64::from_be_bytes(padded).to_le_bytes();
    bytes.windows(8).position(|window| window == word).unwrap() - ENTRIES_AT
}

/// A puts a key and B deletes it, or writes it over. The checkpoint takes the entry out, and B's log lets go of what it knows while A's
/// stays: redoing A's brings the key back.
#[test]
fn bonsai_1_what_was_deleted_or_written_over_does_not_come_back() {
    for (older, newer) in [("v1", None), ("v1", value("v2")), ("a longer value, in the log", None)] {
        use_nodes();
        let life = Life::new();
        let [mut a, mut b] = life.clients();
        a.set("k", value(older));
        b.set("k", newer.clone());
        let (from, used) = (life.position(), life.store.stats().log.unwrap().used_bytes);
        let others: Vec<_> = (0..13).map(|i| format!("other{i}")).collect();
        others.iter().for_each(|other| b.set(other, filled("other", 150)));
        rest(&*life.store);
        let left = life.store.stats().log.unwrap().used_bytes;
        assert!(left <= used, "B's block has left its chain: {left} of {used}");
        let end = life.position() + 1;
        let trace = life.recorder.finish();
        let tried = crash_within(&trace, once(from..end), 2, |_, image| {
            let region = image.region(0);
            let store = open_again(region.clone());
            let seen = states(&mut Client::of(&*store), once("k".into()).chain(others.clone()));
            if seen["k"] != newer {
                return Err(format!("{:?}", seen["k"]));
            }
            stays(&region, store, &seen, 2)
        });
        assert!(tried.images > 50, "{tried}");
    }
}

/// A's older version sits in its buffer while B publishes a newer one, and then A publishes its own: the newer one stays.
#[test]
fn bonsai_2_an_older_version_that_is_published_later_replaces_nothing() {
    for newer in [value("v2"), None] {
        use_nodes();
        let life = Life::new();
        let [mut other, a, mut b] = life.clients();
        other.set("k", value("v0"));
        rest(&*life.store);
        let held = write_held(a, &[("k", value("v1"))]);
        b.write_in_vain(&[("k", newer.clone())]);
        steps(&*life.store, 60);
        let from = life.position();
        held.go_on();
        let published = life.position();
        rest(&*life.store);
        assert_eq!(other.get("k"), newer);
        let end = life.position() + 1;
        let trace = life.recorder.finish();
        let mut outcomes = BTreeSet::new();
        let tried = crash_within(&trace, once(from..end), 20, |position, image| {
            let region = image.region(0);
            let store = open_again(region.clone());
            let seen = states(&mut Client::of(&*store), ["k"]);
            if seen["k"] != newer && (position >= published || seen["k"] != value("v0")) {
                return Err(format!("{:?}", seen["k"]));
            }
            outcomes.insert(seen["k"].clone());
            stays(&region, store, &seen, 2)
        });
        assert!(tried.images > 50 && outcomes.len() == 2, "{tried}, {outcomes:?}");
    }
}

/// Parts of a large value are free once a checkpoint knows that another one counts, and are written over while the logs still tell of both.
#[test]
fn bonsai_4_parts_that_are_used_again_damage_no_value_that_counts() {
    use_nodes();
    let life = Life::new();
    let [mut a, mut b] = life.clients();
    let large = |i: usize| filled(&format!("{i}. "), 1500);
    let mut written: Vec<Position> = Vec::new();
    let mut parts = Vec::new();
    for i in 0..40 {
        let from = life.position();
        if i % 2 == 0 { &mut a } else { &mut b }.set("large", large(i));
        written.push(life.recorder.acknowledged(i as u64));
        let cleaned = detail(&*life.store, "scm_cleaned_pages");
        rest(&*life.store);
        if detail(&*life.store, "scm_cleaned_pages") > cleaned {
            parts.push(from..life.position() + 1);
        }
    }
    assert!(parts.len() > 3, "pages are to be used again: {parts:?}");
    let trace = life.recorder.finish();
    let last = parts.split_off(parts.len() - 3);
    let tried = crash_within(&trace, last, 2, |position, image| {
        let region = image.region(0);
        let store = open_again(region.clone());
        let seen = states(&mut Client::of(&*store), ["large"]);
        let answered = written.iter().filter(|at| **at <= position).count();
        if seen["large"] != large(answered - 1) && seen["large"] != large(answered) {
            return Err(format!("it is not what it was after {answered} writes"));
        }
        stays(&region, store, &seen, 2)
    });
    assert!(tried.images > 100, "{tried}");
}

/// A crash within a node's update, between entry, fingerprint and commit word: the node says what it did or what it is to say, and so do its
/// fingerprints, which an opening takes as they are.
#[test]
fn bonsai_5_a_crash_within_an_update_leaves_the_node_whole() {
    use_nodes();
    crash_within_an_update(4, 100);
}

/// The same where fingerprints are in another line than the commit word.
#[test]
fn bonsai_5_a_crash_within_an_update_leaves_a_long_node_whole() {
    use_long_nodes();
    crash_within_an_update(20, 50);
}

/// Of so many keys one is written over, one goes, and another one comes. There are more crash images than so many.
fn crash_within_an_update(count: usize, images: u64) {
    let life = Life::new();
    let [mut a, mut b] = life.clients();
    let keys: Vec<_> = (0..=count).map(|i| format!("k{i:02}")).collect();
    keys[..count].iter().for_each(|key| a.set(key, value("old")));
    rest(&*life.store);
    a.set(&keys[1], value("new"));
    b.set(&keys[2], None);
    b.set(&keys[count], value("new"));
    let round = life.a_round();
    let trace = life.recorder.finish();
    let mut expected = vec![value("old"); count];
    (expected[1], expected[2]) = (value("new"), None);
    expected.push(value("new"));
    let tried = crash_within(&trace, once(round), 60, |_, image| {
        let region = image.region(0);
        let found = examine_ordered(Arc::new(region.clone()), 0, (geometry(), STORE_ID), HASHER, &|_, _| {});
        if found.nodes.fingerprints > 0 {
            return Err("fingerprints are not those of entries".into());
        }
        let store = open_again(region.clone());
        let seen = states(&mut Client::of(&*store), keys.clone());
        if keys.iter().zip(&expected).any(|(key, state)| seen[key] != *state) {
            return Err(format!("{seen:?}"));
        }
        stays(&region, store, &seen, 2)
    });
    assert!(tried.images > images, "{tried}");
}

/// Fingerprints that are damaged are made anew from the entries.
#[test]
fn bonsai_5_damaged_fingerprints_are_made_anew() {
    use_nodes();
    let life = Life::new();
    let mut a = life.client();
    let keys = ["k0", "k1", "k2", "k3"];
    // The last one comes to the node that the others have made.
    for some in [&keys[..3], &keys[3..]] {
        some.iter().for_each(|key| a.set(key, value("there")));
        rest(&*life.store);
    }
    drop(a);
    life.store.close().unwrap();
    let whole = life.region.to_bytes();
    let fps = node_of(&whole, "k0") + FPS_AT;
    for i in 0..keys.len() {
        let mut bytes = whole.clone();
        bytes[fps + i] ^= 0x5a;
        let region = SimRegion::from_image(bytes);
        let store = open_again(region.clone());
        let mut client = Client::of(&*store);
        keys.iter().for_each(|key| assert_eq!(client.get(key), value("there"), "{key}, fingerprint {i}"));
        assert_eq!(region.to_bytes()[fps..][..8], whole[fps..][..8], "fingerprint {i}");
    }
}

/// A group of the log is torn: all of a step is there, or nothing.
#[test]
fn bonsai_6_a_torn_group_is_none() {
    use_nodes();
    let life = Life::new();
    let [mut a, mut b] = life.clients();
    let keys = ["s0", "s1", "s2", "s3", "s4"];
    let before = keys.map(|key| (key, value("before")));
    let after = keys.map(|key| (key, filled(key, if key == "s4" { 8 } else { 170 })));
    a.write(&before);
    rest(&*life.store);
    let mut batch = writes(&after, Expiry::Clear);
    let held = held_before(GROUPS, 0, move || a.0.execute(&mut batch));
    b.set("beside", value("it"));
    steps(&*life.store, 60);
    let trace = life.recorder.finish();
    let mut outcomes = BTreeSet::new();
    power_lost(&trace, |image| {
        let region = image.region(0);
        let store = open_again(region.clone());
        let seen = states(&mut Client::of(&*store), keys.into_iter().chain(["beside"]));
        let is = |all: &[(&str, State)]| all.iter().all(|(key, state)| seen[*key] == *state);
        if !is(&before) && !is(&after) || seen["beside"] != value("it") {
            return Err("a part of it is there".into());
        }
        outcomes.insert(is(&after));
        stays(&region, store, &seen, 170)
    });
    assert_eq!(outcomes.len(), 2, "it was torn in some crashes, and whole in another");
    held.go_on();
}

/// A node is gone whose keys were counted, and the log writes all of them again: they were counted twice.
#[test]
fn keys_of_a_node_that_is_gone_are_counted_once() {
    use_nodes();
    let life = Life::new();
    let mut a = life.client();
    let keys = ["k0", "k1", "k2", "k3"];
    keys.iter().for_each(|key| a.set(key, value("there")));
    rest(&*life.store);
    let gone = |region: &SimRegion| {
        let mut bytes = region.to_bytes();
        let node = node_of(&bytes, "k0");
        bytes[node + COMMIT_AT] ^= 4;
        open_again(SimRegion::from_image(bytes))
    };
    let store = gone(&life.region);
    let mut client = Client::of(&*store);
    let mut batch = writes(&[], Expiry::Clear);
    batch.push(0, b"k0", terrace_engine::OpKind::Get { value: true });
    let proof = client.run(&mut batch).unwrap();
    assert_eq!(format!("{:?}", batch.reply(0, &proof)), "Error(Poisoned)", "nobody knows what it was");
    keys.iter().for_each(|key| a.set(key, value("again")));
    let store = gone(&life.region);
    let mut client = Client::of(&*store);
    keys.iter().for_each(|key| assert_eq!(client.get(key), value("again"), "{key}"));
    assert_eq!(store.len(0), keys.len() as u64);
}

/// Fences that are too long for a node have slots of their own: an opening must not take those for free.
#[test]
fn texts_of_long_fences_outlive_an_opening() {
    use_nodes();
    let life = Life::new();
    let mut a = life.client();
    let key = |i: usize| format!("{}{i:03}", "what many keys begin with, ".repeat(5));
    (0..12).for_each(|i| a.set(&key(i), value("there")));
    rest(&*life.store);
    let region = SimRegion::from_image(life.region.to_bytes());
    let store = open_again(region.clone());
    let mut client = Client::of(&*store);
    for i in 12..40 {
        client.set(&key(i), value("there"));
        rest(&*store);
    }
    let store = open_again(SimRegion::from_image(region.to_bytes()));
    let mut client = Client::of(&*store);
    (0..40).for_each(|i| assert_eq!(client.get(&key(i)), value("there"), "{i}"));
}

/// What is in the slots that such fences take is safe before a node counts that has one.
#[test]
fn texts_of_long_fences_are_safe_before_their_nodes_count() {
    use_nodes();
    let life = Life::new();
    let mut a = life.client();
    let keys: Vec<_> =
        (0..20).map(|i| format!("{}{i:03}", "what many keys begin with, ".repeat(5))).collect();
    keys[..12].iter().for_each(|key| a.set(key, value("there")));
    rest(&*life.store);
    keys[12..].iter().for_each(|key| a.set(key, value("there")));
    let round = life.a_round();
    let trace = life.recorder.finish();
    let tried = crash_within(&trace, once(round), 30, |_, image| {
        let store = open_again(image.region(0));
        let mut client = Client::of(&*store);
        let lost = keys.iter().find(|key| client.get(key) != value("there"));
        lost.map_or(Ok(()), |key| Err(format!("{key} is lost")))
    });
    assert!(tried.images > 100, "{tried}");
}
