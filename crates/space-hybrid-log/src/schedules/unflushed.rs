//! Invariant: once an epoch has gone by after a walk over pages that are not flushed, each old record has been shown, whole, or something
//! newer has been issued in its place, or its page has been flushed. Blocks of the log are freed on account of that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool as Plain, Ordering::SeqCst};

use terrace_engine::record::RecordView;
use terrace_engine::space::{Context, Durable, Records};
use terrace_sync::schedules::{at_once, explore, explore_planted};

use super::pages::{step, world};
use crate::sync::yield_now;
use terrace_blocks::schedules::{Bug, WRITER};

/// Keys 1 and 2 are written once, then key 1 again, so often and in a fresh page or not.
fn a_walk_misses_nothing(bug: Bug, writes: &'static [bool], flushes: bool) {
    let world = Arc::new(world::<true>(bug, 0));
    let mut local = world.space.attach(WRITER).unwrap();
    [1, 2].into_iter().for_each(|number| world.write(&mut local, number, false));
    let seq = world.space.last_seq();
    let written = Arc::new(Plain::new(false));
    let (walking, writing, stepping, until) = (world.clone(), world.clone(), world.clone(), written.clone());
    at_once(vec![
        Box::new(move || {
            let (mut after, mut shown) = (0, Vec::new());
            let is_first = |version: u64| version <= 1;
            loop {
                let next = walking.walk(after, &is_first, &mut |_, version, record| {
                    let view = RecordView::decode(record).unwrap();
                    assert_eq!((version, view.head.version), (1, 1));
                    let value = view.value.chunks(8).all(|word| word == 1u64.to_le_bytes());
                    assert!(value && !view.value.is_empty(), "a mixture of two values");
                    shown.push(view.key[0]);
                });
                match next {
                    Some(same) if same == after => yield_now(),
                    Some(next) => after = next,
                    None => break,
                }
            }
            let epoch = walking.advance_epoch();
            while !walking.epoch_passed(epoch) {
                yield_now();
            }
            for number in [1, 2] {
                let is_replaced = walking.complete(number) > 1;
                let is_flushed = walking.space.persisted_seq() >= seq;
                assert!(
                    shown.contains(&(number as u8)) || is_replaced || is_flushed,
                    "key {number} is missed"
                );
            }
        }),
        Box::new(move || {
            writes.iter().for_each(|&fresh| writing.write(&mut local, 1, fresh));
            writing.space.detach(&mut local);
            written.store(true, SeqCst);
        }),
        Box::new(move || {
            while flushes && !until.load(SeqCst) {
                step(&stepping);
                yield_now();
            }
        }),
    ]);
}

#[test]
fn a_record_is_updated_in_place_while_its_page_is_walked() {
    explore(|| a_walk_misses_nothing(Bug::None, &[false, false], false));
}

#[test]
fn a_record_is_replaced_elsewhere_while_its_page_is_walked() {
    explore(|| a_walk_misses_nothing(Bug::None, &[true, true], false));
}

#[test]
fn a_page_is_flushed_while_it_is_walked() {
    explore(|| a_walk_misses_nothing(Bug::None, &[false, true], true));
}

#[test]
#[should_panic(expected = "key 1 is missed")]
fn planted_what_a_walk_saw_counts_before_its_writer_has_left() {
    explore_planted(|| a_walk_misses_nothing(Bug::EpochsLie, &[false, false], false));
}
