//! Faults that were mended, each staged as it would have shown.

use std::collections::BTreeSet;
use std::iter::once;

use terrace_engine::{Batch, ExpireIf, Expiry, OpKind};
use terrace_media_sim::trace::Position;
use terrace_media_sim::{Crash, Explorer, SimRegion};

use super::support::*;

/// Writes keys that stay until so many pages are free; they are `live0`, `live1` and so on.
fn fill(life: &Life, client: &mut Client, pages: usize) -> Vec<String> {
    let mut keys = Vec::new();
    while free_pages(&*life.store) > pages {
        let key = format!("live{}", keys.len());
        client.set(&key, filled(&key, 150));
        keys.push(key);
        rest(&*life.store);
    }
    keys
}

/// The cleaner works while another thread archives: a page that was given away had its new header cleared.
#[test]
fn a_block_is_not_cleaned_before_its_header_is_gone() {
    let life = Life::new();
    let [mut other, mut a, mut b] = life.clients();
    let mut keys = fill(&life, &mut other, 8);
    // A's blocks, of which all is dead once a round has them, and so few others free that they are cleaned.
    a.set("first1", value("there"));
    for round in 0..3 {
        for i in 0..4 {
            a.set(&format!("dead{i}"), filled(&format!("{round}"), 150));
        }
    }
    a.set("first1", value("there"));
    let store = life.store.clone();
    let held = held_before(HEADERS, 0, move || steps(&*store, 40));
    steps(&*life.store, 40);
    // Deletes, for they may take the last pages.
    let deleted = keys.split_off(keys.len() - 34);
    deleted.iter().for_each(|key| b.set(key, None));
    let from = life.position();
    held.go_on();
    let trace = life.recorder.finish();
    let tried = crash_within(&trace, once(from..trace.len() + 1), 2, |_, image| {
        let region = image.region(0);
        let mut client = Client::of(&*open_again(region));
        let lost: Vec<_> = keys.iter().filter(|key| client.get(key) != filled(key, 150)).collect();
        let back: Vec<_> = deleted.iter().filter(|key| client.get(key).is_some()).collect();
        let is_right = lost.is_empty() && back.is_empty();
        is_right.then_some(()).ok_or_else(|| format!("lost: {lost:?}, there again: {back:?}"))
    });
    assert!(tried.images > 100, "{tried}");
}

/// Deletes take all pages, while no round is made. Whoever opens the store then needs pages for chains, and frees some for that.
#[test]
fn a_store_whose_pages_deletes_have_taken_is_opened_again() {
    let life = Life::new();
    let [mut a] = life.clients();
    let mut keys = fill(&life, &mut a, 8);
    let mut deleted = Vec::new();
    while free_pages(&*life.store) > 0 {
        let key = keys.pop().unwrap();
        a.set(&key, None);
        deleted.push(key);
    }
    let store = open_again(SimRegion::from_image(life.region.to_bytes()));
    // What is live was in doubt of all pages, but for the four that are kept for chains and copies.
    let scanned = store.stats().recovery.unwrap().scanned;
    assert!(scanned.pages < scanned.of && scanned.pages + 4 >= scanned.of, "{scanned:?}");
    let mut client = Client::of(&*store);
    let lost: Vec<_> = keys.iter().filter(|key| client.get(key) != filled(key, 150)).collect();
    let back: Vec<_> = deleted.iter().filter(|key| client.get(key).is_some()).collect();
    assert!(lost.is_empty() && back.is_empty(), "lost: {lost:?}, there again: {back:?}");
    assert_eq!(store.len(0), keys.len() as u64 + 1);
}

/// A flush of all databases begins while a round waits for nothing but what was issued before, and is lost.
#[test]
fn a_round_does_not_record_a_flush_that_is_not_settled() {
    let mut outcomes = BTreeSet::new();
    for steps_before in 0..14 {
        let life = Life::new();
        let [mut a, mut b] = life.clients();
        let keys = ["k0", "k1", "k2", "late"];
        keys[..3].iter().for_each(|key| a.set(key, value("there")));
        rest(&*life.store);
        a.set("late", value("there"));
        steps(&*life.store, steps_before);
        let held = held_before(GROUPS, 0, move || {
            let mut batch = Batch::new();
            batch.push(0, &[], OpKind::Flush { db: None });
            b.0.execute(&mut batch);
        });
        steps(&*life.store, 30);
        let trace = life.recorder.finish();
        let end = trace.len();
        crash_within(&trace, once(end..end + 1), 12, |_, image| {
            let region = image.region(0);
            let store = open_again(region.clone());
            let seen = states(&mut Client::of(&*store), keys);
            let there = seen.values().flatten().count();
            if there != 0 && there != keys.len() + 2 {
                return Err(format!("{there} keys are there"));
            }
            outcomes.insert(there > 0);
            stays(&region, store, &seen, 2)
        });
        held.go_on();
    }
    assert_eq!(outcomes.len(), 2, "the flush was torn in some crashes, and whole in others");
}

/// A process dies in the middle of a cleaning: its words are stored and not safe. The next one goes on from them, and frees the page; then
/// power is lost, and the words with it.
#[test]
fn words_of_a_dead_process_are_made_safe_before_a_page_is_freed() {
    // In many lines: what is written back for one bucket does not make the others safe.
    use_buckets(256);
    let life = Life::new();
    let [mut a] = life.clients();
    for i in 0..4 {
        a.set(&format!("dead{i}"), filled("dead", 150));
        a.set(&format!("cold{i}"), filled("cold", 150));
    }
    (0..4).for_each(|i| a.set(&format!("dead{i}"), filled("again", 150)));
    rest(&*life.store);
    fill(&life, &mut a, 10);
    let mut part: Option<(Position, Position)> = None;
    for i in 0.. {
        a.set(&format!("more{i}"), filled("more", 150));
        for _ in 0..40 {
            let (before, moved) = (life.position(), detail(&*life.store, "scm_moved_bytes"));
            life.store.step();
            if part.is_none() && detail(&*life.store, "scm_moved_bytes") > moved {
                part = Some((before, life.position()));
            }
        }
        if part.is_some() {
            break;
        }
        assert!(i < 20, "nothing is ever moved");
    }
    let (from, to) = part.unwrap();
    let trace = life.recorder.finish();
    let mut lost_words = 0;
    let explorer = Explorer::new(1).within(once(from..to + 1).collect()).only(Crash::Process).store_sample(0);
    let explored = explorer.explore(&trace, |_, image| {
        let (recorder, copy) = image.recording(Crash::Process);
        let store = open_again(copy.region(0));
        let mut client = Client::of(&*store);
        for i in 0..4 {
            client.set(&format!("later{i}"), filled("later", 150));
            steps(&*store, 12);
        }
        let cleaned = detail(&*store, "scm_cleaned_pages");
        drop((client, store));
        let again = recorder.finish();
        let tried = crash_within(&again, once(0..again.len()), 2, |_, image| {
            leads_into_free_pages(&image.region(0)).map_or(Ok(()), Err)
        });
        lost_words += u64::from(cleaned > 0) * tried.images;
        Ok::<_, String>(())
    });
    let tried = explored.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tried.images > 10 && lost_words > 10, "{tried}, {lost_words}");
}

/// A process dies in the middle of a round. The next one makes it again, and finds its words as they are to be: they are safe before the
/// root says that the round is over.
#[test]
fn words_of_a_dead_process_are_made_safe_with_the_round_that_is_made_again() {
    use_buckets(256);
    let life = Life::new();
    let [mut a] = life.clients();
    let keys = ["k0", "k1", "k2", "k3", "k4", "k5"];
    keys.iter().for_each(|key| a.set(key, value("old")));
    rest(&*life.store);
    keys.iter().for_each(|key| a.set(key, value("new")));
    let std::ops::Range { start: from, end } = life.a_round();
    let trace = life.recorder.finish();
    let explorer = Explorer::new(1).within(once(from..end).collect()).only(Crash::Process).store_sample(0);
    let explored = explorer.explore(&trace, |_, image| {
        let (recorder, copy) = image.recording(Crash::Process);
        steps(&*open_again(copy.region(0)), 4);
        let again = recorder.finish();
        crash_within(&again, once(0..again.len() + 1), 3, |_, image| {
            let store = open_again(image.region(0));
            let mut client = Client::of(&*store);
            let wrong = keys.iter().find(|key| client.get(key) != value("new"));
            wrong.map_or(Ok(()), |key| Err(format!("{key} is what it was before")))
        });
        Ok::<_, String>(())
    });
    let tried = explored.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tried.images > 10, "{tried}");
}

/// A record that was counted is damaged, and written again. The counts of a round that a crash has cut are wrong by one.
#[test]
fn a_round_that_is_made_again_stays_uncertain() {
    let life = Life::new();
    let [mut a] = life.clients();
    let keys = ["k0", "k1", "k2", "k3", "k4"];
    keys.iter().for_each(|key| a.set(key, filled(&format!("{key} as it was. "), 60)));
    rest(&*life.store);
    drop(a);
    life.store.close().unwrap();
    let at = life.place_of(b"k2 as it was. ").unwrap();
    let mut bytes = life.region.to_bytes();
    bytes[at] ^= 4;
    let life = Life::from(bytes);
    let mut a = life.client();
    a.set("k2", value("as it is"));
    let std::ops::Range { start: from, end } = life.a_round();
    let trace = life.recorder.finish();
    let tried = crash_within(&trace, once(from..end), 60, |_, image| {
        let region = image.region(0);
        let store = open_again(region.clone());
        let seen = states(&mut Client::of(&*store), keys);
        if seen["k2"] != value("as it is") || keys.iter().any(|key| seen[*key].is_none()) {
            return Err(format!("{seen:?}"));
        }
        stays(&region, store, &seen, 2)
    });
    assert!(tried.images > 50, "{tried}");
}

/// After a crash live bytes are estimates. A clean stop at once stores them as such, and whoever opens the store next counts them.
#[test]
fn estimates_of_live_bytes_stay_estimates_over_a_clean_stop() {
    let life = Life::new();
    let [mut a] = life.clients();
    let live = |store: &dyn terrace_engine::Store| store.stats().tiers.pop().unwrap().live_bytes;
    for i in 0..8 {
        a.set(&format!("k{i}"), filled("live", 100));
    }
    rest(&*life.store);
    let counted = live(&*life.store);
    assert!(counted > 800, "{counted}");
    let region = SimRegion::from_image(life.region.to_bytes());
    open_again(region.clone()).close().unwrap();
    let store = open_again(region);
    rest(&*store);
    assert_eq!(live(&*store), counted);
}

/// A record that expires is moved to a page whose line says that nothing in it does. After a crash that line is all that is known.
#[test]
fn a_record_that_was_moved_expires_after_a_crash() {
    const HOUR_MS: u64 = 3_600_000;
    let life = Life::new();
    let [mut a] = life.clients();
    let mortal = filled("it expires ", 150);
    let expiry = Expiry::At(START_MS + HOUR_MS);
    assert!(a.run(&mut writes(&[("mortal", mortal.clone())], expiry)).is_some());
    for _ in 0..2 {
        (0..4).for_each(|i| a.set(&format!("dead{i}"), filled("dead", 150)));
    }
    rest(&*life.store);
    fill(&life, &mut a, 10);
    let mut more = 0;
    while life.copies_of(&mortal) == 1 {
        a.set(&format!("more{more}"), filled("more", 150));
        rest(&*life.store);
        more += 1;
        assert!(more < 20, "its page is never cleaned");
    }
    let keys = life.store.len(0);
    let region = SimRegion::from_image(life.region.to_bytes());
    let store = open_at(region, false, START_MS + 2 * HOUR_MS);
    assert_eq!(store.len(0), keys, "nobody has looked yet");
    rest(&*store);
    assert_eq!((store.len(0), store.stats().expired), (keys - 1, 1));
}

/// A table that is gone with all that it led to. Of what it had nothing is known, not even a version that was ever written: who asks for a
/// key is told at once, and who writes one is answered.
#[test]
fn nobody_waits_for_a_record_of_which_nothing_is_known() {
    let life = Life::new();
    let mut bytes = life.region.to_bytes();
    let table = 512 + 3 * 448 + geometry().pages() * 128;
    bytes[table..][..geometry().buckets as usize * 8].fill(0);
    let store = open_again(SimRegion::from_image(bytes));
    let mut client = Client::of(&*store);
    let key = |i| format!("key{i}");
    let expire = OpKind::Expire { expiry: Expiry::Keep, condition: ExpireIf::Always, value: true };
    for kind in [OpKind::Get { value: true }, expire] {
        let mut batch = Batch::new();
        batch.push(0, key(0).as_bytes(), kind);
        let proof = client.run(&mut batch);
        let reply = proof.map(|proof| format!("{:?}", batch.reply(0, &proof)));
        assert_eq!(reply.as_deref(), Some("Error(Poisoned)"));
    }
    client.write(&[(&key(1), value("one")), (&key(2), value("two"))]);
    client.set(&key(0), value("there"));
    assert_eq!(client.get(&key(0)), value("there"));
    rest(&*store);
    assert_eq!([0, 1, 2].map(|i| client.get(&key(i))), ["there", "one", "two"].map(value));
}

/// The head of a large value's part, and whose it is, are read by cleaning alone, long after: a page that seemed to hold nothing was freed
/// under the value. Power is lost wherever the round stores that makes the table lead there, and behind it.
#[test]
fn parts_are_known_by_their_heads_after_power_was_lost() {
    parts_stay_known(16);
}

/// The same of nodes, which say whose parts are once they lead to the record: before the root says that all is done.
#[test]
fn parts_that_nodes_lead_to_are_known_by_their_heads_after_power_was_lost() {
    use_nodes();
    parts_stay_known(80);
}

fn parts_stay_known(images: u64) {
    let bytes = geometry().page_bytes - 324;
    let life = Life::new();
    let mut client = life.client();
    // Its last part is so short that the next head begins at the end of a line.
    let part = (geometry().page_bytes - 128) / 4 - 24;
    client.set("beside", filled("beside", 3 * part + 64));
    client.set("large", filled("large", bytes));
    let from = life.position();
    rest(&*life.store);
    let trace = life.recorder.finish();
    let tried = crash_within(&trace, once(from..trace.len() + 1), images, |_, image| {
        let region = image.region(0);
        let store = open_again(region);
        let mut client = Client::of(&*store);
        // Until all pages that hold nothing were used again, or nothing but what was beside it.
        client.set("beside", value("short"));
        let mut round = 0;
        while detail(&*store, "scm_cleaned_pages") < geometry().pages() as u64 {
            client.set(&format!("key{}", round % 5), filled(&format!("{round}"), 150));
            rest(&*store);
            round += 1;
            assert!(round < 1000, "pages are to be cleaned");
        }
        let is_there = client.get("large") == filled("large", bytes);
        is_there.then_some(()).ok_or_else(|| "a large value is gone".into())
    });
    assert!(tried.images > 20, "{tried}");
}
