//! Making room in DRAM: the coldest records of classes that run short leave it, and slabs that must go are emptied.
//!
//! A clean record leaves by one swing of the index to its home; a dirty one is staged (`stage.rs`).

use std::sync::atomic::Ordering::*;

use terrace_blocks::Lower;
use terrace_engine::Progress;
use terrace_engine::record::Kind;
use terrace_engine::space::Context;
use terrace_index::{Address, AnyIndex, Change, Index, Key, Lookup, Verdict};

use crate::chosen::Chosen;
use crate::location::Location;
use crate::middle::Filling;
use crate::part::Part;
use crate::placement::Down;
use crate::slab::NONE;
use crate::space::SlabSpace;
use crate::stage::{Stage, Staged, What};
use crate::temperature::NO_RIVAL;
use terrace_policy::{Access, SlotId, Slots};

/// Records that leave DRAM in one step, at most.
const VICTIMS_A_STEP: usize = 4096;

/// Searches for a victim of a class that somebody waits for, in one step, at most: each looks at a few hundred slots.
const SEARCHES_A_STEP: u32 = 64;

/// Next victims of a class that are looked at in one step, at most, while nobody has to leave.
const RIVALS_A_STEP: u32 = 64;

/// Slabs that are emptied at once, at most: each step looks at all their slots.
const DRAINED_AT_ONCE: usize = 8;

/// Slots of a class that are looked at in one step, for a policy's lists.
const SWEPT_A_STEP: usize = 64;

/// What eviction remembers of a partition between steps.
pub(crate) struct Evicting {
    /// One a class.
    pub parts: Vec<Part>,
    /// How fast slots of each class are taken.
    paces: Vec<Pace>,
    key: Vec<u8>,
    /// What goes to the middle tier.
    filling: Filling,
    /// Somebody waits for slots of a class of which none could be let go. It counts in `starving_partitions`.
    starving: bool,
}

/// Slabs that are being emptied.
#[derive(Default)]
pub(crate) struct Draining(Vec<u32>);

/// Slots of a class that are kept free for what is taken in so many milliseconds: in that time the device may be busy syncing a
/// part of the log.
const AHEAD_MS: u64 = 50;
/// What expires so soon may have been due already where it goes to.
const DEADLINE_MARGIN_MS: u64 = 5000;

/// How fast slots of a class are taken.
#[derive(Default)]
struct Pace {
    since_ms: u64,
    /// Of all that were ever taken, those that are known.
    known: u64,
    taken: usize,
    /// In `AHEAD_MS`.
    recent: usize,
}

impl Pace {
    /// So many were taken since this was called last, of so many that ever were.
    fn since(&mut self, ever: u64) -> usize {
        let taken = ever - self.known;
        self.known = ever;
        taken as usize
    }
    /// So many were taken since the last call; returns how many to keep free.
    fn ahead(&mut self, taken: usize, now_ms: u64) -> usize {
        self.taken += taken;
        let passed = now_ms.saturating_sub(self.since_ms);
        if passed >= AHEAD_MS {
            // Once it gets slower it falls by half every time: a burst may be followed by another one.
            self.recent = (self.taken * AHEAD_MS as usize / passed as usize).max(self.recent / 2);
            (self.taken, self.since_ms) = (0, now_ms);
        }
        self.recent.max(self.taken)
    }
}

impl Draining {
    /// Whether there are some.
    pub fn is_under_way(&self) -> bool {
        !self.0.is_empty()
    }
}

impl Evicting {
    /// Of as many classes as there are.
    pub fn new(policy: &Chosen, classes: usize) -> Self {
        Self {
            parts: (0..classes).map(|_| policy.part()).collect(),
            paces: (0..classes).map(|_| Pace::default()).collect(),
            key: Vec::new(),
            filling: Filling::default(),
            starving: false,
        }
    }
    /// What goes to the middle tier; there is something in it only within a step's part.
    pub fn filling(&mut self) -> &mut Filling {
        &mut self.filling
    }
}

/// What is known when classes are looked at.
#[derive(Clone, Copy, Default)]
pub(crate) struct Begun {
    /// A round is being retired: what is dirty is on its way anyway.
    pub walking: bool,
    /// Something left already.
    pub worked: bool,
    /// Slabs are being emptied.
    pub draining: bool,
    /// What must leave them found the page full.
    pub page_full: bool,
}

/// How a record left, or why it didn't.
enum Left {
    Now,
    /// Once this step's slots of the middle tier are filled.
    ToMiddle,
    /// Once the page is written.
    Staged,
    PageFull,
    Not,
}

/// The slots of a class in a partition, by place in its list of slabs and number in the slab.
struct ClassSlots<'a, L: Lower> {
    space: &'a SlabSpace<L>,
    context: &'a dyn Context,
    class: usize,
    partition: usize,
    slabs: &'a [u32],
    slots: u32,
    /// Dirty records can't leave now.
    clean_only: bool,
}

impl<L: Lower> ClassSlots<'_, L> {
    fn offset(&self, slot: SlotId) -> Option<u64> {
        let slab = *self.slabs.get((slot / self.slots) as usize)?;
        let number = slot % self.slots;
        let slabs = &self.space.slabs;
        if slab == NONE || slabs.class_of(slab) != Some(self.class) || number >= slabs.used_slots(slab) {
            return None;
        }
        if self.partition > 0 && slabs.is_draining(slab) {
            // The first partition's step empties it.
            return None;
        }
        Some(slabs.offset(slab, self.class, number))
    }
}

impl<L: Lower> Slots for ClassSlots<'_, L> {
    fn access(&self, slot: SlotId) -> Option<Access> {
        let slot = self.space.slabs.slot(self.offset(slot)?);
        let dirty = slot.stamp() != 0;
        if !slot.is_live() || slot.is_staged() || slot.debt().is_owed() || (dirty && self.clean_only) {
            return None;
        }
        (!dirty || self.context.settled(slot.version())).then(|| slot.access())
    }
    fn set_access(&self, slot: SlotId, access: Access) {
        if let Some(offset) = self.offset(slot) {
            self.space.slabs.slot(offset).set_access(access);
        }
    }
}

impl<L: Lower> SlabSpace<L> {
    /// One step of whoever has the first partition. `walking`: a round is being retired, and what is dirty is on its way to a page
    /// anyway.
    pub(crate) fn evict_step(
        &self,
        (evicting, draining): (&mut Evicting, &mut Draining),
        stage: &mut Stage,
        walking: bool,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Progress {
        self.hear(evicting, context);
        let pressing = self.slabs.pressing.swap(NONE, SeqCst);
        let wanting = self.slabs.wanting.swap(NONE, SeqCst);
        // Who waits comes first.
        let wanting = if pressing == NONE { wanting } else { pressing };
        self.early.pressing.store(pressing, SeqCst);
        self.early.wanted.store(wanting, SeqCst);
        // One that was emptied may have a class again.
        draining.0.retain(|&slab| self.slabs.is_draining(slab));
        if self.slabs.free_slabs() == 0 {
            self.choose_drain(draining, wanting, pressing != NONE);
        }
        let (mut worked, page_full) = self.drain_step(draining, evicting, stage, index, context);
        if !walking {
            worked |= self.send_bound(&mut evicting.filling, index, context);
        }
        self.is_draining.store(draining.is_under_way(), SeqCst);
        let begun = Begun { walking, worked, draining: draining.is_under_way(), page_full };
        self.evict_of((0, evicting), stage, begun, index, context)
    }

    /// Makes room in classes that run short, by what is in a partition's slabs.
    pub(crate) fn evict_of(
        &self,
        (partition, evicting): (usize, &mut Evicting),
        stage: &mut Stage,
        begun: Begun,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Progress {
        let (wanting, pressing) = (self.early.wanted.load(SeqCst), self.early.pressing.load(SeqCst));
        let Begun { walking, mut worked, draining, page_full } = begun;
        let (mut starving, mut pressed) = (draining, false);
        let mut budget = VICTIMS_A_STEP;
        let mut none_leaves = false;
        let down = self.down_from_dram();
        let partitions = self.slabs.partitions();
        let leaving = self.flights.lock().leaving();
        for class in 0..self.slabs.classes.count() {
            let (free, ever) = self.slabs.demand(class);
            let taken = evicting.paces[class].since(ever);
            let slabs = self.slabs.places_of(class, partition);
            let slots = self.slabs.slots_in(class);
            let here = slabs.iter().filter(|slab| **slab != NONE).count() * slots;
            let held = if partitions == 1 { here } else { self.slabs.held(class) * slots };
            let wanted = class as u32 == wanting;
            let ahead = evicting.paces[class].ahead(taken, context.now_ms());
            let low = (held / 100).max(ahead.min(held / 8)).max(1);
            let mut coming = free + self.retired.cooling(class) + leaving.get(class).copied().unwrap_or(0);
            // Free slabs serve every class.
            if held == 0 || self.slabs.free_slabs() > 0 || coming > low * 4 {
                self.temperature.rivals[class].store(NO_RIVAL, Relaxed);
                continue;
            }
            let mut view = ClassSlots {
                space: self,
                context,
                class,
                partition,
                slabs: &slabs,
                slots: slots as u32,
                clean_only: walking,
            };
            // Each partition makes its part of the room.
            let high = coming + (low * 2).min(held).saturating_sub(coming).div_ceil(partitions);
            let part = &mut evicting.parts[class];
            part.extend(slabs.len() * slots);
            part.sweep(&view, SWEPT_A_STEP);
            if here == 0 {
                continue;
            }
            // A class nobody writes to may stay full.
            if coming >= low || (taken == 0 && !wanted && free > 0) {
                self.look_for_rival(class, part, &view);
                continue;
            }
            let (cooling, mut staged, mut unwritten) = (self.retired.cooling(class), 0, 0);
            // Those that can't leave now lie together, such as what was put last: a search may see no other.
            let mut searches = if wanted && free + cooling == 0 { SEARCHES_A_STEP } else { 1 };
            for again in [false, true] {
                // What is staged leaves once its page is full. Until then a class that is out has the slots of clean ones.
                if again {
                    if view.clean_only || staged == 0 || free + cooling + unwritten > 0 {
                        break;
                    }
                    view.clean_only = true;
                    coming -= staged;
                }
                // A page is to be full when it is written: others come along, unless most would leave for nothing.
                while coming < high || (!again && staged > unwritten && staged < here / 4) {
                    let now = self.temperature.now();
                    let victim = budget.checked_sub(1).and_then(|_| part.victim(&view, now));
                    if victim.is_none() && searches > 1 && unwritten == 0 && (again || staged == 0) {
                        searches -= 1;
                        continue;
                    }
                    let Some(victim) = victim else { break };
                    budget -= 1;
                    let Some(offset) = view.offset(victim) else { break };
                    let count = self.policy.count(self.slabs.slot(offset).access(), now);
                    self.temperature.rivals[class].store(count.in_sixteenths(), Relaxed);
                    let hash = self.hash_for_lists(offset, context);
                    let to = (&mut *stage, &mut evicting.filling);
                    match self.leave(&mut evicting.key, to, (offset, down), index, context) {
                        Left::Now | Left::ToMiddle => {
                            (worked, coming, unwritten) = (true, coming + 1, unwritten + 1);
                        }
                        Left::Staged => (worked, staged, coming) = (true, staged + 1, coming + 1),
                        // A page a step: who waits for a slot runs steps, too.
                        Left::PageFull => {
                            self.fill_middle(&mut evicting.filling, index);
                            return self.launch(partition, stage);
                        }
                        Left::Not => {
                            part.stays(victim, hash);
                            continue;
                        }
                    }
                    part.removed(victim, hash, true);
                }
            }
            // What has just left is not cooling yet.
            let is_out = free + cooling + unwritten == 0;
            starving |= is_out && (wanted || staged > 0);
            pressed |= is_out && class as u32 == pressing;
            none_leaves |= is_out && wanted && staged + unwritten == 0;
        }
        if evicting.starving != none_leaves {
            evicting.starving = none_leaves;
            let change = if none_leaves { 1 } else { usize::MAX };
            self.starving_partitions.fetch_add(change, SeqCst);
        }
        let filled = self.fill_middle(&mut evicting.filling, index);
        // What is aloft makes room, too: a page that is not full would waste some.
        if starving && !filled && !stage.is_empty() && self.flights.lock().is_empty() {
            let must = pressed || page_full || (draining && self.is_emptied_by(stage));
            if let Some(launched) = self.launch_early((partition, stage), must, walking, context) {
                return launched;
            }
        }
        match (worked, starving) {
            (true, _) => Progress::Worked,
            (false, true) => Progress::Blocked,
            (false, false) => Progress::Idle,
        }
    }

    /// Nobody has to leave this class now. Who its rival kept out asked how hot the next one to go is, and the hand goes on: as
    /// long as others stay out, it gets colder where it was hot by chance alone.
    fn look_for_rival(&self, class: usize, part: &mut Part, view: &ClassSlots<'_, L>) {
        let kept_out = self.temperature.kept_out[class].swap(0, Relaxed);
        let now = self.temperature.now();
        for _ in 0..kept_out.min(RIVALS_A_STEP) {
            let Some(victim) = part.victim(view, now) else { return };
            let Some(offset) = view.offset(victim) else { return };
            let count = self.policy.count(self.slabs.slot(offset).access(), now);
            self.temperature.rivals[class].store(count.in_sixteenths(), Relaxed);
            part.passed();
        }
    }

    /// Decides whether a slab must be emptied: the index needs its memory, or a class has none and no slab is free.
    fn choose_drain(&self, draining: &mut Draining, wanting: u32, pressing: bool) {
        let over = self.slabs.used_slabs().saturating_sub(self.slabs.target.frames());
        let held = |class: usize| self.slabs.held(class);
        let poor = wanting != NONE && {
            let class = wanting as usize;
            // A class of few slots can't keep up by evicting from those alone.
            let (slabs, most) = (held(class), (0..self.slabs.classes.count()).map(held).max().unwrap_or(0));
            let cooling = self.retired.cooling(class);
            // A session may hold all of its slots for a group that needs more.
            let none_leaves = || {
                let slabs = self.slabs.slabs_of(class);
                slabs.iter().all(|slab| self.slabs.table[*slab as usize].live.load(Relaxed) == 0)
            };
            slabs == 0 || (cooling == 0 && (slabs * 4 < most || none_leaves()))
        };
        if draining.0.len() >= over.max(usize::from(poor)).min(DRAINED_AT_ONCE) {
            return;
        }
        let donors = (0..self.slabs.classes.count()).filter(|&class| over > 0 || class as u32 != wanting);
        let Some(donor) = donors.max_by_key(|&class| held(class)).filter(|&class| held(class) > 0) else {
            return;
        };
        let (slabs, slots) = (self.slabs.slabs_of(donor), self.slabs.slots_in(donor));
        // What is dirty needs a page. If all that there is would not fill one, others go before, and for reads only those.
        let scarce = !self.has_dirty_page();
        let emptiest = slabs
            .iter()
            .map(|slab| (slab, &self.slabs.table[*slab as usize]))
            .filter(|(number, _)| !draining.0.contains(number))
            .map(|(number, slab)| (scarce && slab.dirty.load(Relaxed) > 0, slab.taken(slots), *number))
            .filter(|(needs_page, ..)| !needs_page || pressing || over > 0)
            .min();
        if let Some((_, _, slab)) = emptiest {
            self.slabs.drain(slab);
            draining.0.push(slab);
            self.details.slabs_drained.fetch_add(1, Relaxed);
        }
    }

    /// Empties slabs: whatever is in them leaves. Whether anything did, and whether something found the page full.
    fn drain_step(
        &self,
        draining: &Draining,
        evicting: &mut Evicting,
        stage: &mut Stage,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> (bool, bool) {
        let (mut worked, mut page_full) = (false, false);
        for &slab in &draining.0 {
            let Some(class) = self.slabs.class_of(slab) else { continue };
            for number in 0..self.slabs.used_slots(slab) {
                let offset = self.slabs.offset(slab, class, number);
                let slot = self.slabs.slot(offset);
                if slot.is_live() && !slot.is_staged() {
                    let to = (&mut *stage, &mut evicting.filling);
                    match self.leave(&mut evicting.key, to, (offset, self.down_from_dram()), index, context) {
                        Left::Now | Left::ToMiddle | Left::Staged => worked = true,
                        Left::PageFull => page_full = true,
                        Left::Not => {}
                    }
                }
            }
        }
        (worked, page_full)
    }

    /// Records that were put and are bound for the middle tier go there, if it has room; those that a crash could still take
    /// back wait.
    fn send_bound(&self, filling: &mut Filling, index: &AnyIndex, context: &dyn Context) -> bool {
        let mut bound = std::mem::take(&mut *self.bound.lock());
        if bound.is_empty() {
            return false;
        }
        // A slot may have been put twice, and hold another record by now: that one goes, then.
        bound.sort_unstable();
        bound.dedup();
        let mut worked = false;
        bound.retain(|&offset| {
            if !self.slabs.is_slot(offset) {
                return false;
            }
            let slot = self.slabs.slot(offset);
            if !slot.is_live() || slot.is_staged() || slot.stamp() == 0 {
                return false;
            }
            if slot.debt().is_owed() || !context.settled(slot.version()) {
                return true;
            }
            let head = slot.record().consistently(|head| head);
            let of = (offset, What::Evict, Down::Middle);
            worked |= self.stage_for_middle(filling, of, &head, index, context);
            false
        });
        if !bound.is_empty() {
            self.bound.lock().append(&mut bound);
        }
        worked
    }

    /// Lets a record go that a whole-database flush forgot.
    pub(crate) fn forget(&self, stage: &mut Stage, offset: u64, index: &AnyIndex, context: &dyn Context) {
        let mut key = std::mem::take(&mut stage.key);
        self.leave(&mut key, (stage, &mut Filling::default()), (offset, Down::Page), index, context);
        stage.key = key;
    }

    /// A record is found in its home again. If its time came while it was above, nobody would look there once more.
    pub(crate) fn note_deadline(&self, home: Address, expire_at: u64, context: &dyn Context) {
        if expire_at != 0
            && expire_at <= context.now_ms().saturating_add(DEADLINE_MARGIN_MS)
            && let Location::Page(place, _) = self.locations.location(home)
        {
            self.blocks.slots[place.slot as usize].min_expire.fetch_min(expire_at, Release);
        }
    }

    /// Makes a record leave DRAM.
    fn leave(
        &self,
        key_bytes: &mut Vec<u8>,
        (stage, filling): (&mut Stage, &mut Filling),
        (offset, down): (u64, Down),
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Left {
        let slot = self.slabs.slot(offset);
        let words = slot.record();
        key_bytes.clear();
        let head = words.consistently(|head| {
            key_bytes.clear();
            words.copy_bytes(head.meta.key_word(), head.meta.key_bytes(), key_bytes);
            head
        });
        let db = head.meta.db();
        let forgotten = head.version <= context.flush_version(db);
        if slot.debt().is_owed() && !forgotten {
            // Below, nobody could tell it from what it may have replaced.
            return Left::Not;
        }
        // What has its home in the middle tier is there already.
        let in_middle = slot.home().is_some_and(|home| self.is_in_middle(home));
        let of = (offset, What::Evict, down);
        if !forgotten && !in_middle && self.stage_for_middle(filling, of, &head, index, context) {
            return Left::ToMiddle;
        }
        if slot.stamp() != 0 && !forgotten {
            return match self.stage_slot(stage, offset, What::Evict, context) {
                Staged::Yes => Left::Staged,
                Staged::Full => Left::PageFull,
                Staged::Unsettled | Staged::Gone => Left::Not,
            };
        }
        if !slot.is_live() {
            return Left::Not;
        }
        let key = Key { bytes: key_bytes, ..context.hasher().key(db, key_bytes) };
        let address = self.locations.dram(offset);
        let verify = |at| if at == address { Verdict::Match } else { Verdict::Differs };
        let left = index.update(&key, verify, |found| {
            if !matches!(found, Lookup::Found(_)) || !slot.is_live() || slot.version() != head.version {
                return (Change::Keep, false);
            }
            if forgotten {
                // The flush that forgot it outlives every copy of it.
                if head.meta.kind() == Kind::Extent {
                    let mut description = Vec::new();
                    words.copy_bytes(head.meta.value_word(), head.meta.value_bytes(), &mut description);
                    self.large.forget(&description);
                    self.blocks.forget_extent(&description);
                }
                if let Some(home) = self.clear_slot(offset) {
                    self.release_copy(home, head.meta.slot_words());
                }
                return (Change::Remove, true);
            }
            match slot.home() {
                Some(home) if slot.stamp() == 0 => {
                    self.temperature.leaves(key.hash, slot.access(), &self.policy);
                    self.clear_slot(offset);
                    if let (Some(middle), Location::Pmem(at)) = (&self.middle, self.locations.location(home))
                    {
                        middle.take_back(at);
                    }
                    self.note_deadline(home, head.expire_at, context);
                    (Change::Set(home), true)
                }
                _ => (Change::Keep, false),
            }
        });
        if !left {
            return Left::Not;
        }
        if forgotten {
            context.forgotten(head.meta.kind());
        } else {
            self.details.evicted_clean.fetch_add(1, Relaxed);
        }
        Left::Now
    }
}

#[cfg(test)]
mod tests;
