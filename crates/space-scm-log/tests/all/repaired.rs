//! A repair of nodes that a crash cuts off is done again, and what it gives up and mends is the same.

use std::iter::once;
use std::sync::Arc;

use terrace_media_sim::{Crash, Explorer, Recorder, SimRegion};
use terrace_space_scm_log::inspect::{Examined, examine_ordered};
use terrace_space_scm_log::repair::repair_ordered;
use terrace_testkit::rng::Rng;

use super::support::*;

/// docs/formats/scm.md, of an area that begins at byte 0.
const LINES_AT: usize = 512 + 3 * 448;
pub const SLOT_BYTES: usize = 128 + 8 * ENTRY_BYTES;
const ENTRY_BYTES: usize = 28;
const SLOTS: usize = 5;

fn pages_at() -> usize {
    LINES_AT + geometry().pages() * 128 + 128
}

/// Where all slots start that pages may have.
fn slots() -> impl Iterator<Item = usize> {
    (0..geometry().pages()).flat_map(slots_of)
}
/// Where those of a page start.
pub fn slots_of(page: usize) -> impl Iterator<Item = usize> {
    let first = pages_at() + page * geometry().page_bytes + 64;
    (0..SLOTS).map(move |i| first + i * SLOT_BYTES)
}

pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Pages whose lines say that they have nodes.
pub fn pages_of_nodes(bytes: &[u8]) -> Vec<usize> {
    let is_one = |page: &usize| {
        let copies = [0, 64].map(|copy| LINES_AT + page * 128 + copy);
        bytes[copies.into_iter().max_by_key(|at| word(bytes, at + 8)).unwrap() + 16] == 5
    };
    (0..geometry().pages()).filter(is_one).collect()
}

/// Whether a commit word is that of a slot that is free: its halves differ by the same bits whatever the slot.
pub fn is_free(commit: u64) -> bool {
    (commit >> 32) as u32 ^ commit as u32 == crc32c::crc32c(b"free") ^ crc32c::crc32c(b"slot")
}

/// A node's slot and the place of an entry of it that counts and begins with this word.
fn entry_of(bytes: &[u8], is_it: impl Fn(usize) -> bool) -> (usize, usize) {
    let entries = |slot: usize| {
        let commit = word(bytes, slot + 32);
        let counts = move |i: &usize| commit != 0 && !is_free(commit) && commit >> i & 1 == 1;
        (0..8).filter(counts).map(move |i| (slot, slot + 128 + i * ENTRY_BYTES))
    };
    slots().flat_map(entries).find(|(_, at)| is_it(*at)).unwrap()
}

/// The entry of a short key with this value.
fn inline_of(bytes: &[u8], key: &str, value: &str) -> (usize, usize) {
    let padded = |text: &str| {
        let mut word = [0; 8];
        word[..text.len()].copy_from_slice(text.as_bytes());
        word
    };
    let (key, value) = (u64::from_be_bytes(padded(key)), u64::from_le_bytes(padded(value)));
    entry_of(bytes, |at| word(bytes, at) == key && word(bytes, at + 8) == value)
}

/// The entry that leads to the record of a key.
fn reference_of(bytes: &[u8], key: &str) -> (usize, usize) {
    entry_of(bytes, |at| {
        let place = pages_at() + word(bytes, at + 8) as usize;
        let is_reference = bytes[at + 24] & 127 == 81 && place + 200 < bytes.len();
        is_reference && bytes[place..place + 200].windows(key.len()).any(|window| window == key.as_bytes())
    })
}

fn repair(region: &SimRegion) -> Result<Vec<String>, String> {
    repair_ordered(Arc::new(region.clone()), 0, (geometry(), STORE_ID), HASHER)
        .map_err(|error| error.to_string())
}

fn examined(region: &SimRegion) -> Examined {
    examine_ordered(Arc::new(region.clone()), 0, (geometry(), STORE_ID), HASHER, &|_, _| {})
}

/// Repairs it once more, for a crash cut a repair off: it is whole then, and answers this; and stays so, if that is asked for.
fn holds(region: &SimRegion, expected: &States, is_to_stay: bool) -> Result<(), String> {
    repair(region)?;
    let faults = examined(region).faults;
    if !faults.is_empty() {
        return Err(format!("repaired, and there is {faults:?}"));
    }
    let again = repair(region)?;
    if !again.is_empty() {
        return Err(format!("repaired a second time: {again:?}"));
    }
    let store = open_again(region.clone());
    let seen = states(&mut Client::of(&*store), expected.keys().filter(|key| !key.starts_with("first")));
    if let Some((key, _)) = expected.iter().find(|(key, state)| seen[*key] != **state) {
        return Err(format!("{key} is {:?}", seen[key].as_ref().map(Vec::len)));
    }
    let count = expected.values().flatten().count() as u64;
    if store.len(0) != count {
        return Err(format!("{} keys are counted, and there are {count}", store.len(0)));
    }
    if is_to_stay { stays(region, store, &seen, 2) } else { Ok(()) }
}

fn long_key(i: usize) -> String {
    format!("{}{i:02}", "so much is alike ".repeat(8))
}

/// Of every kind of damage something: power is lost wherever the repair stores.
#[test]
fn a_repair_that_a_crash_cuts_off_is_done_again() {
    use_nodes();
    let life = Life::new();
    let [mut a] = life.clients();
    let keys: Vec<String> = (0..24).map(|i| format!("k{i:02}")).collect();
    let all: Vec<String> =
        keys.iter().cloned().chain((0..10).map(long_key)).chain(["record".into()]).collect();
    for key in &keys {
        a.set(key, value("old"));
        a.set(key, value("new"));
    }
    (0..10).for_each(|i| a.set(&long_key(i), value("long")));
    a.set("record", filled("record", 100));
    rest(&*life.store);
    let mut bytes = life.region.to_bytes();
    let mut flip = |at: usize, bit: u32| bytes[at] ^= 1 << bit;
    let whole = life.region.to_bytes();
    let (lost, _) = inline_of(&whole, "k10", "new");
    [lost, lost + 64].into_iter().for_each(|copy| flip(copy + 17, 3));
    let (slot, entry) = inline_of(&whole, "k20", "new");
    assert_ne!(slot, lost);
    flip(entry + 19, 7);
    let (_, entry) = reference_of(&whole, "record");
    flip(entry + 2, 1);
    let texts = slots().filter(|slot| whole[*slot + 48..].starts_with(b"so much is alike so much"));
    texts.for_each(|slot| flip(slot + 50, 0));
    (0..geometry().pages() * 2).for_each(|line| flip(LINES_AT + line * 64 + 17, 2));

    let damaged = bytes;
    let copy = SimRegion::from_image(damaged.clone());
    let done = repair(&copy).unwrap();
    let told = [
        "lines of pages",
        "texts of fences",
        "were made anew from their records",
        "1 damaged entries of nodes were given up",
        "1 nodes were given up",
    ];
    assert!(told.iter().all(|what| done.iter().any(|line| line.contains(what))), "{done:?}");
    let expected = states(&mut Client::of(&*open_again(copy.clone())), all);
    let gone: Vec<_> = expected.iter().filter(|(_, state)| state.is_none()).map(|(key, _)| key).collect();
    assert!(gone.iter().any(|key| *key == "k10") && gone.iter().any(|key| *key == "k20"), "{gone:?}");
    assert!((2..=9).contains(&gone.len()), "a node has eight entries at most: {gone:?}");
    assert!(expected.values().flatten().all(|state| state != b"old"));

    let recorder = Recorder::new();
    let region = recorder.region(damaged);
    repair(&region).unwrap();
    let trace = recorder.finish();
    let tried = crash_within(&trace, once(0..trace.len() + 1), 6, |_, image| {
        holds(&image.region(0), &expected, true)
    });
    assert!(tried.images > 200, "{tried}");
}

/// A process dies in a round, and a node is damaged: what the log has is there, and nothing is as it was before.
#[test]
fn nodes_of_a_round_that_was_cut_off_do_not_count_after_a_repair() {
    // One that the round takes the place of, and one that it leaves alone.
    ["k10", "k21"].into_iter().for_each(cut_off_with_a_damaged_node);
}

fn cut_off_with_a_damaged_node(damaged: &str) {
    use_nodes();
    let life = Life::new();
    let [mut a] = life.clients();
    let keys: Vec<String> = (0..24).map(|i| format!("k{i:02}")).collect();
    keys.iter().for_each(|key| a.set(key, value("old")));
    rest(&*life.store);
    let (lost, _) = inline_of(&life.region.to_bytes(), damaged, "old");
    // Some are written over, some go, and more come, so that nodes are made anew.
    keys[..8].iter().for_each(|key| a.set(key, value("new")));
    keys[16..20].iter().for_each(|key| a.set(key, None));
    let more: Vec<String> = (0..12).map(|i| format!("k{i:02}x")).collect();
    more.iter().for_each(|key| a.set(key, value("new")));
    let std::ops::Range { start: from, end } = life.a_round();
    let trace = life.recorder.finish();
    let mut given_up = 0;
    let explorer = Explorer::new(1).within(once(from..end).collect()).images_per_point(2).store_sample(0);
    let explored = explorer.explore(&trace, |_, image| {
        let mut bytes = image.region(0).to_bytes();
        [lost, lost + 64].into_iter().for_each(|copy| bytes[copy + 17] ^= 8);
        let recorder = Recorder::new();
        let region = recorder.region(bytes.clone());
        given_up += u64::from(!repair(&region)?.is_empty());
        let found = states(
            &mut Client::of(&*open_again(SimRegion::from_image(region.to_bytes()))),
            keys.iter().chain(&more).cloned(),
        );
        let is_new = |key: &String| keys[..8].contains(key) || more.contains(key);
        let wrong = found.iter().find(|(key, state)| match state.as_deref() {
            Some(b"new") => !is_new(key),
            Some(b"old") => is_new(key) || keys[16..20].contains(key),
            Some(_) => !key.starts_with("first"),
            // What the log has of this round is there.
            None => is_new(key),
        });
        if let Some((key, state)) = wrong {
            return Err(format!("{key} is {state:?}"));
        }
        let gone = found.iter().filter(|(key, state)| state.is_none() && !keys[16..20].contains(key)).count();
        if gone > 8 {
            return Err(format!("{gone} keys are gone"));
        }
        let trace = recorder.finish();
        crash_within(&trace, once(0..trace.len() + 1), 2, |_, image| holds(&image.region(0), &found, false));
        Ok(())
    });
    let tried = explored.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tried.images > 20 && given_up > 10, "{tried}, {given_up}");
}

/// A process dies once others have taken the place of nodes, and both words are damaged that say so: nobody can tell, and a repair gives them
/// up. A crash that cuts it off does not bring them back either.
#[test]
fn nodes_that_have_ended_stay_gone_while_a_repair_gives_them_up() {
    use_nodes();
    let life = Life::new();
    let [mut a] = life.clients();
    let keys: Vec<String> = (0..24).map(|i| format!("k{i:02}")).collect();
    keys.iter().for_each(|key| a.set(key, value("old")));
    rest(&*life.store);
    keys.iter().step_by(2).for_each(|key| a.set(key, None));
    let more: Vec<String> = (0..24).map(|i| format!("k{i:02}x")).collect();
    more.iter().for_each(|key| a.set(key, value("new")));
    let std::ops::Range { start: from, end } = life.a_round();
    let trace = life.recorder.finish();
    let (mut given_up, mut last) = (0, Vec::new());
    let explorer = Explorer::new(1).within(once(from..end).collect()).only(Crash::Process).store_sample(0);
    let explored = explorer.explore(&trace, |_, image| {
        let mut bytes = image.region(0).to_bytes();
        if bytes == std::mem::replace(&mut last, bytes.clone()) {
            return Ok(());
        }
        let slots = pages_of_nodes(&bytes).into_iter().flat_map(slots_of);
        let has_end = |slot: &usize| !is_free(word(&bytes, slot + 32)) && word(&bytes, slot + 40) != 0;
        let ended: Vec<usize> = slots.filter(has_end).collect();
        ended.iter().flat_map(|slot| [slot + 40, slot + 96]).for_each(|at| bytes[at] ^= 2);
        let recorder = Recorder::new();
        let region = recorder.region(bytes);
        if repair(&region)?.is_empty() {
            return Ok(());
        }
        given_up += 1;
        let copy = SimRegion::from_image(region.to_bytes());
        let found = states(&mut Client::of(&*open_again(copy)), keys.iter().chain(&more).cloned());
        let trace = recorder.finish();
        crash_within(&trace, once(0..trace.len() + 1), 8, |_, image| holds(&image.region(0), &found, false));
        Ok::<_, String>(())
    });
    let tried = explored.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(given_up > 3, "{tried}, {given_up}");
}

/// Whatever is damaged of nodes and lines of pages: the store opens, and every key is what it was, or not there. Never is it what it was
/// before, and a repair gives up no more than it says.
#[test]
fn a_repair_of_any_damage_brings_nothing_back() {
    use_nodes();
    let life = Life::new();
    let [mut a] = life.clients();
    let keys: Vec<String> = (0..40).map(|i| format!("k{i:02}")).chain((0..10).map(long_key)).collect();
    for (text, length) in [("older", 5), ("old", 40), ("other", 5), ("newest", 6)] {
        for (i, key) in keys.iter().enumerate() {
            a.set(key, filled(text, if i % 3 == 0 { length * 4 } else { length }));
        }
        keys.iter().step_by(7).for_each(|key| a.set(key, None));
        rest(&*life.store);
    }
    let expected = states(&mut a, keys.clone());
    drop(a);
    let whole = life.region.to_bytes();
    let pages = pages_of_nodes(&whole);
    let (mut given_up, mut mended) = (0, 0);
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let mut bytes = whole.clone();
        for _ in 0..1 + rng.below(6) {
            let page = pages[rng.below(pages.len() as u64) as usize];
            let at =
                pages_at() + page * geometry().page_bytes + 64 + rng.below(SLOT_BYTES as u64 * 5) as usize;
            match rng.below(5) {
                0 | 1 => bytes[at] ^= 1 << rng.below(8),
                2 => bytes[at / 64 * 64..][..64].fill(0),
                3 => bytes[at / 8 * 8..][..8].copy_from_slice(&rng.next_u64().to_le_bytes()),
                _ => [0, 64].into_iter().for_each(|copy| bytes[LINES_AT + page * 128 + copy + 20] ^= 1),
            }
        }
        let region = SimRegion::from_image(bytes);
        let done = repair(&region).unwrap();
        let faults = examined(&region).faults;
        assert!(faults.is_empty(), "seed {seed}: {faults:?}, {done:?}");
        let store = open_again(region.clone());
        let seen = states(&mut Client::of(&*store), keys.clone());
        let gone: Vec<_> = expected.iter().filter(|(key, state)| seen[*key] != **state).collect();
        assert!(gone.iter().all(|(key, _)| seen[*key].is_none()), "seed {seed}: {gone:?}, {done:?}");
        let lost = |line: &String| {
            let word = |i: usize| line.split(' ').nth(i).unwrap().parse::<usize>().unwrap();
            if line.contains("nodes were given up, and") {
                word(6)
            } else if line.contains("given up") {
                word(0)
            } else {
                0
            }
        };
        assert!(gone.len() <= done.iter().map(lost).sum(), "seed {seed}: {gone:?}, {done:?}");
        assert_eq!(store.len(0), seen.values().flatten().count() as u64, "seed {seed}: {done:?}");
        given_up += gone.len();
        mended += done.iter().filter(|line| line.contains("anew") || line.contains("set right")).count();
        stays(&region, store, &seen, 2).unwrap();
    }
    assert!(given_up > 100 && mended > 100, "{given_up}, {mended}");
}
