//! SCMKV's schedules, one test each: what its design loses or brings back in a crash, and this one doesn't.

use std::collections::BTreeSet;
use std::iter::once;

use terrace_engine::{Batch, Condition, Expiry, OpKind};
use terrace_media_sim::SimRegion;
use terrace_media_sim::trace::Position;

use super::support::*;

/// The kinds of all pages, by their lines' first copies: `docs/formats/scm.md`.
fn chain_pages(region: &SimRegion) -> usize {
    let all = region.to_bytes();
    let lines = (0..geometry().pages()).map(|page| 512 + 3 * 448 + page * 128);
    lines.filter(|at| all[at + 16] == 3).count()
}

/// The checkpoint's list of active logs is stale: a page that was opened later is not scanned, or is reused under live buckets. Here a
/// crash comes wherever a block is begun, a page of chains is begun, or a page is cleaned.
#[test]
fn schedule_1_a_page_that_was_opened_later_is_found_and_not_written_over() {
    let life = Life::new();
    let [mut a] = life.clients();
    let mut writes: Vec<(String, State, Position)> = Vec::new();
    let mut parts = [const { Vec::new() }; 3];
    for i in 0..90 {
        // Some stay, so that a page that is cleaned has something to move.
        let number = if i % 4 == 0 { 16 + i } else { i * 7 % 16 };
        let (key, value) = (format!("k{number}"), filled(&format!("{i}."), 150));
        let (before, used) = (life.position(), life.store.stats().log.unwrap().used_bytes);
        a.set(&key, value.clone());
        writes.push((key, value, life.recorder.acknowledged(i)));
        if life.store.stats().log.unwrap().used_bytes > used {
            parts[0].push(before..life.position() + 1);
        }
        for _ in 0..12 {
            let is_now = || (chain_pages(&life.region), detail(&*life.store, "scm_cleaned_pages"));
            let (before, (chains, cleaned)) = (life.position(), is_now());
            life.store.step();
            let (more_chains, more_cleaned) = is_now();
            for (is_one, parts) in
                [more_chains > chains, more_cleaned > cleaned].into_iter().zip(&mut parts[1..])
            {
                if is_one {
                    parts.push(before..life.position() + 1);
                }
            }
        }
    }
    drop((a, life.store));
    let trace = life.recorder.finish();
    let judge = |position: Position, region: SimRegion| {
        let store = open_again(region.clone());
        let mut client = Client::of(&*store);
        let answered = writes.iter().filter(|(.., at)| *at <= position).count();
        let seen = states(&mut client, writes.iter().map(|(key, ..)| key));
        for (key, state) in seen.iter().filter(|(key, _)| key.starts_with('k')) {
            let mut of_key = writes[..answered].iter().filter(|(of, ..)| of == key);
            let before = of_key.next_back().and_then(|(_, value, _)| value.clone());
            let next = writes.get(answered).filter(|(of, ..)| of == key).map(|(_, value, _)| value);
            if *state != before && Some(state) != next {
                return Err(format!("{key} is not what it was after {answered} writes"));
            }
        }
        drop(client);
        stays(&region, store, &seen, 150)
    };
    for parts in parts {
        assert!(parts.len() > 3, "{parts:?}");
        let last = parts[parts.len() - 3..].to_vec();
        let tried = crash_within(&trace, last, 12, |position, image| judge(position, image.region(0)));
        assert!(tried.images > 50, "{tried}");
    }
}

/// A's v1 is torn and B's v2 is durable: recovering A resets the bucket to v0. Likewise where B deletes the key.
#[test]
fn schedule_2_what_is_torn_in_one_log_resets_no_bucket() {
    for newer in [value("v2"), None] {
        let life = Life::new();
        let [mut other, a, mut b] = life.clients();
        other.set("k", value("v0"));
        rest(&*life.store);
        let held = write_held(a, &[("k", value("v1"))]);
        b.write_in_vain(&[("k", newer.clone())]);
        // No round may take what is not settled.
        steps(&*life.store, 60);
        let trace = life.recorder.finish();
        let mut outcomes = BTreeSet::new();
        power_lost(&trace, |image| {
            let region = image.region(0);
            let store = open_again(region.clone());
            let mut client = Client::of(&*store);
            let seen = states(&mut client, ["k"]);
            drop(client);
            if seen["k"] != value("v0") && seen["k"] != newer {
                return Err("it is neither what was there nor the newest".into());
            }
            if ["first0", "first1", "first2"].iter().any(|key| seen[*key].is_none()) {
                return Err("what was answered before is lost".into());
            }
            outcomes.insert(seen["k"].clone());
            stays(&region, store, &seen, 2)
        });
        assert_eq!(outcomes.len(), 2, "A's was torn in some crashes, and whole in another: {outcomes:?}");
        held.go_on();
    }
}

/// The same once both are durable, in all crashes of the round that has them, and of none: the newest counts, whichever log is read first.
#[test]
fn schedule_2_the_newest_of_two_logs_counts() {
    for newer in [value("v2"), None] {
        for is_swapped in [false, true] {
            let life = Life::new();
            let [mut other, mut a, mut b] = life.clients();
            other.set("k", value("v0"));
            rest(&*life.store);
            let (first, second) = if is_swapped { (&mut b, &mut a) } else { (&mut a, &mut b) };
            first.set("k", value("v1"));
            second.set("k", newer.clone());
            let std::ops::Range { start: from, end } = life.a_round();
            let trace = life.recorder.finish();
            let tried = crash_within(&trace, once(from..end), 30, |_, image| {
                let region = image.region(0);
                let store = open_again(region.clone());
                let seen = states(&mut Client::of(&*store), ["k"]);
                if seen["k"] != newer {
                    return Err(format!("{:?}", seen["k"]));
                }
                stays(&region, store, &seen, 2)
            });
            assert!(tried.images > 30, "{tried}");
        }
    }
}

/// An insert with torn key bytes can't find its bucket, which leads into a tail that is filled again. The same of a step of several keys, of
/// which a part is durable.
#[test]
fn schedule_3_no_bucket_leads_to_a_torn_insert() {
    let key = "a key that is long enough to be torn";
    let life = Life::new();
    let [a, mut b] = life.clients();
    let held = write_held(a, &[(key, value("inserted"))]);
    b.set("beside", value("it"));
    steps(&*life.store, 60);
    let trace = life.recorder.finish();
    let mut outcomes = BTreeSet::new();
    power_lost(&trace, |image| {
        let region = image.region(0);
        let store = open_again(region.clone());
        let seen = states(&mut Client::of(&*store), [key, "beside"]);
        if seen[key].is_some() && seen[key] != value("inserted") || seen["beside"] != value("it") {
            return Err(format!("{seen:?}"));
        }
        outcomes.insert(seen[key].clone());
        // As long as what was cut: what follows fills the same places.
        stays(&region, store, &seen, 30)
    });
    assert_eq!(outcomes.len(), 2, "it was torn in some crashes, and whole in another");
    held.go_on();
}

#[test]
fn schedule_3_no_bucket_leads_to_a_part_of_a_step() {
    let life = Life::new();
    let [mut a, mut b] = life.clients();
    let keys = ["s0", "s1", "s2", "s3", "s4"];
    let before = keys.map(|key| (key, value("before")));
    let after = keys.map(|key| (key, filled(key, if key == "s4" { 8 } else { 170 })));
    a.write(&before);
    rest(&*life.store);
    let mut batch = writes(&after, Expiry::Clear);
    // Its first group is durable, in a block of its own, and the copy of that block's header.
    let held = held_before(GROUPS, 2, move || a.0.execute(&mut batch));
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
    assert_eq!(outcomes.len(), 2, "its end was torn in some crashes, and whole in another");
    held.go_on();
}

/// Cutting a log at its first bad object discards later ones that other logs roll back to. Here A's x is torn; B has read it and written
/// y, and then w; C has read y and written z.
#[test]
fn schedule_4_all_logs_are_cut_together() {
    let life = Life::new();
    let [mut other, a, mut b, mut c] = life.clients();
    other.write(&["w", "x", "y", "z"].map(|key| (key, value("0"))));
    rest(&*life.store);
    let held = write_held(a, &[("x", value("1"))]);
    let copied = |client: &mut Client, from: &str, to: &str| {
        let mut batch = Batch::new();
        batch.push(0, from.as_bytes(), OpKind::Get { value: true });
        let value = batch.bytes(b"1");
        let (condition, expiry) = (Condition::Always, Expiry::Clear);
        let kind = OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false };
        batch.push(0, to.as_bytes(), kind);
        assert!(client.run(&mut batch).is_none(), "{to} is answered, and {from} is not safe");
    };
    copied(&mut b, "x", "y");
    b.write_in_vain(&[("w", value("1"))]);
    copied(&mut c, "y", "z");
    steps(&*life.store, 60);
    let trace = life.recorder.finish();
    let mut outcomes = BTreeSet::new();
    power_lost(&trace, |image| {
        // Groups that follow are as long as those that were cut, in one of these: with what stood behind those they would be whole again.
        for value_bytes in [1, 9, 17, 25] {
            let region = SimRegion::from_image(image.region(0).to_bytes());
            let store = open_again(region.clone());
            let seen = states(&mut Client::of(&*store), ["w", "x", "y", "z"]);
            let all: BTreeSet<_> = ["w", "x", "y", "z"].map(|key| seen[key].clone()).into();
            if all.len() != 1 || !(all.contains(&value("0")) || all.contains(&value("1"))) {
                return Err(format!("{seen:?}"));
            }
            outcomes.extend(all);
            stays(&region, store, &seen, value_bytes)?;
        }
        Ok(())
    });
    assert_eq!(outcomes.len(), 2, "x was torn in some crashes, and whole in another");
    held.go_on();
}

/// Cleaning frees a page into which an object that is not durable may roll back. Here the page has k's v0 while v1 is written.
#[test]
fn schedule_5_a_page_that_an_object_may_be_needed_from_is_not_freed_under_it() {
    let life = Life::new();
    let [mut a, mut b] = life.clients();
    let v0 = filled("what stands in the page. ", 150);
    a.set("k", v0.clone());
    let at = life.place_of(v0.as_ref().unwrap()).unwrap();
    // The rest of its page is of others, who write again: it gains much.
    for round in 0..2 {
        for i in 0..6 {
            a.set(&format!("dead{i}"), filled(&format!("{round}{i}"), 150));
        }
    }
    rest(&*life.store);
    // A few pages more, and cleaning begins.
    let mut live = Vec::new();
    while free_pages(&*life.store) > 12 {
        let (key, value) = (format!("live{}", live.len()), filled(&format!("live{} ", live.len()), 150));
        a.set(&key, value);
        live.push(key);
        rest(&*life.store);
    }
    assert_eq!(life.copies_of(&v0), 1, "its page is not cleaned yet");
    let held = write_held(a, &[("k", value("v1"))]);
    let stands = |region: &SimRegion| region.to_bytes()[at..].starts_with(v0.as_ref().unwrap());
    // What was answered, and when; and each step that has cleaned a page.
    let mut more: Vec<(String, Position)> = Vec::new();
    let mut parts = Vec::new();
    while stands(&life.region) {
        let key = format!("more{}", more.len());
        b.set(&key, filled(&format!("{key} "), 150));
        more.push((key, life.recorder.acknowledged(0)));
        for _ in 0..12 {
            let (before, cleaned) = (life.position(), detail(&*life.store, "scm_cleaned_pages"));
            life.store.step();
            if detail(&*life.store, "scm_cleaned_pages") > cleaned {
                parts.push(before..life.position() + 1);
            }
        }
        assert!(more.len() < 40, "the page is never used again");
    }
    let trace = life.recorder.finish();
    let judge = |position: Position, region: SimRegion| {
        let store = open_again(region.clone());
        let answered = more.iter().filter(|(_, at)| *at <= position).map(|(key, _)| key);
        let keys: Vec<_> = live.iter().chain(answered).collect();
        let others = (0..6).map(|i| format!("dead{i}")).chain(more.iter().map(|(key, _)| key.clone()));
        let all = live.iter().cloned().chain(others).chain(["k".into()]);
        let seen = states(&mut Client::of(&*store), all);
        if seen["k"] != v0 && seen["k"] != value("v1") {
            return Err("k is neither what it was nor what it was to be".into());
        }
        if let Some(lost) = keys.into_iter().find(|key| seen[*key] != filled(&format!("{key} "), 150)) {
            return Err(format!("{lost} is lost"));
        }
        stays(&region, store, &seen, 2).map(|()| seen["k"].clone())
    };
    let mut outcomes = BTreeSet::new();
    power_lost(&trace, |image| judge(trace.len(), image.region(0)).map(|k| _ = outcomes.insert(k)));
    assert_eq!(outcomes.len(), 2, "v1 was torn in some crashes, and whole in another");
    let tried =
        crash_within(&trace, parts, 8, |position, image| judge(position, image.region(0)).map(|_| ()));
    assert!(tried.images > 50, "{tried}");
    held.go_on();
}
