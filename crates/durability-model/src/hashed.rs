//! How a state is hashed: most of its arrays are empty, so only what is not is fed to the hash, with a mask that says where.

use std::hash::{Hash, Hasher};

use crate::state::{Dram, State};

/// Which of the items are there (eight at most), and those.
fn sparse<T: Hash + PartialEq + Default, H: Hasher>(items: &[T], hasher: &mut H) {
    let empty = T::default();
    let mask = items.iter().enumerate().fold(0u8, |mask, (i, item)| mask | u8::from(*item != empty) << i);
    hasher.write_u8(mask);
    items.iter().filter(|item| **item != empty).for_each(|item| item.hash(hasher));
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        // Taken apart, so that a field that is forgotten here does not compile.
        let Self {
            phase,
            power_failed,
            crashes,
            reads,
            used,
            clock,
            writes,
            log,
            tier,
            manifest,
            cells,
            rotten,
            manifest_new,
            dram,
            promised,
            promised_power,
            earlier,
            dead,
            broken,
        } = self;
        (phase, power_failed, crashes, reads, used, clock).hash(hasher);
        sparse(writes, hasher);
        log.iter().for_each(|log| sparse(log, hasher));
        sparse(tier, hasher);
        sparse(cells, hasher);
        sparse(std::slice::from_ref(manifest_new), hasher);
        sparse(std::slice::from_ref(dram), hasher);
        (manifest, rotten, promised, promised_power, earlier, dead, broken).hash(hasher);
    }
}

impl Hash for Dram {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self {
            sessions,
            tickets,
            index,
            slots,
            last_seq,
            moved_seq,
            flush,
            base,
            issued,
            flushing,
            freeing,
            floor,
            syncing,
            covered,
            unsynced_since,
            syncing_since,
            slab,
        } = self;
        sparse(sessions, hasher);
        sparse(tickets, hasher);
        sparse(index, hasher);
        sparse(slots, hasher);
        (last_seq, moved_seq, flush, base, issued).hash(hasher);
        sparse(&[*flushing, *freeing, *floor], hasher);
        (syncing, covered, unsynced_since, syncing_since).hash(hasher);
        sparse(std::slice::from_ref(slab), hasher);
    }
}
