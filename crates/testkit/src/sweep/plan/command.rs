//! The operations of a history, and the bytes of its keys and values.

use terrace_engine::ExpireIf;
use terrace_media_sim::Rng;

/// Keys that operations are drawn of.
const DRAWN: u8 = 16;

/// One operation of a batch.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Cmd {
    pub key: u8,
    pub kind: CmdKind,
}

/// What it does. Stamps make every value and every expiry one of a kind.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum CmdKind {
    Set {
        len: usize,
        stamp: u32,
        expires: Option<Expires>,
        when: When,
        old: bool,
    },
    SetNumber {
        stamp: u32,
    },
    Delete {
        when: When,
        old: bool,
    },
    Append {
        len: usize,
        stamp: u32,
        front: bool,
        create: bool,
        when: When,
    },
    Incr {
        by: u32,
    },
    Expire {
        to: Option<Expires>,
        only: ExpireIf,
        value: bool,
    },
    Get,
    Flush {
        db: Option<u8>,
    },
    /// Exchanges databases 1 and 2. Alone in its batch.
    Swap,
}

/// When a write goes ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum When {
    Always,
    Absent,
    Present,
    /// If the key has the version that the driver saw last.
    Version,
}

/// In the middle of the jump after `jumps - 1` more; of the last one, which is the past, for 0.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Expires {
    pub jumps: u8,
    pub stamp: u32,
}

impl CmdKind {
    /// Whether its effect is the same if the key was evicted before.
    pub fn is_blind(&self) -> bool {
        match self {
            Self::Set { when, old, .. } => *when == When::Always && !old,
            Self::Delete { when, old } => *when == When::Always && !old,
            Self::SetNumber { .. } | Self::Get | Self::Flush { .. } => true,
            Self::Append { .. } | Self::Incr { .. } | Self::Expire { .. } | Self::Swap => false,
        }
    }
}

/// The database of a key. The keys from [`DRAWN`] on are those of database 1 in database 2, where an exchange puts them.
pub(in super::super) fn db_of(key: u8) -> u8 {
    if key >= DRAWN { 2 } else { u8::from(key % 4 == 3) }
}

/// The same key in the other one of two databases that are exchanged.
pub(in super::super) fn exchanged(key: u8) -> Option<u8> {
    match db_of(key) {
        0 => None,
        1 => Some(DRAWN + key / 4),
        _ => Some((key - DRAWN) * 4 + 3),
    }
}

/// The bytes of a key; half of the keys begin with a stem.
pub(in super::super) fn key_bytes(key: u8, stem: &str) -> Vec<u8> {
    let key = if key >= DRAWN { (key - DRAWN) * 4 + 3 } else { key };
    let stem = if key % 2 == 0 { stem } else { "" };
    let mut bytes = format!("{stem}key{key}").into_bytes();
    bytes.resize(bytes.len() + usize::from(key) * 5 % 37, b'.');
    bytes
}

/// The bytes of a value.
pub(in super::super) fn value_bytes(len: usize, stamp: u32) -> Vec<u8> {
    let mut bytes = format!("v{stamp:x}.").into_bytes();
    let mut rng = Rng::new(u64::from(stamp));
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.bits().to_le_bytes());
    }
    bytes.truncate(len.max(8));
    bytes
}
