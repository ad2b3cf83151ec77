//! The stores that are mangled: tiny, valid, in the states that recovery tells apart.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use terrace_media_sim::Rng;
use terrace_testkit::sweep::{MediaKind, Subject};

use super::session::{Answer, Open};
use crate::contents::{Contents, blank, contents_of, media_of};
use crate::subjects::WITH_BLOCKS;

/// Keys of a store.
const KEYS: u64 = 10;
/// Where there is a middle tier: more than DRAM holds.
const KEYS_MANY: u64 = 70;

/// A store.
pub(super) struct Image {
    /// What it went through.
    pub name: &'static str,
    /// The content of its media.
    pub media: Contents,
    /// Every value that a key ever had.
    pub written: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
}

/// How a store came to be.
struct History {
    name: &'static str,
    operations: u64,
    /// One value in so many is a large one; 0 for none.
    large: u64,
    /// Background steps after each operation.
    steps: u32,
    clean: bool,
}

const HISTORIES: [History; 5] = [
    History { name: "log alone", operations: 12, large: 0, steps: 0, clean: false },
    History { name: "blocks and log", operations: 220, large: 0, steps: 1, clean: false },
    History { name: "large values", operations: 90, large: 4, steps: 2, clean: false },
    History { name: "closed", operations: 60, large: 9, steps: 1, clean: true },
    History { name: "reclaimed", operations: 700, large: 12, steps: 3, clean: false },
];

/// An engine whose stores are mangled, by its place in [`WITH_BLOCKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuzz) struct Engine(pub usize);

impl Engine {
    /// Its name.
    pub fn name(self) -> &'static str {
        WITH_BLOCKS[self.0].0
    }
    /// Makes and opens its stores.
    pub fn subject(self) -> &'static (dyn Subject + Sync) {
        WITH_BLOCKS[self.0].1
    }
}

/// The stores of an engine on a kind of media.
pub(super) fn images(engine: Engine, kind: MediaKind) -> &'static [Image] {
    static IMAGES: [[OnceLock<Vec<Image>>; 3]; WITH_BLOCKS.len()] =
        [const { [const { OnceLock::new() }; 3] }; WITH_BLOCKS.len()];
    let images = &IMAGES[engine.0][kind as usize];
    images.get_or_init(|| HISTORIES.iter().map(|history| make(engine, kind, history)).collect())
}

fn make(engine: Engine, kind: MediaKind, history: &History) -> Image {
    let shape = engine.subject().shape(kind);
    let on = media_of(kind, &blank(engine.subject(), kind));
    let mut open = Open::new(engine, &on, true).unwrap_or_else(|error| panic!("a new store: {error}"));
    let mut rng = Rng::new(history.operations);
    let (keys, shorter) = if kind == MediaKind::Tiered { (KEYS_MANY, 1) } else { (KEYS, 2) };
    let mut written: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for number in 0..history.operations {
        let key = key(rng.below(keys));
        if rng.one_in(6) {
            open.delete(&key);
        } else {
            let longest =
                if rng.one_in(history.large) { shape.large_bytes } else { shape.inline_bytes / shorter };
            let len = 1 + rng.below(longest as u64) as usize;
            let mut value = format!("{number}.").into_bytes();
            value.resize(len, b'a' + (number % 26) as u8);
            match open.set(&key, &value) {
                Answer::Error(_) => {}
                _ => written.entry(key).or_default().push(value),
            }
        }
        open.steps(history.steps);
    }
    if history.clean {
        open.close().unwrap_or_else(|error| panic!("closing: {error}"));
    } else {
        open.kill();
    }
    Image { name: history.name, media: contents_of(&on), written }
}

/// The bytes of a key.
pub(super) fn key(number: u64) -> Vec<u8> {
    let mut bytes = format!("key{number}").into_bytes();
    bytes.resize(bytes.len() + number as usize * 3, b'.');
    bytes
}
