//! Random histories as data: steps that can be left out one by one and still run.

use terrace_media_sim::Rng;

use super::Shape;

/// Keys of a history.
pub(super) const KEYS: u8 = 12;
/// Sessions of a history.
pub(super) const SESSIONS: usize = 2;
/// A jump of the clock. Expiries fall in the middle of one, so that what an engine's clock runs ahead after a restart, some
/// ten seconds, decides nothing.
pub(super) const JUMP_US: u64 = 400_000_000;

/// One step of a driver.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A session executes a batch.
    Batch {
        session: usize,
        /// All of it as one atomic group (sets alone).
        atomic: bool,
        cmds: Vec<Cmd>,
    },
    /// A session goes on with what is pending, once.
    Poll { session: usize },
    /// So many background steps.
    Background(u32),
    /// Every answer is waited for.
    Settle,
    /// A little time passes.
    Tick { us: u64 },
    /// [`JUMP_US`] pass.
    Jump,
    /// The store is closed, or the process dies, and it is opened again.
    Restart { clean: bool },
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cmd {
    pub key: u8,
    pub kind: CmdKind,
}

/// What it does. Stamps make every value and every expiry one of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum CmdKind {
    Set { len: usize, stamp: u32, expires: Option<Expires> },
    SetNumber { stamp: u32 },
    Delete,
    Append { len: usize, stamp: u32 },
    Incr { by: u32 },
    Expire { to: Option<Expires> },
    Get,
    Flush,
}

/// In the middle of the jump after `jumps - 1` more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expires {
    pub jumps: u8,
    pub stamp: u32,
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
        bytes.extend_from_slice(&rng.bits().to_le_bytes());
    }
    bytes.truncate(len.max(8));
    bytes
}

/// How a history leans.
struct Lean {
    deletes: u64,
    expiries: u64,
    large: u64,
    atomic: u64,
    restarts: u64,
    jumps: u64,
    flushes: u64,
    background: u64,
    keys: u64,
}

struct Planner<'a> {
    rng: Rng,
    lean: Lean,
    shape: &'a Shape,
    atomic: bool,
    kills: bool,
    stamp: u32,
}

/// The history of a seed. `groups`: atomic ones too; `kills`: the process may die in its middle.
pub(super) fn plan(seed: u64, shape: &Shape, groups: bool, kills: bool) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut one_of = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
    let lean = Lean {
        deletes: one_of(&[5, 15, 40]),
        expiries: one_of(&[0, 8, 25]),
        large: one_of(&[0, 4, 15]),
        atomic: one_of(&[0, 6, 20]),
        restarts: one_of(&[0, 0, 1, 3]),
        jumps: one_of(&[0, 2, 6]),
        flushes: one_of(&[0, 0, 0, 1]),
        background: one_of(&[1, 3, 6]),
        keys: one_of(&[3, 6, 12]),
    };
    let steps = one_of(&[30, 80, 160]);
    let mut planner = Planner { rng, lean, shape, atomic: groups, kills, stamp: 0 };
    (0..steps).map(|_| planner.step()).collect()
}

impl Planner<'_> {
    fn step(&mut self) -> Step {
        let percent = self.rng.below(100);
        let rare = self.rng.below(100);
        if rare < self.lean.restarts {
            return Step::Restart { clean: !self.kills || self.rng.one_in(2) };
        }
        if rare < self.lean.restarts + self.lean.jumps {
            return Step::Jump;
        }
        match percent {
            0..55 => self.batch(),
            55..58 => Step::Settle,
            58..64 => Step::Poll { session: self.session() },
            64..72 => Step::Tick { us: self.rng.below(80_000) },
            _ => Step::Background(1 + self.rng.below(self.lean.background) as u32),
        }
    }

    fn session(&mut self) -> usize {
        self.rng.below(SESSIONS as u64) as usize
    }

    fn batch(&mut self) -> Step {
        let session = self.session();
        let atomic = self.atomic && self.rng.below(100) < self.lean.atomic;
        let count = [1, 1, 1, 2, 4, 8][self.rng.below(6) as usize];
        let cmds = match atomic {
            // Small ones: a group must fit in a page.
            true => (0..2 + self.rng.below(3)).map(|_| self.set(60)).collect(),
            false => (0..count).map(|_| self.cmd()).collect(),
        };
        Step::Batch { session, atomic, cmds }
    }

    fn key(&mut self) -> u8 {
        self.rng.below(self.lean.keys) as u8
    }
    fn stamp(&mut self) -> u32 {
        self.stamp += 1;
        self.stamp
    }

    fn set(&mut self, longest: usize) -> Cmd {
        let len = 1 + self.rng.below(longest as u64) as usize;
        let expires = (self.rng.below(100) < self.lean.expiries).then(|| self.expires());
        Cmd { key: self.key(), kind: CmdKind::Set { len, stamp: self.stamp(), expires } }
    }
    fn expires(&mut self) -> Expires {
        Expires { jumps: 1 + self.rng.below(2) as u8, stamp: self.stamp() }
    }

    fn cmd(&mut self) -> Cmd {
        let shape = *self.shape;
        if self.rng.below(100) < self.lean.deletes {
            return Cmd { key: self.key(), kind: CmdKind::Delete };
        }
        if self.rng.below(100) < self.lean.large {
            let mut set = self.set(shape.large_bytes - shape.inline_bytes);
            if let CmdKind::Set { len, .. } = &mut set.kind {
                *len += shape.inline_bytes;
            }
            return set;
        }
        if self.rng.below(300) < self.lean.flushes {
            return Cmd { key: 0, kind: CmdKind::Flush };
        }
        if self.rng.below(100) < self.lean.expiries {
            let to = (!self.rng.one_in(4)).then(|| self.expires());
            return Cmd { key: self.key(), kind: CmdKind::Expire { to } };
        }
        let key = self.key();
        let kind = match self.rng.below(10) {
            0 | 1 => CmdKind::Get,
            2 => CmdKind::Append {
                len: 8 + self.rng.below(shape.inline_bytes as u64 / 3) as usize,
                stamp: self.stamp(),
            },
            3 => CmdKind::Incr { by: 1 + self.rng.below(1 << 30) as u32 },
            4 => CmdKind::SetNumber { stamp: self.stamp() },
            5 | 6 => return self.set(shape.inline_bytes),
            _ => return self.set(60),
        };
        Cmd { key, kind }
    }
}
