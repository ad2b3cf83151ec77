//! The memory ordering of a record that is rewritten in its place, explored exhaustively within small bounds: the product's own
//! `words.rs`, with loom's primitives in the place of its `sync` module.
//!
//! Invariant: a reader gets one version with the value of that version, and never an older one than it got before.
//!
//! Not shown: that the last store of the version must be a release. Loom finds nothing wrong when it is relaxed.
#![cfg(not(shuttle))]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

#[path = "../src/words.rs"]
#[expect(dead_code, reason = "what is not under test here")]
mod words;

/// What `words.rs` finds under `crate::sync`.
mod sync {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicU64, fence};
}

use std::sync::atomic::Ordering::*;

use loom::sync::Arc;
use loom::thread;
use terrace_engine::record::{Kind, NewRecord};
use terrace_engine::shared_words::SharedWords;
use terrace_engine::space::Want;
use terrace_index::Key;
use terrace_media::Buffer;

use crate::sync::{AtomicU64, fence, spin_loop};
use crate::words::Words;

/// Words of a record with a key of one word and a value of one word.
const WORDS: usize = 5;
const VALUE_WORD: usize = 4;
const WRITING: u64 = 1 << 63;

type Record = [AtomicU64; WORDS];

trait Kernel: 'static {
    fn rewrite(record: &Record, version: u64);
    /// Version and value.
    fn read(record: &Record) -> (u64, u64);
}

fn record(version: u64, value: &[u8]) -> NewRecord<'_> {
    NewRecord {
        version,
        kind: Kind::Value,
        db: 0,
        flags: 0,
        state: 0,
        expire_at: 0,
        token: 0,
        key: b"the key!",
        value,
    }
}

struct Product;

impl Kernel for Product {
    fn rewrite(words: &Record, version: u64) {
        Words(words).rewrite(&record(version, &version.to_le_bytes()));
    }
    fn read(words: &Record) -> (u64, u64) {
        let words = Words(words);
        assert!(!words.bytes_equal(3, b"not this"));
        let mut out = Vec::new();
        let head = words.consistently(|head| {
            out.clear();
            words.copy_bytes(head.meta.value_word(), head.meta.value_bytes(), &mut out);
            head
        });
        (head.version, u64::from_le_bytes(out.try_into().unwrap()))
    }
}

/// As most reads are done.
struct Once;

impl Kernel for Once {
    fn rewrite(words: &Record, version: u64) {
        Product::rewrite(words, version);
    }
    fn read(words: &Record) -> (u64, u64) {
        let key = Key { hash: 0, db: 0, bytes: b"the key!" };
        let mut out = Buffer::new();
        loop {
            if let Some(head) = Words(words).fetch_once(&key, Want::Value, &mut out) {
                return (head.version, u64::from_le_bytes(out[..].try_into().unwrap()));
            }
            assert!(out.is_empty());
            spin_loop();
        }
    }
}

/// The same where the record's length may change, too.
struct Replacing;

impl Kernel for Replacing {
    fn rewrite(words: &Record, version: u64) {
        Words(words).replace(&record(version, &version.to_le_bytes()[..1]));
    }
    fn read(words: &Record) -> (u64, u64) {
        let words = Words(words);
        let mut out = Vec::new();
        let head = words.consistently(|head| {
            out.clear();
            words.copy_bytes(head.meta.value_word(), head.meta.value_bytes(), &mut out);
            head
        });
        let (version, length) = (head.version, if head.version == 1 { 8 } else { 1 });
        assert_eq!(out.len(), length, "a mixture of two records");
        (version, u64::from(out[0]))
    }
}

const NO_MARK: u8 = 1;
const NO_FENCE_AFTER_MARK: u8 = 2;
const NO_FENCE_BEFORE_CHECK: u8 = 3;
const NO_CHECK: u8 = 4;

/// The same for the two words that matter, with one step left out.
struct Broken<const BUG: u8>;

impl<const BUG: u8> Kernel for Broken<BUG> {
    fn rewrite(words: &Record, version: u64) {
        if BUG != NO_MARK {
            words[0].store(words[0].load(Relaxed) | WRITING, Relaxed);
        }
        if BUG != NO_FENCE_AFTER_MARK {
            fence(Release);
        }
        words[VALUE_WORD].store(version, Relaxed);
        words[0].store(version, Release);
    }
    fn read(words: &Record) -> (u64, u64) {
        loop {
            let version = words[0].load(Acquire);
            if version & WRITING == 0 {
                let value = words[VALUE_WORD].load(Relaxed);
                if BUG != NO_FENCE_BEFORE_CHECK {
                    fence(Acquire);
                }
                if BUG == NO_CHECK || words[0].load(Relaxed) == version {
                    return (version, value);
                }
            }
            spin_loop();
        }
    }
}

/// A record of version 1 is rewritten `rewrites` times while another thread reads it `reads` times.
fn readers_see_whole_records<K: Kernel>(rewrites: u64, reads: usize) {
    let mut model = loom::model::Builder::new();
    // Three switches that are not forced: enough for a reader to be caught on both sides of a rewrite.
    model.preemption_bound = Some(3);
    model.check(move || {
        let words: Arc<Record> = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
        Words(&*words).write(&record(1, &1u64.to_le_bytes()));
        let writer = {
            let words = words.clone();
            thread::spawn(move || (2..2 + rewrites).for_each(|version| K::rewrite(&words, version)))
        };
        let mut last = 0;
        for _ in 0..reads {
            let (version, value) = K::read(&words);
            assert_eq!(version, value, "a mixture of two records");
            assert!(version >= last, "from version {last} back to {version}");
            last = version;
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_reader_sees_one_version() {
    readers_see_whole_records::<Product>(1, 1);
}

#[test]
fn a_reader_with_one_try_sees_one_version() {
    readers_see_whole_records::<Once>(1, 1);
}

#[test]
fn a_reader_sees_one_length() {
    readers_see_whole_records::<Replacing>(1, 1);
}

#[test]
fn a_reader_never_goes_back() {
    readers_see_whole_records::<Broken<0>>(2, 2);
}

#[test]
#[should_panic(expected = "a mixture of two records")]
fn planted_no_mark() {
    readers_see_whole_records::<Broken<NO_MARK>>(1, 1);
}

#[test]
#[should_panic(expected = "a mixture of two records")]
fn planted_no_fence_after_the_mark() {
    readers_see_whole_records::<Broken<NO_FENCE_AFTER_MARK>>(1, 1);
}

#[test]
#[should_panic(expected = "a mixture of two records")]
fn planted_no_fence_before_the_check() {
    readers_see_whole_records::<Broken<NO_FENCE_BEFORE_CHECK>>(1, 1);
}

#[test]
#[should_panic(expected = "a mixture of two records")]
fn planted_no_second_look() {
    readers_see_whole_records::<Broken<NO_CHECK>>(1, 1);
}
