//! What nodes have let go, and nodes that are none any more, after power was lost: nothing of it comes back, and nothing is written over
//! that may be needed.

use std::iter::once;

use terrace_engine::{Batch, OpKind};
use terrace_media_sim::trace::{SiteId, Trace};
use terrace_media_sim::{Crash, Explorer, SimRegion};

use super::repaired::{SLOT_BYTES, is_free, pages_of_nodes, slots_of, word};
use super::support::*;

/// From the start of a slot to its commit word; its first line has that, and a copy of all else that says whether there is a node.
const COMMIT_AT: usize = 32;
const LINE_BYTES: usize = 64;

/// The content with the first lines of all free slots gone, and how many those were.
fn without_first_lines(mut bytes: Vec<u8>) -> (Vec<u8>, usize) {
    let free = free_slots(&bytes);
    free.iter().for_each(|slot| bytes[*slot..][..LINE_BYTES].fill(0));
    (bytes, free.len())
}

/// Power is lost at the end, and the first lines of free slots are: each key is what it was.
fn lost_lines_bring_nothing_back(trace: &Trace, expected: &States, least: usize) {
    let end = trace.len();
    crash_within(trace, once(end..end + 1), 60, |_, image| {
        let (bytes, gone) = without_first_lines(image.region(0).to_bytes());
        assert!(gone > least, "{gone} slots are free");
        let store = open_again(SimRegion::from_image(bytes));
        let keys = expected.keys().filter(|key| !key.starts_with("first"));
        let found = states(&mut Client::of(&*store), keys);
        let count = expected.values().flatten().count() as u64;
        if found != *expected {
            return Err(format!("{found:?}"));
        }
        (store.len(0) == count).then_some(()).ok_or_else(|| format!("{} keys are counted", store.len(0)))
    });
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("k{i:02}")).collect()
}

/// A process dies in a round, in which nodes come and others end. The next one lets go of those that do not count, and makes the round
/// again.
#[test]
fn nodes_of_a_round_that_was_cut_off_are_none_even_without_their_first_lines() {
    use_nodes();
    let life = Life::new();
    let [mut a] = life.clients();
    let (keys, later) = (keys(24), keys(40).split_off(24));
    keys.iter().for_each(|key| a.set(key, value("old")));
    rest(&*life.store);
    keys[..8].iter().for_each(|key| a.set(key, value("new")));
    keys[16..20].iter().for_each(|key| a.set(key, None));
    later.iter().for_each(|key| a.set(key, value("new")));
    let std::ops::Range { start: from, end } = life.a_round();
    let expected = states(&mut a, keys.into_iter().chain(later));
    let trace = life.recorder.finish();
    let explorer = Explorer::new(1).within(once(from..end).collect()).only(Crash::Process).store_sample(0);
    let explored = explorer.explore(&trace, |_, image| {
        let (recorder, copy) = image.recording(Crash::Process);
        drop(open_again(copy.region(0)));
        lost_lines_bring_nothing_back(&recorder.finish(), &expected, 0);
        Ok::<_, String>(())
    });
    let tried = explored.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tried.images > 10, "{tried}");
}

/// A flush forgets all keys, and their nodes go, without a root that says so.
#[test]
fn nodes_that_a_flush_has_emptied_are_none_even_without_their_first_lines() {
    use_nodes();
    let life = Life::new();
    let mut a = life.client();
    let keys = keys(40);
    keys.iter().for_each(|key| a.set(key, value("old")));
    rest(&*life.store);
    let mut flush = Batch::new();
    flush.push(0, &[], OpKind::Flush { db: None });
    assert!(a.run(&mut flush).is_some());
    rest(&*life.store);
    assert_eq!(detail(&*life.store, "bonsai_nodes"), 0);
    keys.iter().step_by(16).for_each(|key| a.set(key, value("new")));
    rest(&*life.store);
    let expected = states(&mut a, keys);
    lost_lines_bring_nothing_back(&life.recorder.finish(), &expected, 3);
}

/// Slots of nodes that are free.
fn free_slots(bytes: &[u8]) -> Vec<usize> {
    let slots = pages_of_nodes(bytes).into_iter().flat_map(slots_of);
    slots.filter(|slot| is_free(word(bytes, slot + COMMIT_AT))).collect()
}

/// A process dies in a round, or while cleaning moves nodes. The next one lets go of nodes that have ended and of older copies, and its own
/// cleaning writes others there. Whatever words are safe when power is lost in that: of each key's nodes one is.
#[test]
fn nodes_are_let_go_once_those_that_have_taken_their_place_are_safe() {
    use_nodes();
    let life = Life::new();
    let [mut a] = life.clients();
    let mut live = 0;
    while free_pages(&*life.store) > 13 {
        a.set(&format!("live{live}"), filled("live", 150));
        rest(&*life.store);
        live += 1;
    }
    let keys = keys(90);
    keys.iter().for_each(|key| a.set(key, value("there")));
    rest(&*life.store);
    keys.iter().enumerate().filter(|(i, _)| i % 6 > 0).for_each(|(_, key)| a.set(key, None));
    let std::ops::Range { start: from, end } = life.a_round();
    let expected = states(&mut a, keys.clone());
    let trace = life.recorder.finish();
    let (mut let_go, mut cleaned, mut last) = (0, 0, Vec::new());
    let explorer = Explorer::new(1).within(once(from..end).collect()).only(Crash::Process).store_sample(0);
    let explored = explorer.explore(&trace, |_, image| {
        let (recorder, copy) = image.recording(Crash::Process);
        let bytes = copy.region(0).to_bytes();
        let before = free_slots(&bytes).len();
        if bytes == std::mem::replace(&mut last, bytes.clone()) {
            return Ok(());
        }
        let store = open_again(copy.region(0));
        let after = free_slots(&copy.region(0).to_bytes()).len();
        if after <= before {
            return Ok(());
        }
        let_go += 1;
        steps(&*store, 12);
        cleaned += detail(&*store, "scm_cleaned_pages");
        drop(store);
        let again = recorder.finish();
        let of_nodes = |site: &SiteId| again.site(*site).0.file().ends_with("nodes/reopen.rs");
        let opened = again.sites().into_iter().filter(of_nodes).flat_map(|site| again.executions(site)).min();
        crash_strictly(&again, once(opened.unwrap()..again.len() + 1), 8, |_, image| {
            let store = open_again(image.region(0));
            let seen = states(&mut Client::of(&*store), keys.clone());
            let other = expected.iter().find(|(key, state)| seen[*key] != **state);
            other.map_or(Ok(()), |(key, state)| Err(format!("{key} is {:?}, and was {state:?}", seen[key])))
        });
        Ok::<_, String>(())
    });
    let tried = explored.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(let_go > 5 && cleaned > 3, "{tried}, {let_go}, {cleaned}");
}

/// The text of a fence is damaged, and an opening makes it anew from a key that begins so. Then all such keys go, and power is lost: the text
/// is safe by then.
#[test]
fn the_text_of_a_fence_that_was_made_anew_outlives_the_keys_that_told_it() {
    use_nodes();
    let life = Life::new();
    let mut a = life.client();
    let stem = "what many keys begin with: ";
    let keys: Vec<_> = (0..40).map(|i| format!("{stem}{i:02}")).collect();
    keys.iter().for_each(|key| a.set(key, value("there")));
    rest(&*life.store);
    drop(a);
    let mut bytes = life.region.to_bytes();
    // Of a node whose keys begin in two ways, where no other slot begins in the line with the text.
    let text_of = |first: &usize| {
        let fence = keys[*first].as_bytes();
        let slots = pages_of_nodes(&bytes).into_iter().flat_map(slots_of);
        let mut texts = slots
            .filter(|slot| !is_free(word(&bytes, slot + COMMIT_AT)))
            .map(|slot| slot + SLOT_BYTES - fence.len().next_multiple_of(8));
        texts.find(|at| bytes[*at..].starts_with(fence) && (at + LINE_BYTES / 2).is_multiple_of(LINE_BYTES))
    };
    let first = [8, 28].into_iter().find(|first| text_of(first).is_some()).unwrap();
    let text = text_of(&first).unwrap();
    bytes[text + 2] ^= 4;
    let life = Life::from(bytes);
    let mut a = life.client();
    keys[first..first + 2].iter().for_each(|key| a.set(key, None));
    rest(&*life.store);
    let expected = states(&mut a, keys.clone());
    let trace = life.recorder.finish();
    let end = trace.len();
    crash_within(&trace, once(end..end + 1), 20, |_, image| {
        let found = states(&mut Client::of(&*open_again(image.region(0))), keys.clone());
        (found == expected).then_some(()).ok_or_else(|| format!("{found:?}"))
    });
}
