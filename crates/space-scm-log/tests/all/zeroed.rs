//! A node of which all that identifies it reads as zeros is missed, and no slot is taken for one that had a node by mistake: power is lost
//! anywhere, and then something is cleared.

use std::iter::once;
use std::sync::Arc;

use terrace_engine::{Expiry, OpKind};
use terrace_media_sim::SimRegion;
use terrace_space_scm_log::inspect::{Examined, Fault, NodeFault, examine_ordered};

use super::support::*;

/// docs/formats/scm.md, of an area that begins at byte 0.
const LINES_AT: usize = 512 + 3 * 448;
const META_BYTES: usize = 128;
const SLOT_BYTES: usize = META_BYTES + 8 * 28;
const SLOTS: usize = 5;

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Where the slots of pages of nodes start.
fn slots(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let of_nodes = |page: &usize| {
        let copies = [0, 64].map(|copy| LINES_AT + page * 128 + copy);
        bytes[copies.into_iter().max_by_key(|at| word(bytes, at + 8)).unwrap() + 16] == 5
    };
    let first = LINES_AT + geometry().pages() * 128 + 128 + 64;
    let pages: Vec<usize> = (0..geometry().pages()).filter(of_nodes).collect();
    let page = move |page: usize| first + page * geometry().page_bytes;
    pages.into_iter().flat_map(move |of| (0..SLOTS).map(move |i| page(of) + i * SLOT_BYTES))
}

fn examined(region: &SimRegion) -> Examined {
    examine_ordered(Arc::new(region.clone()), 0, (geometry(), STORE_ID), HASHER, &|_, _| {})
}

fn has(found: &Examined, what: NodeFault) -> bool {
    found.faults.iter().any(|fault| matches!(fault, Fault::Node { what: of, .. } if *of == what))
}

/// A history in which nodes come, are made anew, are moved, and go: with a round, and without one in cleaning.
fn lived() -> Life {
    let life = Life::new();
    let [mut a] = life.clients();
    let key = |of: &str, i: usize| format!("{of}{i:02}");
    (0..24).for_each(|i| a.set(&key("k", i), value("there")));
    rest(&*life.store);
    let kept: Vec<String> = (0..6).map(|i| format!("{}{i:02}", "what many begin with, ".repeat(9))).collect();
    kept.iter().for_each(|key| a.set(key, value("kept")));
    (0..20).for_each(|i| a.set(&key("k", i), None));
    rest(&*life.store);
    // Nodes of what is forgotten go while pages are learned.
    let mut batch = writes(&[], Expiry::Clear);
    batch.push(0, b"", OpKind::Flush { db: None });
    assert!(a.run(&mut batch).is_some());
    rest(&*life.store);
    (0..30).for_each(|i| a.set(&key("n", i), filled("more", 40)));
    rest(&*life.store);
    life
}

#[test]
fn whatever_a_crash_leaves_only_nodes_are_missed() {
    use_nodes();
    let life = lived();
    let trace = life.recorder.finish();
    let (mut missed, mut untold, mut others) = (0, 0, 0);
    let tried = crash_within(&trace, once(0..trace.len() + 1), 8, |_, image| {
        let bytes = image.region(0).to_bytes();
        let whole = examined(&SimRegion::from_image(bytes.clone()));
        if !whole.faults.is_empty() {
            return Err(format!("before something is cleared: {:?}", whole.faults));
        }
        for (i, slot) in slots(&bytes).enumerate() {
            let mut bytes = bytes.clone();
            bytes[slot..slot + META_BYTES].fill(0);
            let region = SimRegion::from_image(bytes);
            let found = examined(&region);
            // One that loses the text of its fence is told otherwise.
            let is_gone = found.nodes.nodes < whole.nodes.nodes && !has(&found, NodeFault::Fence);
            let is_told = has(&found, NodeFault::Zeroed);
            if is_told && !is_gone {
                return Err(format!("the slot at {slot} had no node: {:?}", found.faults));
            }
            *match (is_gone, is_told) {
                (false, _) => &mut others,
                (true, true) => &mut missed,
                (true, false) => &mut untold,
            } += 1;
            let is_damaged = !found.faults.is_empty();
            if i % 8 == 0 && is_damaged != try_open_at(region, false, START_MS).is_err() {
                return Err(format!("an opening says something else than {:?}", found.faults));
            }
        }
        Ok(())
    });
    assert!(tried.images > 200 && missed > 1000 && others > 1000, "{tried}: {missed}, {others}");
    // In the first moments of a store, and while cleaning is about to let one go.
    assert!(untold * 50 < missed, "{untold} of {missed}");
}
