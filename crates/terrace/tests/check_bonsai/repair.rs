//! `--repair`: what is damaged is made anew from what is whole, or given up and counted; all else stays.

use crate::made::*;

const ENDS: [u64; 2] = [40, 96];

#[test]
fn lines_of_pages_are_made_anew() {
    for close in [true, false] {
        let Some(made) = made(close) else { return };
        let pages = made.check().counts.heap.unwrap().pages;
        (0..2 * pages).for_each(|line| made.flip(LINES_AT + line * LINE_BYTES + 17, 3));
        assert!(made.tells("the store does not open").problem_count() >= pages);
        let report = made.repaired(&[&format!("{pages} lines of pages were made anew: ")]);
        assert!(!report.to_string().contains(" 0 of nodes"), "{report}");
        made.holds_but(|_| false);
    }
}

#[test]
fn an_entry_that_leads_to_a_record_is_made_anew() {
    let Some(made) = made(true) else { return };
    // The hash of its key, where it leads, its version, what it is, its check.
    for (byte, bit) in [(2, 0), (10, 6), (17, 3), (24, 1), (27, 7)] {
        let (slot, i) = made.reference_of(record(39));
        made.flip(slot + META_BYTES + i * ENTRY_BYTES + byte, bit);
        made.tells(&format!("entry {i}: damaged; its key answers an error"));
        made.repaired(&["1 damaged entries of nodes were made anew from their records"]);
        made.holds_but(|_| false);
    }
    let (slot, i) = made.reference_of((large().0, Vec::new()));
    made.flip(slot + META_BYTES + i * ENTRY_BYTES + 9, 1);
    made.repaired(&["1 damaged entries of nodes were made anew from their records"]);
    made.holds_but(|_| false);
}

#[test]
fn an_entry_of_which_too_little_is_left_is_given_up() {
    let Some(made) = made(true) else { return };
    let (slot, i) = made.reference_of(record(39));
    // Where it leads, and its version.
    [10, 17].into_iter().for_each(|byte| made.flip(slot + META_BYTES + i * ENTRY_BYTES + byte, 0));
    let (slot, i) = made.entry_of(pair(40));
    // Its version is that of the record that the key had before: its value must not be back.
    made.flip_to_version_before(slot + META_BYTES + i * ENTRY_BYTES + 16);
    let (slot, i) = made.reference_of(record(38));
    made.flip(slot + META_BYTES + i * ENTRY_BYTES + 10, 0);
    made.flip_to_version_before(slot + META_BYTES + i * ENTRY_BYTES + 16);
    made.repaired(&["3 damaged entries of nodes were given up"]);
    made.holds_but(|key| [record(39), record(38), pair(40)].iter().any(|(lost, _)| key == lost));
}

#[test]
fn an_entry_that_is_a_record_is_made_anew_from_the_log() {
    let Some(made) = made(true) else { return };
    for byte in [1, 9, 25] {
        let (slot, i) = made.entry_of(pair(41));
        made.flip(slot + META_BYTES + i * ENTRY_BYTES + byte, 5);
        made.repaired(&["1 damaged entries of nodes were made anew from their records"]);
        assert_eq!(made.entry_of(pair(41)), (slot, i));
    }
    made.holds_but(|_| false);
}

#[test]
fn a_node_that_nobody_can_tell_the_keys_of_is_given_up() {
    let Some(made) = made(true) else { return };
    let (slot, _) = made.entry_of(pair(700));
    let keys = made.keys_of(slot);
    STATICS.iter().for_each(|at| made.flip(slot + at + 17, 2));
    made.tells("nobody can tell which keys it has");
    let report = made.repaired(&["1 nodes were given up, and 40 records with them at most"]);
    assert_eq!(report.counts.keys, KEYS + 1 - keys.len() as u64, "{report}");
    made.holds_but(|key| keys.iter().any(|gone| gone == key));
}

#[test]
fn nodes_that_read_as_zeros_are_missed_and_given_up() {
    let Some(made) = made(true) else { return };
    let slots = [0, 700, 701, 1500].map(|i| made.entry_of(pair(i)).0);
    let keys: Vec<_> = slots.iter().flat_map(|slot| made.keys_of(*slot)).collect();
    slots.iter().for_each(|slot| made.zero(*slot, META_BYTES));
    made.tells("nodes are missing, and what is in front of its entries reads as zeros");
    let error = terrace::open(made.options.clone()).err().unwrap().to_string();
    assert!(error.contains("nodes are missing, 3 of them"), "{error}");
    made.repaired(&["3 nodes were given up, and 120 records with them at most"]);
    made.holds_but(|key| keys.iter().any(|gone| gone == key));
}

#[test]
fn a_slot_that_has_no_node_may_read_as_zeros() {
    let Some(made) = made(true) else { return };
    // Nodes that lose all their keys go.
    let gone: Vec<_> = (0..PAIRS / 2).map(pair).collect();
    let store = made.open();
    gone.iter().for_each(|(key, _)| assert!(store.delete(key).unwrap()));
    store.close().unwrap();
    let bytes = made.bytes();
    let (with, without): (Vec<u64>, Vec<u64>) =
        made.slots(&bytes).map(|(_, at)| at).partition(|at| made.nodes(&bytes).contains(at));
    // Slots that had one have it still, and some have the text of a fence.
    let had_one = |at: &&u64| word(&bytes, **at) != 0 && !bytes[**at as usize + 48..].starts_with(b"so much");
    assert!(with.len() > 50 && without.iter().filter(had_one).count() > 5, "{}", without.len());
    without.iter().filter(had_one).for_each(|at| made.zero(*at, META_BYTES));
    made.repaired(&[]);
    let store = made.open();
    gone.iter().for_each(|(key, value)| store.set(key, value).unwrap());
    store.close().unwrap();
    made.is_mended();
}

#[test]
fn a_store_of_before_roots_said_how_many_nodes_there_are_learns_it() {
    let Some(made) = made(true) else { return };
    NODES_SAID_AT.iter().for_each(|at| made.zero(*at, 8));
    let bytes = made.bytes();
    let (slot, _) = made.entry_of(pair(700));
    // Nothing tells that it had a node.
    made.zero(slot, META_BYTES);
    made.open().close().unwrap();
    std::fs::write(&made.path, &bytes).unwrap();
    made.open().close().unwrap();
    made.zero(slot, META_BYTES);
    made.tells("nodes are missing");
    assert!(terrace::open(made.options.clone()).is_err());
}

#[test]
fn the_first_node_of_all_is_given_up_too() {
    let Some(made) = made(true) else { return };
    let (slot, _) = made.entry_of(pair(0));
    let keys = made.keys_of(slot);
    STATICS.iter().for_each(|at| made.flip(slot + at + 5, 2));
    made.repaired(&["1 nodes were given up"]);
    made.holds_but(|key| keys.iter().any(|gone| gone == key));
}

#[test]
fn a_node_that_does_not_say_whether_it_has_ended_stays_in_a_store_that_was_closed() {
    for close in [true, false] {
        let Some(made) = made(close) else { return };
        let bytes = made.bytes();
        let slot = if close { made.entry_of(pair(700)).0 } else { made.nodes(&bytes)[3] };
        ENDS.iter().for_each(|at| made.flip(slot + at + 3, 2));
        if close {
            made.repaired(&["1 nodes did not say whether they have ended"]);
            made.holds_but(|_| false);
            continue;
        }
        made.repaired(&["1 nodes were given up"]);
        let store = made.open();
        let gone = all().into_iter().filter(|(key, value)| match store.get(key).unwrap() {
            Some(found) => {
                assert!(found == *value, "{}", key.escape_ascii());
                false
            }
            None => true,
        });
        assert!(gone.count() <= 40, "more is gone than the node can have had");
        all().into_iter().for_each(|(key, value)| store.set(&key, &value).map(drop).unwrap());
        store.close().unwrap();
        made.is_mended();
    }
}

#[test]
fn a_wrong_bit_of_a_commit_word_is_set_right_and_more_are_a_lost_node() {
    let Some(made) = made(true) else { return };
    for bit in [0, 5, 38, 45, 51] {
        let (slot, _) = made.entry_of(pair(700));
        made.flip(slot + COMMIT + bit / 8, bit as u32 % 8);
        made.tells("the word is damaged that says which entries it has");
        made.repaired(&["1 nodes had a wrong bit in the word that says which entries they have"]);
    }
    made.holds_but(|_| false);
    let (slot, _) = made.entry_of(pair(700));
    let keys = made.keys_of(slot);
    [1, 3, 9].into_iter().for_each(|bit: u64| made.flip(slot + COMMIT + bit / 8, bit as u32 % 8));
    made.repaired(&["1 nodes were given up, and 40 records with them at most"]);
    made.holds_but(|key| keys.iter().any(|gone| gone == key));
}

#[test]
fn what_was_lost_before_is_given_up() {
    let Some(made) = made(true) else { return };
    let (slot, _) = made.entry_of(pair(700));
    let keys = made.keys_of(slot);
    [1, 3, 9].into_iter().for_each(|bit: u64| made.flip(slot + COMMIT + bit / 8, bit as u32 % 8));
    let store = made.open();
    assert!(store.get(&pair(700).0).is_err());
    store.set(&pair(700).0, &pair(700).1).unwrap();
    store.close().unwrap();
    made.tells("something of it was lost");
    made.repaired(&["1 nodes had lost records before"]);
    made.holds_but(|key| key != pair(700).0 && keys.iter().any(|gone| gone == key));
}

#[test]
fn a_damaged_text_of_a_fence_is_made_anew_from_keys() {
    let Some(made) = made(true) else { return };
    let (bytes, text) = (made.bytes(), made.text_of_a_fence());
    // Of the text, how much it is, its check.
    for byte in [48 + 5, 4, 0] {
        made.flip(text + byte, 1);
        made.tells("nobody can tell which keys it has");
        made.repaired(&["1 texts of fences were made anew from keys"]);
        assert!(made.bytes()[text as usize..][..100] == bytes[text as usize..][..100]);
    }
    made.holds_but(|_| false);
    // The node is lost, and its text goes with it.
    let bytes = made.bytes();
    let number = |slot: u64| u32::from_le_bytes(bytes[slot as usize + 20..][..4].try_into().unwrap());
    let slot_of = |number| made.slots(&bytes).find(|(of, _)| *of == u64::from(number)).unwrap().1;
    let is_one = |slot: &u64| bytes[*slot as usize + 4] == 255 && slot_of(number(*slot)) != *slot;
    let slot = made.nodes(&bytes).into_iter().find(is_one).unwrap();
    made.flip(slot_of(number(slot)) + 53, 1);
    [1, 3, 9].into_iter().for_each(|bit: u64| made.flip(slot + COMMIT + bit / 8, bit as u32 % 8));
    let report = made.repaired(&["1 nodes were given up"]);
    let gone = KEYS + 1 - report.counts.keys;
    assert!((1..=40).contains(&gone), "{report}");
    let store = made.open();
    let missing = all().into_iter().filter(|(key, _)| store.get(key).unwrap().is_none()).count();
    assert_eq!(missing as u64, gone);
    store.close().unwrap();
}

#[test]
fn several_nodes_that_are_damaged_at_once_are_mended_each_by_itself() {
    let Some(made) = made(true) else { return };
    let (lost, _) = made.entry_of(pair(300));
    let gone = made.keys_of(lost);
    let (slot, i) = made.entry_of(pair(1200));
    STATICS.iter().for_each(|at| made.flip(lost + at + 17, 2));
    made.flip(slot + META_BYTES + i * ENTRY_BYTES + 17, 2);
    let (slot, i) = made.reference_of(record(500));
    made.flip(slot + META_BYTES + i * ENTRY_BYTES + 17, 2);
    let pages = made.check().counts.heap.unwrap().pages;
    (0..2 * pages).for_each(|line| made.flip(LINES_AT + line * LINE_BYTES + 17, 3));
    made.repaired(&[
        &format!("{pages} lines of pages were made anew"),
        "1 damaged entries of nodes were made anew",
        "1 damaged entries of nodes were given up",
        "1 nodes were given up",
    ]);
    made.holds_but(|key| key == pair(1200).0 || gone.iter().any(|gone| gone == key));
}

#[test]
fn what_stands_nowhere_else_is_not_repaired() {
    let Some(made) = made(true) else { return };
    (0..3).for_each(|copy| made.flip(4608 + copy * 448 + 20, 0));
    let before = made.bytes();
    let report = made.repair();
    assert!(report.beyond.iter().any(|line| line.contains("the root")), "{report}");
    assert!(report.repairs.is_empty() && made.bytes() == before, "nothing was changed");
}
