//! What a space tells of itself: its tiers, and counts for people and tests.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{Lower, State};
use terrace_engine::{MoreRoom, TierStats};

use crate::space::SlabSpace;
use crate::sync::AtomicU64;

/// Counts for people and tests.
#[derive(Default)]
pub(crate) struct Details {
    /// Steps that were taken; those of another partition beside one; those that found nothing to do but wait; waits for a
    /// partition to land a page, and their time.
    pub steps: AtomicU64,
    pub steps_aside: AtomicU64,
    pub steps_refused: AtomicU64,
    pub landings_delayed: AtomicU64,
    pub landings_delayed_us: AtomicU64,
    pub pages_written: AtomicU64,
    pub records_written: AtomicU64,
    pub copies_in_vain: AtomicU64,
    pub evicted: AtomicU64,
    pub evicted_clean: AtomicU64,
    pub homes: AtomicU64,
    pub moved: AtomicU64,
    pub pages_emptied: AtomicU64,
    pub promoted: AtomicU64,
    pub promotions_dropped: AtomicU64,
    pub bufs_fetched: AtomicU64,
    pub bufs_dropped: AtomicU64,
    pub fetched_along: AtomicU64,
    pub rounds_retired: AtomicU64,
    pub slabs_drained: AtomicU64,
    pub to_middle_down: AtomicU64,
    pub to_middle_up: AtomicU64,
    pub from_middle_up: AtomicU64,
    pub from_middle_down: AtomicU64,
    pub from_middle_home: AtomicU64,
    pub warmed: AtomicU64,
    /// Ends of the tier below, and of the middle tier, that were reached, either way.
    pub resizes: AtomicU64,
    pub middle_resizes: AtomicU64,
}

impl<L: Lower> SlabSpace<L> {
    pub(crate) fn tier_stats(&self) -> Vec<TierStats> {
        let (block, slab_bytes) = (self.blocks.block_bytes as u64, self.slabs.slab_bytes as u64);
        let used = self.slabs.used_slabs() as u64;
        let mut dram = TierStats {
            tier: "dram",
            medium: format!("{} slabs of {} KiB", self.slabs.target.frames(), slab_bytes / 1024),
            capacity_bytes: self.slabs.target.frames() as u64 * slab_bytes + self.large.bytes(),
            used_bytes: used * slab_bytes + self.large.used_bytes(),
            live_bytes: self.large.live_bytes(),
            ..TierStats::default()
        };
        for (number, slab) in self.slabs.table.iter().enumerate() {
            let live = u64::from(slab.live.load(Relaxed));
            if let Some(class) = self.slabs.class_of(number as u32) {
                dram.records += live;
                dram.live_bytes += live * self.slabs.classes.bytes(class) as u64;
            }
        }
        let mut lower = TierStats {
            tier: L::NAME,
            medium: self.blocks.lower.describe(),
            capacity_bytes: self.blocks.usable() as u64 * block,
            media: self.blocks.lower.counters(),
            taken_bytes: if L::DIRECT { 0 } else { self.blocks.backed_bytes() },
            cramped: self.blocks.backing_refused(),
            more_room: self.blocks.lower.len_max().map_or(MoreRoom::Never, |_| MoreRoom::WhileOpen),
            ..TierStats::default()
        };
        for slot in self.blocks.slots.iter() {
            let live = slot.live_bytes.load(Relaxed).max(0) as u64;
            if matches!(slot.state(), State::Sealed | State::Extents | State::Freeing) {
                lower.used_bytes += block;
                lower.live_bytes += live;
                // A page holds nearly as many live records as its share of live bytes says.
                let used = u64::from(slot.used_bytes.load(Relaxed)).max(1);
                lower.records += u64::from(slot.count.load(Relaxed)) * live / used;
            }
        }
        let middle = self.middle.as_ref().map(|middle| middle.stats());
        [Some(dram), middle, Some(lower)].into_iter().flatten().collect()
    }

    pub(crate) fn detail_pairs(&self) -> Vec<(&'static str, u64)> {
        let (d, counts) = (&self.details, &self.blocks.counts);
        let middle = self.middle.iter().flat_map(|middle| {
            let slabs = &middle.slabs;
            [
                ("pmem_slabs", slabs.end() as u64),
                ("pmem_slabs_to_empty", slabs.to_empty() as u64),
                ("pmem_slabs_to_cut", (slabs.table.len() - slabs.end()) as u64),
                ("pmem_slabs_free", slabs.free_slabs() as u64),
                ("pmem_resizes", d.middle_resizes.load(Relaxed)),
                ("pmem_slabs_formatted", slabs.formatted.load(Relaxed)),
                ("pmem_slots_lent", middle.lent_slots()),
                ("records_from_dram_to_pmem", d.to_middle_down.load(Relaxed)),
                ("records_from_ssd_to_pmem", d.to_middle_up.load(Relaxed)),
                ("records_from_pmem_to_dram", d.from_middle_up.load(Relaxed)),
                ("records_from_pmem_to_ssd", d.from_middle_down.load(Relaxed)),
                ("records_from_pmem_without_a_copy", d.from_middle_home.load(Relaxed)),
            ]
        });
        let mut pairs = vec![
            ("slab_bytes", self.slabs.slab_bytes as u64),
            ("slabs", self.slabs.target.frames() as u64),
            ("slabs_free", self.slabs.free_slabs() as u64),
            ("slabs_drained", d.slabs_drained.load(Relaxed)),
            ("steps", d.steps.load(Relaxed)),
            ("steps_refused", d.steps_refused.load(Relaxed)),
            ("steps_aside", d.steps_aside.load(Relaxed)),
            ("partitions", self.slabs.partitions() as u64),
            ("slots_stolen", self.slabs.stolen.load(Relaxed)),
            ("landings_delayed", d.landings_delayed.load(Relaxed)),
            ("landings_delayed_us", d.landings_delayed_us.load(Relaxed)),
            ("pages", self.blocks.usable() as u64),
            ("pages_to_move", self.blocks.to_move() as u64),
            ("tier_resizes", d.resizes.load(Relaxed)),
            ("pages_free", self.blocks.free.slots.lock().len() as u64),
            ("pages_written", d.pages_written.load(Relaxed)),
            ("pages_emptied", d.pages_emptied.load(Relaxed)),
            ("pages_reused", counts.reused.load(Relaxed)),
            ("records_written", d.records_written.load(Relaxed)),
            ("records_evicted", d.evicted.load(Relaxed)),
            ("records_evicted_clean", d.evicted_clean.load(Relaxed)),
            ("records_given_homes", d.homes.load(Relaxed)),
            ("records_moved", d.moved.load(Relaxed)),
            ("records_promoted", d.promoted.load(Relaxed)),
            ("promotions_dropped", d.promotions_dropped.load(Relaxed)),
            ("bufs_fetched", d.bufs_fetched.load(Relaxed)),
            ("bufs_dropped", d.bufs_dropped.load(Relaxed)),
            ("records_fetched_along", d.fetched_along.load(Relaxed)),
            ("sets_blind", self.debts.counts.blind.load(Relaxed)),
            ("sets_unsettled", self.debts.unsettled.load(Relaxed)),
            ("sets_replaced", self.debts.counts.replaced.load(Relaxed)),
            ("sets_new", self.debts.counts.new.load(Relaxed)),
            ("footers_read", self.debts.counts.footers.load(Relaxed)),
            ("footers_unreadable", self.debts.counts.unreadable.load(Relaxed)),
            ("sets_given_up", self.debts.counts.given_up.load(Relaxed)),
            ("touches_not_told", self.policy.dropped()),
            ("copies_in_vain", d.copies_in_vain.load(Relaxed)),
            ("rounds", self.rounds.current.load(Relaxed)),
            ("rounds_retired", d.rounds_retired.load(Relaxed)),
            ("tombstones_dropped", counts.tombstones_dropped.load(Relaxed)),
            ("extents_written", counts.extents_written.load(Relaxed)),
            ("extents_moved", counts.extents_moved.load(Relaxed)),
            ("gathered_bytes", counts.gathered_bytes.load(Relaxed)),
            ("records_warmed", d.warmed.load(Relaxed)),
            ("snapshots_saved", counts.snapshots_saved.load(Relaxed)),
            ("snapshots_not_saved", counts.snapshots_not_saved.load(Relaxed)),
            ("reads_merged", counts.reads_merged.load(Relaxed)),
            ("blocks_purged", counts.purged.load(Relaxed)),
            ("records_damaged", counts.damaged.load(Relaxed)),
            ("headers_lost", counts.headers_lost.load(Relaxed)),
        ];
        pairs.extend(self.large.pairs());
        pairs.extend(middle);
        pairs
    }
}
