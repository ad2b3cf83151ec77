//! A record that rotted in its page is moved with it when the page is emptied: it stays damaged. The page that it goes to has
//! checksums of its own, which must not make it whole.

use terrace_engine::Durability;

use super::{
    Bench, HETERMM_BLOCK, HETERMM_BYTE, TAC_BLOCK, TAC_BYTE, Told, data, get, rot, set, to_bytes, try_set,
};

const OTHERS: usize = 30;
const WRITES: usize = 4000;

fn value(name: &str, len: usize) -> Vec<u8> {
    format!("{name}.").bytes().cycle().take(len).collect()
}

fn stays_damaged(bench: Bench) {
    let recorder = terrace_media_sim::Recorder::new();
    let media = bench.recorded(bench.fresh(), &recorder);
    let len = bench.block_bytes() / 12;
    let store = bench.open(&media, Durability::Sync, true).unwrap();
    let rotten = value("rotten", len);
    for number in 0..OTHERS {
        if number == OTHERS / 2 {
            set(&*store, b"rotten", &rotten);
        }
        set(&*store, format!("other{number}").as_bytes(), &value("first", len));
    }
    store.close().unwrap();
    drop(store);

    let bytes = data(&media);
    let at = (0..bytes.len()).rfind(|&at| bytes[at..].starts_with(&rotten)).unwrap();
    let (seq, page) = bench
        .headers(&media)
        .into_iter()
        .find(|(_, page)| (*page..*page + bench.block_bytes()).contains(&at))
        .unwrap();
    rot(&media, at + len / 2);
    let store = bench.open(&media, Durability::Sync, false).unwrap();
    // With the others, a little more than half of what the pages hold.
    let a_page = (bench.block_bytes() - 128) / (len + 72);
    let more = bench.slots(bytes.len()).count() * a_page * 13 / 25 - OTHERS;
    let is_there = || bench.headers(&media).contains(&(seq, page));
    // Others of its page are written again and again, until it is emptied.
    for write in 0..WRITES {
        if !is_there() {
            break;
        }
        let number = write % (OTHERS - 1);
        // In a tier of a few pages what is dirty may be too much for a moment.
        try_set(&*store, format!("other{number}").as_bytes(), &value("again", len));
        try_set(&*store, format!("more{}", write % more).as_bytes(), &value("more", len + write % 9 * 8));
        store.step();
    }
    assert!(!is_there(), "its page is never emptied");
    assert_eq!(get(&*store, b"rotten"), Told::Damage);
    drop(store);
    let again = to_bytes(&media);
    let media = bench.recorded(again, &terrace_media_sim::Recorder::new());
    assert_eq!(
        bench.read(&media, Durability::Sync, &[b"rotten", b"other29"]),
        [Told::Damage, Told::Value(value("first", len))]
    );
}

#[test]
fn hetermm_on_byte_addressable_media() {
    stays_damaged(HETERMM_BYTE);
}

#[test]
fn hetermm_on_block_media() {
    stays_damaged(HETERMM_BLOCK);
}

#[test]
fn tac_on_byte_addressable_media() {
    stays_damaged(TAC_BYTE);
}

#[test]
fn tac_on_block_media() {
    stays_damaged(TAC_BLOCK);
}
