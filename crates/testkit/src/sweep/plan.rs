//! Random histories as data: how one behaves, and steps that can be left out one by one and still run.

use terrace_engine::{Durability, ExpireIf};
use terrace_media_sim::{Model, QueueOrder, Rng};

use super::{MediaKind, Resized, Setup, Shape};

mod command;
mod lean;

pub(super) use command::{Cmd, CmdKind, Expires, When, db_of, exchanged, key_bytes, value_bytes};
use lean::Lean;

/// Keys of a history: what operations are drawn of, and four that only an exchange of databases fills.
pub(super) const KEYS: u8 = 20;
/// One step in so many is such an exchange.
const SWAPS: u64 = 60;
/// Sessions of a history at most.
pub(super) const SESSIONS: usize = 3;
/// A jump of the clock. Expiries fall in the middle of one, so that what an engine's clock runs ahead after a restart, some
/// ten seconds, decides nothing.
pub(super) const JUMP_US: u64 = 400_000_000;
/// Steps of one mood: then the history leans another way.
const MOOD_STEPS: u64 = 40;
/// Of 200 steps, those that resize a tier; and where blocks of large values are to move.
const RESIZES: u64 = 12;
const RESIZES_TO_MOVE: u64 = 40;
/// One history in so many begins with making the store.
const FRESH: u64 = 8;

/// The history of a seed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub seed: u64,
    pub manner: Manner,
    pub steps: Vec<Step>,
}

/// What holds from a history's beginning to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Of subjects that have variants, which.
    pub variant: u64,
    /// It begins with making the store.
    pub fresh: bool,
    pub sessions: usize,
    /// The store is a cache.
    pub evict: bool,
    /// When reads of a block device complete.
    pub order: QueueOrder,
    /// What may survive of a line.
    pub model: Model,
    /// A background step slips in at one in so many of the places where one could; 0 for none.
    pub slip: u64,
}

/// One step of a driver.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A session executes a batch.
    Batch {
        session: usize,
        /// All of it as one atomic group: no flushes, no numbers, no versions.
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
    /// A tier is to have so many bytes.
    Resize { tier: &'static str, bytes: u64 },
    /// The store is closed, or the process dies, and it is opened again.
    Restart { clean: bool },
}

struct Planner<'a> {
    rng: Rng,
    lean: Lean,
    shape: &'a Shape,
    manner: Manner,
    /// There is a log: groups are atomic.
    logged: bool,
    resizes: Vec<Resized>,
    /// Steps of 200 that resize.
    resizes_of_200: u64,
    stamp: u32,
}

impl Plan {
    pub fn new(seed: u64, setup: &Setup<'_>) -> Self {
        Self::draw(seed, Rng::new(seed), u64::MAX, setup)
    }

    /// As [`Plan::new`] with these draws, of at most so many steps and none once the draws are used up.
    pub fn draw(seed: u64, mut rng: Rng, steps_max: u64, setup: &Setup<'_>) -> Self {
        let manner = Manner::new(seed, setup.options.media, &mut rng);
        let mut one_of = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
        let steps = one_of(&[20, 40, 80, 120, 200]).min(steps_max);
        let moves_large = setup.subject.moves_large();
        let lean = Lean::of(&mut rng, moves_large);
        let resizes = setup.subject.resizes(setup.options.media);
        let resizes_of_200 = match (resizes.is_empty(), moves_large) {
            (true, _) => 0,
            (false, false) => RESIZES,
            (false, true) => RESIZES_TO_MOVE,
        };
        let logged = setup.options.durability != Durability::None;
        let mut planner =
            Planner { rng, lean, shape: &setup.shape, manner, logged, resizes, resizes_of_200, stamp: 0 };
        let mut all = Vec::new();
        for _ in 0..steps {
            if planner.rng.is_used_up() {
                break;
            }
            if planner.rng.one_in(MOOD_STEPS) {
                planner.lean = Lean::of(&mut planner.rng, moves_large);
            }
            planner.step(&mut all);
        }
        Self { seed, manner, steps: all }
    }

    /// What follows the recovery from a crash of a history.
    pub fn after_crash(&self, seed: u64, setup: &Setup<'_>, steps: usize) -> Self {
        let mut next = Self::new(seed, setup);
        next.steps.truncate(steps);
        next.manner = Manner { fresh: false, evict: self.manner.evict, ..next.manner };
        if next.manner.evict {
            next.steps.iter_mut().for_each(Step::tame);
        }
        next
    }

    pub fn with_steps(&self, steps: &[Step]) -> Self {
        Self { steps: steps.to_vec(), ..*self }
    }
}

impl Manner {
    fn new(seed: u64, media: MediaKind, rng: &mut Rng) -> Self {
        let shuffled = QueueOrder::Shuffled { seed: rng.bits() };
        Self {
            variant: seed,
            fresh: seed.is_multiple_of(FRESH),
            sessions: [1, 2, 2, 3, 3][rng.below(5) as usize],
            evict: rng.one_in(8),
            order: if media.is_read_late() && !rng.one_in(3) { shuffled } else { QueueOrder::InOrder },
            model: if rng.one_in(3) { Model::Strict } else { Model::Prefix },
            slip: [0, 2, 8][rng.below(3) as usize],
        }
    }
}

impl Step {
    /// Leaves out what a store that evicts may answer in several ways that matter to what follows.
    fn tame(&mut self) {
        if let Self::Batch { cmds, atomic, .. } = self {
            // What a delete finds evicted already, it alone leaves undone; a group's effects are told as one.
            let sets_alone = *atomic;
            cmds.retain(|cmd| match cmd.kind {
                CmdKind::Set { .. } => cmd.kind.is_blind(),
                _ => !sets_alone && cmd.kind.is_blind(),
            });
            if cmds.is_empty() {
                *self = Self::Background(1);
            }
        }
    }
}

impl Planner<'_> {
    fn step(&mut self, steps: &mut Vec<Step>) {
        let percent = self.rng.below(100);
        let rare = self.rng.below(200);
        let (restarts, jumps) = (self.lean.restarts, self.lean.jumps * 2);
        if rare < restarts {
            let clean = self.rng.one_in(2);
            return steps.push(Step::Restart { clean });
        }
        if rare < restarts + jumps {
            return steps.push(Step::Jump);
        }
        if rare >= 200 - self.resizes_of_200 {
            return steps.push(self.resize());
        }
        let session = self.rng.below(self.manner.sessions as u64) as usize;
        // Without a log a crash takes what it likes of either database. Of a cache nobody can say what is where.
        if self.logged && !self.manner.evict && self.rng.one_in(SWAPS) {
            let cmds = vec![Cmd { key: 0, kind: CmdKind::Swap }];
            return steps.push(Step::Batch { session, atomic: false, cmds });
        }
        match percent {
            0..55 => {
                let mut batch = self.batch(session);
                if self.manner.evict {
                    batch.tame();
                }
                steps.push(batch);
                if self.lean.settles {
                    steps.push(Step::Settle);
                }
            }
            55..58 => steps.push(Step::Settle),
            58..64 => steps.push(Step::Poll { session }),
            64..72 => steps.push(Step::Tick { us: self.rng.below(80_000) }),
            _ => steps.push(Step::Background(1 + self.rng.below(self.lean.background) as u32)),
        }
    }

    fn batch(&mut self, session: usize) -> Step {
        let atomic = self.logged && self.rng.below(100) < self.lean.atomic;
        let count = match self.lean.settles {
            true => 1,
            false => [1, 1, 1, 2, 4, 8][self.rng.below(6) as usize],
        };
        let cmds = match atomic {
            // Of a cache nobody can say what a group finds.
            true if !self.manner.evict && self.rng.one_in(2) => {
                let count = 2 + self.rng.below(4);
                (0..count).map(|_| self.cmd_of_group()).collect()
            }
            // Small ones and now and then an extent: a group must fit in a page.
            true => {
                let large = self.rng.one_in(4);
                let count = if large { 2 } else { 2 + self.rng.below(3) };
                (0..count).map(|i| if large && i == 0 { self.large_set() } else { self.set(60) }).collect()
            }
            false => (0..count).map(|_| self.cmd()).collect(),
        };
        Step::Batch { session, atomic, cmds }
    }

    /// An operation of a group, few keys being used, so that one follows another on a key.
    fn cmd_of_group(&mut self) -> Cmd {
        let old = self.rng.one_in(3);
        let when = [When::Always, When::Absent, When::Present][self.rng.below(3) as usize];
        let kind = match self.rng.below(12) {
            0..3 => CmdKind::Delete { when: When::Always, old },
            3 => {
                let (front, create) = (self.rng.one_in(2), !self.rng.one_in(3));
                let len = 8 + self.rng.below(60) as usize;
                CmdKind::Append { len, stamp: self.stamp(), front, create, when: When::Always }
            }
            4 => {
                let to = (!self.rng.one_in(3)).then(|| self.expires());
                CmdKind::Expire { to, only: ExpireIf::Always, value: old }
            }
            5 => CmdKind::Get,
            6 => return self.large_set(),
            _ => {
                let mut set = self.set(60);
                if let CmdKind::Set { when: mine, old: mine_old, .. } = &mut set.kind {
                    (*mine, *mine_old) = (when, old);
                }
                return set;
            }
        };
        Cmd { key: self.key(), kind }
    }

    fn resize(&mut self) -> Step {
        let at = if self.resizes.len() > 1 { self.rng.below(self.resizes.len() as u64) } else { 0 };
        let Resized { tier, bytes, least } = self.resizes[at as usize];
        Step::Resize { tier, bytes: bytes * (least + self.rng.below(17 - least)) / 16 }
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
        let (when, old) = (When::Always, false);
        Cmd { key: self.key(), kind: CmdKind::Set { len, stamp: self.stamp(), expires, when, old } }
    }
    fn large_set(&mut self) -> Cmd {
        let mut set = self.set(self.shape.large_bytes - self.shape.inline_bytes);
        if let CmdKind::Set { len, .. } = &mut set.kind {
            *len += self.shape.inline_bytes;
        }
        set
    }
    fn expires(&mut self) -> Expires {
        // Now and then in the past already.
        let jumps = if self.rng.one_in(12) { 0 } else { 1 + self.rng.below(2) as u8 };
        Expires { jumps, stamp: self.stamp() }
    }

    fn when(&mut self) -> When {
        match self.rng.below(100) {
            n if n >= self.lean.conditions => When::Always,
            n => [When::Absent, When::Present, When::Version][n as usize % 3],
        }
    }

    fn cmd(&mut self) -> Cmd {
        let old = self.rng.below(100) < self.lean.conditions;
        if self.rng.below(100) < self.lean.deletes {
            let when = if self.when() == When::Version { When::Version } else { When::Always };
            return Cmd { key: self.key(), kind: CmdKind::Delete { when, old } };
        }
        if self.rng.below(100) < self.lean.large {
            return self.large_set();
        }
        if self.rng.below(300) < self.lean.flushes {
            let db = if self.rng.one_in(3) { None } else { Some(self.rng.below(2) as u8) };
            return Cmd { key: 0, kind: CmdKind::Flush { db } };
        }
        if self.rng.below(100) < self.lean.expiries {
            let to = (!self.rng.one_in(4)).then(|| self.expires());
            let only = [ExpireIf::Always, ExpireIf::Always, ExpireIf::None, ExpireIf::Some, ExpireIf::Later];
            let only = only[self.rng.below(only.len() as u64) as usize];
            return Cmd { key: self.key(), kind: CmdKind::Expire { to, only, value: old } };
        }
        let key = self.key();
        let kind = match self.rng.below(10) {
            0 | 1 => CmdKind::Get,
            2 => {
                let len = 8 + self.rng.below(self.shape.inline_bytes as u64 / 3) as usize;
                let (front, create) = (self.rng.one_in(2), !self.rng.one_in(3));
                let when = if self.when() == When::Version { When::Version } else { When::Always };
                CmdKind::Append { len, stamp: self.stamp(), front, create, when }
            }
            3 => CmdKind::Incr { by: 1 + self.rng.below(1 << 30) as u32 },
            4 => CmdKind::SetNumber { stamp: self.stamp() },
            choice => {
                let when = self.when();
                let mut set = self.set(if choice < 7 { self.shape.inline_bytes } else { 60 });
                if let CmdKind::Set { when: mine, old: mine_old, .. } = &mut set.kind {
                    (*mine, *mine_old) = (when, old);
                }
                return set;
            }
        };
        Cmd { key, kind }
    }
}
