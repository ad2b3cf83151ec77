//! The protocol as a machine that can be explored: which steps there are, and what each does.

use crate::bounds::{Bounds, Media, Mode};
use crate::bug::Bug;
use crate::search::Explore;
use crate::slab::Step;
use crate::state::*;

/// What a batch of one operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Reads a key.
    Get(u8),
    /// Sets a key.
    Set(u8),
    /// Sets a key without reading what the index may refer to.
    SetBlindly(u8),
    /// Deletes a key; of one that is not there it reads.
    Delete(u8),
    /// Sets both keys as one step.
    SetBoth,
    /// Forgets the database of key 0.
    Flush,
}

/// A write to the tier that is not safe yet, and may be made so alone on byte media.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// Everything: one sync of the file.
    All,
    /// The block of the page that is flushed.
    Block,
    /// The cleared header of the block that is freed.
    Clearing,
    /// The manifest.
    Manifest,
}

/// A step. `docs/durability.md` says which function of the product takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A session runs an operation: its write can be read by others from now on.
    Run(u8, Op),
    /// It starts writing its group.
    StartWrite(u8),
    /// The write has completed.
    FinishWrite(u8),
    /// A sync of the log begins.
    BeginSync,
    /// It has succeeded.
    EndSync,
    /// The window of batch durability passes.
    WindowPasses,
    /// The oldest mutable page turns read-only.
    TurnReadOnly,
    /// Its image is written to its block.
    WriteBlock,
    /// A sync or fence on the tier.
    SyncTier(Written),
    /// A manifest is written.
    WriteManifest,
    /// A log floor is taken.
    TakeFloor,
    /// A manifest with it is written.
    WriteFloor,
    /// A session's oldest group is reclaimed.
    FreeGroup(u8),
    /// Byte media: its erasure is fenced.
    FenceErasure(u8),
    /// A key's tombstone is dropped.
    DropTombstone(u8),
    /// A block that nothing refers to is on its way to be free.
    BeginFreeing(u8),
    /// Its header is cleared.
    ClearBlock,
    /// Live records of a block are moved to a page.
    MoveLive(u8),
    /// A step of the tier of engine `tac`.
    Slab(Step),
    /// Power fails; the number says what of the unsynced arrives.
    PowerFails(u16),
    /// The process dies; the number says which writes were under way.
    ProcessDies(u16),
    /// The next step of an opening.
    Open,
}

/// The protocol within bounds, with at most one planted bug.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// What is explored.
    pub bounds: Bounds,
    /// What is wrong with it.
    pub bug: Option<Bug>,
}

impl Protocol {
    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
    pub(crate) fn is_byte(&self) -> bool {
        self.bounds.media == Media::Byte
    }
    pub(crate) fn is_batch(&self) -> bool {
        self.bounds.mode == Mode::Batch
    }
}

impl Explore for Protocol {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        State::default()
    }

    fn actions(&self, state: &State, out: &mut Vec<Action>) {
        if state.broken != Broken::Nothing || state.phase == Phase::Refused {
            return;
        }
        if state.phase == Phase::Open {
            self.session_actions(state, out);
            self.log_actions(state, out);
            if self.bounds.slab {
                self.slab_actions(state, out);
            } else if self.bounds.pages > 0 {
                self.tier_actions(state, out);
            }
        } else {
            out.push(Action::Open);
        }
        self.crash_actions(state, out);
        self.rot_actions(state, out);
    }

    fn apply(&self, state: &State, action: Action) -> State {
        let mut next = *state;
        match action {
            Action::Run(session, op) => self.run(&mut next, usize::from(session), op),
            Action::StartWrite(session) => {
                self.start_write(&mut next, usize::from(session));
                if self.bounds.coarse {
                    self.finish_write(&mut next, usize::from(session));
                }
            }
            Action::FinishWrite(session) => self.finish_write(&mut next, usize::from(session)),
            Action::BeginSync => {
                self.begin_sync(&mut next);
                if self.bounds.coarse {
                    self.end_sync(&mut next);
                }
            }
            Action::EndSync => self.end_sync(&mut next),
            Action::WindowPasses => self.window_passes(&mut next),
            Action::TurnReadOnly => self.turn_read_only(&mut next),
            Action::WriteBlock => self.write_block(&mut next),
            Action::SyncTier(what) => self.sync_tier(&mut next, what),
            Action::WriteManifest => self.write_manifest(&mut next, false),
            Action::TakeFloor => self.take_floor(&mut next),
            Action::WriteFloor => self.write_manifest(&mut next, true),
            Action::FreeGroup(session) => self.free_group(&mut next, usize::from(session)),
            Action::FenceErasure(session) => drop_freed(&mut next, usize::from(session)),
            Action::DropTombstone(key) if self.bounds.slab => {
                self.drop_cold_tombstone(&mut next, usize::from(key));
            }
            Action::DropTombstone(key) => next.dram.index[usize::from(key)] = Entry::default(),
            Action::BeginFreeing(slot) if self.bounds.slab => {
                self.begin_freeing_page(&mut next, usize::from(slot));
            }
            Action::BeginFreeing(slot) => self.begin_freeing(&mut next, usize::from(slot)),
            Action::ClearBlock => self.clear_block(&mut next),
            Action::MoveLive(slot) => self.move_live(&mut next, usize::from(slot)),
            Action::Slab(step) => self.slab_step(&mut next, step),
            Action::PowerFails(choice) => self.power_fails(&mut next, choice),
            Action::ProcessDies(choice) => self.process_dies(&mut next, choice),
            Action::Open => self.open(&mut next),
        }
        if next.phase == Phase::Open {
            self.answer(&mut next);
            if self.bounds.slab && next.broken == Broken::Nothing {
                self.check_slab(&mut next);
            }
        }
        next
    }

    fn is_broken(&self, state: &State) -> bool {
        state.broken != Broken::Nothing
    }
}

/// Takes reclaimed groups off the front of a log: their erasure is safe.
pub(crate) fn drop_freed(state: &mut State, session: usize) {
    while state.log[session][0].at == At::Freed {
        state.log[session].rotate_left(1);
        state.log[session][GROUPS - 1] = Group::default();
    }
}
