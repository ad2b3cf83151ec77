//! Small seeded histories for sick devices.

use terrace_testkit::rng::Rng;
use terrace_testkit::sweep::Shape;

/// Keys of a history.
pub(super) const KEYS: u8 = 10;
/// Sessions of a history.
pub(super) const SESSIONS: usize = 2;

/// One step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A session executes a batch. Without `wait` its answer is asked for later.
    Batch { session: usize, atomic: bool, wait: bool, cmds: Vec<Cmd> },
    /// So many background steps.
    Background(u32),
    /// Every answer is waited for.
    Settle,
    /// Time passes.
    Tick { us: u64 },
    /// The store is closed and opened again.
    Restart,
    /// The process dies, and the store is opened with what its log holds.
    Kill,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cmd {
    pub key: u8,
    pub kind: CmdKind,
}

/// What it does. Stamps make every value one of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum CmdKind {
    /// `expire_s`: so many seconds after the start of the history, 0 for never.
    Set {
        len: usize,
        stamp: u32,
        expire_s: u32,
    },
    Append {
        len: usize,
        stamp: u32,
    },
    Delete,
    Get,
    Flush,
}

/// The bytes of a key.
pub(super) fn key_bytes(key: u8) -> Vec<u8> {
    let mut bytes = format!("key{key}").into_bytes();
    bytes.resize(bytes.len() + usize::from(key) * 5 % 37, b'.');
    bytes
}

/// The bytes of a value.
pub(super) fn value_bytes(len: usize, stamp: u32) -> Vec<u8> {
    let mut bytes = format!("v{stamp:x}.").into_bytes();
    let mut rng = Rng::new(u64::from(stamp));
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(len.max(8));
    bytes
}

/// The history of a seed. More writes than the pages in DRAM hold, so that blocks are flushed, read back and reclaimed.
pub(super) fn plan(seed: u64, shape: &Shape) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut stamp = (seed as u32) << 12;
    let large = *rng.pick(&[0, 5, 15]);
    let deletes = *rng.pick(&[5, 20]);
    let restarts = *rng.pick(&[0, 3]);
    let mut steps = Vec::new();
    for _ in 0..*rng.pick(&[30, 60, 90]) {
        if rng.percent(restarts) {
            steps.push(if rng.percent(50) { Step::Restart } else { Step::Kill });
        }
        match rng.below(100) {
            0..8 => steps.push(Step::Settle),
            8..14 => steps.push(Step::Tick { us: rng.below(6_000_000) }),
            14..40 => steps.push(Step::Background(1 + rng.below(4) as u32)),
            _ => {}
        }
        let atomic = rng.percent(8);
        let count = if atomic { 2 } else { *rng.pick(&[1, 1, 2, 3]) };
        let mut cmds: Vec<Cmd> = Vec::new();
        while cmds.len() < count {
            let key = rng.below(u64::from(KEYS)) as u8;
            if cmds.iter().any(|cmd| cmd.key == key) {
                continue;
            }
            stamp += 1;
            let len = 1 + rng.below(shape.inline_bytes as u64) as usize;
            let expire_s = if rng.percent(10) { 1_000_000 + stamp % 1000 } else { 0 };
            let kind = match rng.below(100) {
                _ if atomic => CmdKind::Set { len: len.min(60), stamp, expire_s: 0 },
                p if p < deletes => CmdKind::Delete,
                p if p < deletes + large => CmdKind::Set {
                    len: shape.inline_bytes
                        + rng.below((shape.large_bytes - shape.inline_bytes) as u64) as usize,
                    stamp,
                    expire_s: 0,
                },
                p if p < 50 => CmdKind::Get,
                p if p < 60 => CmdKind::Append { len: 20, stamp },
                _ => CmdKind::Set { len, stamp, expire_s },
            };
            cmds.push(Cmd { key, kind });
        }
        if !atomic && rng.percent(1) {
            cmds = vec![Cmd { key: 0, kind: CmdKind::Flush }];
        }
        let session = rng.below(SESSIONS as u64) as usize;
        steps.push(Step::Batch { session, atomic, wait: rng.percent(60), cmds });
    }
    steps
}
