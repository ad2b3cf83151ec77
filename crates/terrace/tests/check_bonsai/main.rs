//! `terrace::check` on stores of engine `bonsai`: whole ones are clean and counted, and each kind of damage is named, and answers an
//! error where the store opens; and repairs of it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod made;
mod repair;

use terrace::check::CheckOptions;

use made::*;

#[test]
fn whole_stores_are_clean_and_counted() {
    for close in [true, false] {
        let Some(made) = made(close) else { return };
        let report = made.tells("slots free");
        assert!(report.is_clean() && report.to_string().ends_with("\nclean"), "{report}");
        let before = made.bytes();
        assert!(made.repair().repairs.is_empty() && made.bytes() == before, "nothing is to be repaired");
        if close {
            assert_eq!(report.counts.keys, KEYS + 1, "{report}");
            assert_eq!((report.counts.records[1], report.counts.extents), (1, 1), "{report}");
            let count = |what: &str| {
                let line = report.about.iter().find(|line| line.contains(what)).unwrap();
                let (before, _) = line.split_once(what).unwrap();
                before.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
            };
            assert_eq!(count(" entries inline") + count(" references"), KEYS + 1, "{report}");
            assert_eq!(count(" entries inline"), u64::from(PAIRS) + 1, "{report}");
            // Of the longest keys alone: fences of the others are in the places of entries.
            assert!((5..20).contains(&count(" with texts")), "{report}");
            assert_eq!(count(" nodes"), made.nodes(&made.bytes()).len() as u64, "{report}");
        }
        made.is_mended();
    }
}

#[test]
fn a_damaged_entry_is_told_and_answers_an_error() {
    let Some(made) = made(true) else { return };
    let (slot, i) = made.entry_of(pair(39));
    // Its key, its value, its version, its check.
    for (byte, bit) in [(2, 0), (9, 6), (20, 3), (24, 1), (27, 7)] {
        let at = slot + META_BYTES + i * ENTRY_BYTES + byte;
        made.flip(at, bit);
        made.tells(&format!("entry {i}: damaged; its key answers an error"));
        let store = made.open();
        assert!(store.get(&pair(39).0).is_err());
        assert_eq!(store.get(&pair(40).0).unwrap(), Some(pair(40).1));
        store.close().unwrap();
        made.flip(at, bit);
    }
    made.flip(slot + META_BYTES + i * ENTRY_BYTES + 9, 6);
    assert_eq!(made.answers_but(|key| key == pair(39).0), 1);
    made.is_mended();
}

#[test]
fn damaged_records_and_large_values_are_told() {
    let Some(made) = made(true) else { return };
    for (key, value) in [record(39), large()] {
        // The newest one stands last.
        let text = &value[..value.len().min(1000)];
        let at = made.bytes().windows(text.len()).rposition(|window| window == text).unwrap();
        made.flip(at as u64 + 3, 4);
        let what = if value.len() > 1000 { "parts of its large value are damaged" } else { "damaged record" };
        let report = made.tells(what);
        assert_eq!((report.problem_count(), report.counts.poisoned), (1, 1), "{report}");
        assert_eq!(made.answers_but(|lost| lost == key), 1);
        made.is_mended();
    }
}

#[test]
fn damaged_fingerprints_are_told_and_made_anew() {
    let Some(made) = made(true) else { return };
    let (slot, i) = made.entry_of(pair(39));
    let at = if i < 16 { FINGERPRINTS + i } else { 104 + i - 16 };
    // Of the commit word the last twelve bits are their check.
    for (at, bit) in [(at, 0), (at, 7), (COMMIT + 7, 2)] {
        made.flip(slot + at, bit);
        assert!(made.tells("1 nodes have damaged fingerprints").is_clean());
        made.is_mended();
    }
}

#[test]
fn a_damaged_commit_word_is_told_and_its_keys_answer_errors() {
    let Some(first) = made(true) else { return };
    // An entry that counts, one that does not, the check.
    for (pick, bit) in [(39, 0), (700, 38), (1500, 45)] {
        let made = if pick == 39 { &first } else { &made(true).unwrap() };
        let (slot, _) = made.entry_of(pair(pick));
        let keys = made.keys_of(slot);
        assert!(keys.len() > 10 && keys.contains(&pair(pick).0));
        made.flip(slot + COMMIT + bit / 8, bit as u32 % 8);
        let report = made.tells("the word is damaged that says which entries it has");
        assert_eq!(report.problem_count(), 1, "{report}");
        assert_eq!(made.answers_but(|key| keys.iter().any(|lost| lost == key)), keys.len() as u64);
        let report = made.tells("something of it was lost");
        assert_eq!(report.counts.keys, KEYS + 1, "{report}");
    }
}

#[test]
fn one_copy_of_what_does_not_change_is_made_anew_and_both_are_told() {
    let Some(made) = made(true) else { return };
    let (slot, _) = made.entry_of(pair(39));
    for at in STATICS {
        made.flip(slot + at + 17, 2);
        assert!(made.tells("1 nodes have a damaged copy of what does not change").is_clean());
        made.is_mended();
    }
    // And a word that says when it ends.
    made.flip(slot + 96 + 3, 2);
    assert!(made.tells("1 nodes have a damaged copy").is_clean());
    made.is_mended();
    STATICS.iter().for_each(|at| made.flip(slot + at + 17, 2));
    made.tells("nobody can tell which keys it has");
    assert!(terrace::open(made.options.clone()).is_err());
    STATICS.iter().for_each(|at| made.flip(slot + at + 17, 2));
    made.is_mended();
}

#[test]
fn a_damaged_text_of_a_fence_is_told() {
    let Some(made) = made(true) else { return };
    let text = made.text_of_a_fence() + 48;
    assert!(made.bytes()[text as usize..].starts_with(b"so much is alike so much"));
    made.flip(text + 5, 1);
    made.tells("nobody can tell which keys it has");
    assert!(terrace::open(made.options.clone()).is_err());
    made.flip(text + 5, 1);
    made.is_mended();
}

#[test]
fn a_damaged_text_of_a_fence_in_its_node_is_made_anew_from_keys() {
    let Some(made) = made(true) else { return };
    let bytes = made.bytes();
    // The text is at the slot's end, in whole words.
    let at = |slot: u64| {
        let length = u64::from(u32::from_le_bytes(bytes[slot as usize + 16..][..4].try_into().unwrap()));
        (slot + SLOT_BYTES - length.next_multiple_of(8), length)
    };
    let is_one = |slot: &u64| {
        let start = b"a key that begins as others do:";
        bytes[*slot as usize + 4] == 255 && bytes[at(*slot).0 as usize..].starts_with(start)
    };
    let slot = made.nodes(&bytes).into_iter().find(is_one).unwrap();
    let (text, length) = at(slot);
    for byte in [0, 5, length - 1] {
        made.flip(text + byte, 1);
        assert!(made.tells("1 nodes have a damaged copy").is_clean());
        made.is_mended();
        let report = terrace::check(&made.path, &CheckOptions::default()).unwrap().to_string();
        assert!(!report.contains("damaged copy"), "{report}");
    }
}

#[test]
fn without_a_root_it_does_not_open() {
    let Some(made) = made(true) else { return };
    (0..3).for_each(|copy| made.flip(4608 + copy * 448 + 20, 0));
    made.tells("no copy of the root is whole");
    assert!(terrace::open(made.options.clone()).is_err());
}
