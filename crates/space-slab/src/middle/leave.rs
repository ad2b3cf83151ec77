//! Records that leave the middle tier for pages: victims of classes that run short, and what is in slabs that must go.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{FooterEntry, Lower};
use terrace_engine::Progress;
use terrace_engine::record::{Kind, RecordView};
use terrace_engine::space::Context;
use terrace_index::{AnyIndex, Change, Index, Key, Lookup, Verdict};

use super::{Middle, MiddleSteps};
use crate::location::Location;
use crate::placement::Lent;
use crate::space::SlabSpace;
use crate::stage::{Stage, What};
use crate::temperature::NO_RIVAL;
use terrace_pmem_slots::{NONE, StoredSlot};
use terrace_policy::{Access, Clock, Count, Now, Policy, SlotId, Slots};

/// Records that leave in one step, at most.
const VICTIMS_A_STEP: usize = 1024;

/// Next victims of a class that are looked at in one step, at most, for the sake of those whom the last one kept out.
const RIVALS_A_STEP: u32 = 64;

/// Slots that a policy looks at in one search for a victim, at least.
const LOOKS_LEAST: usize = 64;

/// What came of an attempt to make a record leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It is staged, or gone.
    Yes,
    /// The page is full.
    PageFull,
    /// It stays: it is damaged, and an error tells of it here.
    Not,
}

/// The slots of a class, by place in its list of slabs and number in the slab.
struct ClassSlots<'a, L: Lower> {
    space: &'a SlabSpace<L>,
    middle: &'a Middle,
    class: usize,
    slabs: &'a [u32],
    slots: u32,
    /// What to do with homes of records in DRAM.
    lent: Lent,
}

impl<L: Lower> ClassSlots<'_, L> {
    fn place(&self, slot: SlotId) -> Option<(u32, usize)> {
        let slab = *self.slabs.get((slot / self.slots) as usize)?;
        Some((slab, (slot % self.slots) as usize))
    }
    fn at(&self, slot: SlotId) -> Option<u64> {
        let (slab, number) = self.place(slot)?;
        Some(self.middle.slabs.at(slab, self.class, number))
    }
}

impl<L: Lower> Slots for ClassSlots<'_, L> {
    fn access(&self, slot: SlotId) -> Option<Access> {
        let (slab, number) = self.place(slot)?;
        let slabs = &self.middle.slabs;
        let is_lent = self.lent != Lent::LikeOthers && self.middle.is_lent(slab, number);
        if !slabs.may_leave(slab, number) || (is_lent && self.lent == Lent::Stays) {
            return None;
        }
        let StoredSlot::Filled(head) = slabs.head(slabs.at(slab, self.class, number)) else { return None };
        let count = match is_lent {
            true => Count::default(),
            false => self.space.temperature.count_below(head.hash, &self.space.policy),
        };
        let seen = slabs.table[slab as usize].seen.is_set(number);
        Some(Access::new(self.space.temperature.now().epoch, count).with_seen(u32::from(seen)))
    }
    fn set_access(&self, slot: SlotId, access: Access) {
        if let Some((slab, number)) = self.place(slot)
            && access.seen() == 0
        {
            self.middle.slabs.table[slab as usize].seen.clear(number);
        }
    }
}

impl<L: Lower> SlabSpace<L> {
    /// One step of the middle tier.
    pub(crate) fn middle_step(
        &self,
        steps: &mut MiddleSteps,
        stage: &mut Stage,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Progress {
        let Some(middle) = &self.middle else { return Progress::Idle };
        self.cut_middle_leftovers(middle);
        let cleared = self.clear_released(middle, steps, context);
        let arrived = self.take_arrived(middle, &mut steps.filling, index, context);
        let waits = if steps.cooling.is_empty() { Progress::Idle } else { Progress::Blocked };
        let progress = if cleared || arrived { Progress::Worked } else { waits };
        let free_slabs = middle.slabs.free_slabs();
        let wanting = middle.wanting.swap(NONE, SeqCst);
        if free_slabs == 0 && wanting != NONE {
            choose_drain(middle, wanting as usize);
        }
        // What is on its way out makes room, too: else more would leave in every step until the first are gone.
        let mut leaving = steps.waiting.clone();
        if free_slabs == 0 {
            let flights = self.flights.lock();
            let sources = stage.moves.iter().map(|of| of.from).chain(flights.sources());
            let staged = sources.filter_map(|from| match self.locations.location(from) {
                Location::Pmem(at) => Some(at),
                Location::Dram(_) | Location::Page(..) => None,
            });
            middle.count(&staged.collect::<Vec<_>>(), |class| leaving[class] += 1);
        }
        let mut budget = VICTIMS_A_STEP;
        let going = (&mut steps.shrinking, &mut budget);
        let mut left = self.shrink_middle(middle, going, stage, index, context);
        if left != Some(Left::PageFull) {
            left = self.drain_middle(middle, &mut budget, stage, index, context).or(left);
        }
        let kept = self.slots_kept(middle);
        steps.parts.resize_with(middle.slabs.classes(), Default::default);
        for (class, leaving) in leaving.into_iter().enumerate() {
            if left == Some(Left::PageFull) {
                break;
            }
            let part = &mut steps.parts[class];
            // Free slabs serve every class.
            let free = if free_slabs > 0 { usize::MAX } else { middle.slabs.free_slots(class) + leaving };
            let wanted = (class, free, kept[class]);
            let moved = self.evict_class(middle, wanted, part, &mut budget, stage, index, context);
            left = moved.or(left);
        }
        match left {
            Some(Left::PageFull) => self.launch(0, stage),
            Some(_) => Progress::Worked,
            None => progress,
        }
    }

    /// Makes room in a class that runs short; `kept` slots are to be free for what is in DRAM alone.
    #[expect(clippy::too_many_arguments, reason = "a step's parts, each needed")]
    fn evict_class(
        &self,
        middle: &Middle,
        (class, mut free, kept): (usize, usize, usize),
        part: &mut <Clock as Policy>::Part,
        budget: &mut usize,
        stage: &mut Stage,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Option<Left> {
        let slabs = &middle.slabs;
        let held = slabs.held(class) * slabs.slots_in(class);
        let low = (held / 50).max(1);
        free = free.saturating_sub(kept);
        let kept_out = middle.kept_out[class].swap(0, Relaxed).min(RIVALS_A_STEP);
        // There is more than eviction makes: nobody has to leave for who comes.
        if held == 0 || free > low * 2 {
            middle.rivals[class].store(NO_RIVAL, Relaxed);
            return None;
        }
        let of_class = slabs.slabs_of(class);
        let slots = slabs.slots_in(class) as u32;
        let lent = self.lent_slots();
        let mut view = ClassSlots { space: self, middle, class, slabs: &of_class, slots, lent };
        Clock.inserted(part, (of_class.len() as u32 * slots).saturating_sub(1), 0);
        // Who was kept out asked how hot the next one to go is. While that stays, others stay out, and nobody ever looks at those
        // behind it, which may be colder.
        for _ in 0..kept_out {
            if self.find_victim(part, &mut view, self.temperature.now()).is_none() {
                break;
            }
            Clock.passed(part);
        }
        let mut left = None;
        loop {
            let now = self.temperature.now();
            let victim = self.find_victim(part, &mut view, now)?;
            let at = view.at(victim)?;
            let count = view.access(victim).map(|access| Clock.count(access, now)).unwrap_or_default();
            middle.rivals[class].store(count.in_sixteenths(), Relaxed);
            if (left.is_none() && free >= low) || free >= low * 2 || *budget == 0 || !self.may_go_down() {
                return left;
            }
            *budget -= 1;
            match self.leave_middle(middle, at, stage, index, context) {
                Left::Yes => (left, free) = (Some(Left::Yes), free + 1),
                Left::PageFull => return Some(Left::PageFull),
                Left::Not => {}
            }
            Clock.removed(part, victim, 0, true);
        }
    }

    /// The slot to empty next. Homes of records in DRAM come together, and lie together: only if a whole turn finds nothing
    /// else, they must go, too.
    fn find_victim(
        &self,
        part: &mut <Clock as Policy>::Part,
        view: &mut ClassSlots<'_, L>,
        now: Now,
    ) -> Option<SlotId> {
        if view.lent == Lent::Stays {
            let slots = view.slabs.len() * view.slots as usize;
            let other = (0..=slots / LOOKS_LEAST).find_map(|_| Clock.victim(part, view, now));
            if other.is_some() {
                return other;
            }
            view.lent = Lent::LikeOthers;
        }
        Clock.victim(part, view, now)
    }

    /// Whether the lower tier has room beside all that may have to go there.
    fn may_go_down(&self) -> bool {
        self.credit.load(Relaxed) > 2 * self.blocks.block_bytes as i64 && !self.blocks.failure.has_failed()
    }

    /// Empties the slab that must go.
    fn drain_middle(
        &self,
        middle: &Middle,
        budget: &mut usize,
        stage: &mut Stage,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Option<Left> {
        let slab = middle.slabs.draining()?;
        let class = middle.slabs.class_of(slab)?;
        let mut left = None;
        for number in 0..middle.slabs.slots_in(class) {
            if !middle.slabs.may_leave(slab, number) {
                continue;
            }
            if *budget == 0 || !self.may_go_down() {
                break;
            }
            *budget -= 1;
            match self.leave_middle(middle, middle.slabs.at(slab, class, number), stage, index, context) {
                Left::Yes => left = Some(Left::Yes),
                Left::PageFull => return Some(Left::PageFull),
                Left::Not => {
                    middle.slabs.stop_draining();
                    break;
                }
            }
        }
        left
    }

    /// Stages a slot's record, or lets it go if a whole-database flush forgot it or nothing refers to it.
    pub(super) fn leave_middle(
        &self,
        middle: &Middle,
        at: u64,
        stage: &mut Stage,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Left {
        let StoredSlot::Filled(head) = middle.slabs.head(at) else { return Left::Not };
        let Some(bytes) = middle.slabs.record(at) else { return Left::Not };
        let Some(view) = RecordView::decode(&bytes) else { return Left::Not };
        let (version, kind, db) = (view.head.version, view.head.meta.kind(), view.head.meta.db());
        let (hash, check, life) = (head.hash, head.check, view.head.life());
        let entry = FooterEntry { hash, version, check, offset: 0, kind, db, life };
        let record = view.to_new();
        let from = self.locations.pmem(at);
        let key = Key { hash: head.hash, db, bytes: view.key };
        let verify = |at| if self.is_or_has_home(at, from) { Verdict::Match } else { Verdict::Differs };
        if version <= context.flush_version(db) {
            let words = view.head.meta.slot_words();
            if index.update(&key, verify, |found| self.forget_copy(found, from, (&entry, words))) {
                if kind == Kind::Extent {
                    self.blocks.forget_extent(view.value);
                }
                context.forgotten(kind);
            }
            return Left::Yes;
        }
        if self.leave_for_home(middle, (at, &key), (version, view.head.expire_at), index, context) {
            return Left::Yes;
        }
        // Under the key's lock: a record that is promoted or evicted right now refers to it all the time.
        if !index.update(&key, verify, |found| (Change::Keep, matches!(found, Lookup::Found(_)))) {
            return Left::Yes;
        }
        if !stage.has_room(record.words(), record.expire_at != 0, self.blocks.block_bytes) {
            return Left::PageFull;
        }
        stage.push(What::Slot, from, entry, &record);
        middle.slabs.set_staged(at, true);
        self.take_credit(record.words() * 8);
        Left::Yes
    }
}

/// A class that has few slabs or none gets one of the class that has most.
fn choose_drain(middle: &Middle, wanting: usize) {
    let slabs = &middle.slabs;
    if slabs.draining().is_some() {
        return;
    }
    let donors = (0..slabs.classes()).filter(|&class| class != wanting);
    let Some(donor) = donors.max_by_key(|&class| slabs.held(class)) else { return };
    let (held, most) = (slabs.held(wanting), slabs.held(donor));
    if most == 0 || (held > 0 && held * 4 >= most) {
        return;
    }
    let end = slabs.end() as u32;
    let of_donor = slabs.slabs_of(donor).into_iter().filter(|&slab| slab < end);
    if let Some(slab) = of_donor.min_by_key(|&slab| slabs.used(slab)) {
        slabs.drain(slab);
    }
}
