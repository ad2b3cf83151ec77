//! Operations of one engine and nothing else, for `cargo xtask instructions`: keys and values are made ahead, one thread does everything,
//! and [`mark`] is called where a case begins and ends, so that a profiler can tell cases apart.
//!
//! ```text
//!   execute ENGINE DIR      prints a line for each case, in the order of the marks: key and value bytes, batch, operation, operations
//! ```

use std::hint::black_box;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use terrace::engine::{Batch, Condition, Expiry, OpKind, Progress, Reply, Session};
use terrace::{OpenStore, Options, Tier};

/// Records of a case: few enough that all lie in DRAM, many enough that a table grows to its usual load.
const RECORDS: u64 = 3000;
/// Lengths of keys and values.
const LENGTHS: [(usize, usize); 2] = [(8, 64), (24, 1000)];
/// Operations in a batch.
const BATCHES: [usize; 3] = [1, 16, 64];
/// What is done, in this order: each case leaves what the next one needs.
const CASES: [Case; 5] = [Case::Get, Case::Miss, Case::Update, Case::Set, Case::Delete];

/// An operation on each of [`RECORDS`] keys.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    /// Of keys that are there.
    Get,
    /// A get of keys that are not there.
    Miss,
    /// A set of keys that are there, with a value of the same length.
    Update,
    /// A set of keys that are not there.
    Set,
    /// Of what [`Case::Set`] has set.
    Delete,
}

/// Where a case begins, and where it ends.
#[inline(never)]
fn mark(case: u64) {
    black_box(case);
}

/// Keys and values of one length.
struct Content {
    keys: Vec<Vec<u8>>,
    absent: Vec<Vec<u8>>,
    value: Vec<u8>,
}

impl Content {
    fn new(key_bytes: usize, value_bytes: usize) -> Self {
        let key = |i: u64| {
            // Multiplied by an odd number, so that neighbours share nothing but their length.
            let word = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            word.iter().copied().cycle().take(key_bytes).collect()
        };
        Self {
            keys: (0..RECORDS).map(key).collect(),
            absent: (RECORDS..2 * RECORDS).map(key).collect(),
            value: (0..value_bytes).map(|i| i as u8).collect(),
        }
    }
}

fn push(batch: &mut Batch, case: Case, key: &[u8], value: &[u8]) {
    let kind = match case {
        Case::Get | Case::Miss => OpKind::Get { value: true },
        Case::Update | Case::Set => OpKind::Set {
            value: batch.bytes(value),
            condition: Condition::Always,
            expiry: Expiry::Clear,
            flags: Some(0),
            old_value: false,
        },
        Case::Delete => OpKind::Delete { condition: Condition::Always, old_value: false },
    };
    batch.push(0, key, kind);
}

fn run(
    store: &OpenStore,
    session: &mut dyn Session,
    content: &Content,
    case: Case,
    size: usize,
) -> anyhow::Result<()> {
    let keys = match case {
        Case::Get | Case::Update => &content.keys,
        Case::Miss | Case::Set | Case::Delete => &content.absent,
    };
    let mut batch = Batch::new();
    for keys in keys.chunks(size) {
        for key in keys {
            push(&mut batch, case, key, &content.value);
        }
        session.execute(&mut batch);
        let settled = session.wait(&mut batch);
        for i in 0..batch.len() {
            let reply = batch.reply(i, &settled);
            let is_right = match case {
                Case::Get => {
                    matches!(reply, Reply::Hit { value: Some(found), .. } if batch.output(found) == content.value)
                }
                Case::Miss => reply == Reply::Miss,
                Case::Update | Case::Set => matches!(reply, Reply::Stored { .. }),
                Case::Delete => matches!(reply, Reply::Deleted { .. }),
            };
            ensure!(is_right, "{case:?} was answered by {reply:?}");
        }
        batch.clear();
        // What background threads do elsewhere is done before the next batch would have to wait for it.
        while store.step() == Progress::Worked {}
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let engine = arguments.next().and_then(|name| name.into_string().ok()).context("expected ENGINE DIR")?;
    let dir = PathBuf::from(arguments.next().context("expected ENGINE DIR")?);
    for (key_bytes, value_bytes) in LENGTHS {
        let dir = dir.join(value_bytes.to_string());
        let keeps = engine != "dram";
        let store = terrace::open(Options {
            engine: engine.clone(),
            dram: Some(128 << 20),
            // With a log that all cases together do not fill: no operation waits for a page to be flushed.
            ssd: keeps.then_some(Tier { bytes: 1 << 30, place: None }),
            dir: keeps.then(|| dir.clone()),
            background_threads: 0,
            ..Options::default()
        })?;
        let mut session = store.session()?;
        let content = Content::new(key_bytes, value_bytes);
        // Once for the memory that batches, logs and pages take at first.
        run(&store, &mut *session, &content, Case::Update, 64)?;
        for size in BATCHES {
            for case in CASES {
                println!("{key_bytes} {value_bytes} {size} {case:?} {RECORDS}");
                mark(0);
                run(&store, &mut *session, &content, case, size)?;
                mark(1);
            }
        }
        drop(session);
        store.close()?;
    }
    Ok(())
}
