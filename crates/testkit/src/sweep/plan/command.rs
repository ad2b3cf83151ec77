//! The operations of a history, and the bytes of its keys and values.

use terrace_engine::ExpireIf;
use terrace_media_sim::Rng;

/// One operation of a batch.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Cmd {
    pub key: u8,
    pub kind: CmdKind,
}

/// What it does. Stamps make every value and every expiry one of a kind.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum CmdKind {
    Set { len: usize, stamp: u32, expires: Option<Expires>, when: When, old: bool },
    SetNumber { stamp: u32 },
    Delete { when: When, old: bool },
    Append { len: usize, stamp: u32, front: bool, create: bool, when: When },
    Incr { by: u32 },
    Expire { to: Option<Expires>, only: ExpireIf, value: bool },
    Get,
    Flush { db: Option<u8> },
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
            Self::Append { .. } | Self::Incr { .. } | Self::Expire { .. } => false,
        }
    }
}

/// The database of a key.
pub(in super::super) fn db_of(key: u8) -> u8 {
    u8::from(key % 4 == 3)
}

/// The bytes of a key.
pub(in super::super) fn key_bytes(key: u8) -> Vec<u8> {
    let mut bytes = format!("key{key}").into_bytes();
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
