//! Pages on their way to the lower tier while background steps go on.
//!
//! ```text
//!   with a partition          with none                     with a partition again
//!   stage full --> launch --> fly: write, sync  ----------> land: its records are swung
//!                  (sequence number drawn)                  (the page is sealed; trust may follow)
//! ```
//!
//! Whoever launched a page flies it, and meanwhile others may fill the next one: moving records takes about as long as the
//! device does. Where there is one partition, to have it is to hold the steps' lock (`partition.rs`).
//!
//! # Invariants
//! * A page aloft is no page to anybody else: it is neither moved nor freed, and not trusted, nor are later ones. It is aloft
//!   until all its records are swung.
//! * What is aloft is shown to whoever must know of all copies (`copies.rs`).
//! * A page that can't be written stays aloft for ever: the tier has failed by then.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Instant;

use terrace_blocks::{Image, Lower};
use terrace_engine::Progress;
use terrace_engine::space::Context;
use terrace_index::{Address, AnyIndex};

use crate::location::Location;
use crate::space::SlabSpace;
use crate::stage::{Stage, What};

/// Pages aloft at once, at most, beside one for each partition.
const ALOFT_MORE: usize = 1;

/// A page that is being written.
pub(crate) struct Flight {
    number: u32,
    seq: u64,
    stage: Stage,
    /// Records that leave DRAM, of each class.
    leaving: Vec<usize>,
}

/// A flight that its launcher has to fly.
pub(crate) struct Departure {
    flight: Arc<Flight>,
    image: Image,
}

/// The flights, and buffers for more.
#[derive(Default)]
pub(crate) struct Flights {
    aloft: Vec<Arc<Flight>>,
    /// By the partition that launched them.
    departing: Vec<(usize, Departure)>,
    stages: Vec<Stage>,
    images: Vec<Image>,
}

impl Flights {
    /// What is aloft.
    pub fn stages(&self) -> impl Iterator<Item = &Stage> {
        self.aloft.iter().map(|flight| &flight.stage)
    }
    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.aloft.is_empty()
    }
    /// Records aloft that leave DRAM slots, of each class; nothing if there are none.
    pub fn leaving(&self) -> Vec<usize> {
        let mut sums = Vec::new();
        for flight in &self.aloft {
            sums.resize(flight.leaving.len(), 0);
            sums.iter_mut().zip(&flight.leaving).for_each(|(sum, leaving)| *sum += leaving);
        }
        sums
    }
    /// Where the records aloft come from.
    pub fn sources(&self) -> impl Iterator<Item = Address> {
        self.stages().flat_map(|stage| &stage.moves).map(|of| of.from)
    }
    /// What a partition launched since it was asked last: to be flown without a lock, then landed.
    pub fn depart(&mut self, partition: usize) -> Vec<Departure> {
        let of = self.departing.extract_if(.., |(by, _)| *by == partition);
        of.map(|(_, departure)| departure).collect()
    }
}

impl<L: Lower> SlabSpace<L> {
    /// Sends what is staged on its way to a page. Who has this partition flies it.
    pub(crate) fn launch(&self, partition: usize, stage: &mut Stage) -> Progress {
        if stage.is_empty() {
            return Progress::Idle;
        }
        // To the end: who ends a tier that shrinks must know of what was launched behind that.
        let flights = &mut *self.flights.lock();
        if flights.aloft.len() >= self.slabs.partitions() + ALOFT_MORE {
            return Progress::Blocked;
        }
        let begun = self.begin_page(stage, Self::KEEP).or_else(|| {
            let kept = self.blocks.free.slots.lock().len();
            self.begin_page_beyond(stage, Self::KEEP.saturating_sub(kept))
        });
        let Some((number, seq)) = begun else { return Progress::Blocked };
        let mut leaving = vec![0; self.slabs.classes.count()];
        for of in stage.moves.iter().filter(|of| of.what == What::Evict) {
            if let Location::Dram(offset) = self.locations.location(of.from)
                && let Some(class) = self.slabs.class_of(self.slabs.slab_of(offset))
            {
                leaving[class] += 1;
            }
        }
        let staged = std::mem::replace(stage, flights.stages.pop().unwrap_or_default());
        let flight = Arc::new(Flight { number, seq, stage: staged, leaving });
        flights.aloft.push(flight.clone());
        let departure = Departure { flight, image: flights.images.pop().unwrap_or_default() };
        flights.departing.push((partition, departure));
        Progress::Worked
    }

    /// Flies what was launched. The caller has no partition any more, nor the steps' lock.
    pub(crate) fn fly_all(&self, launched: Vec<Departure>, index: &AnyIndex, context: &dyn Context) {
        launched.into_iter().for_each(|departure| self.fly(departure, index, context));
    }

    /// Writes a page that was launched, and lands it.
    fn fly(&self, mut departure: Departure, index: &AnyIndex, context: &dyn Context) {
        let number = departure.flight.number;
        if self.write_page(number, &departure.flight.stage, &mut departure.image, context) {
            let has = self.try_have_one(departure.flight.seq).unwrap_or_else(|| {
                let since = Instant::now();
                let has = self.have_one(departure.flight.seq);
                self.details.landings_delayed.fetch_add(1, Relaxed);
                self.details.landings_delayed_us.fetch_add(since.elapsed().as_micros() as u64, Relaxed);
                has
            });
            self.land(departure, index);
            drop(has);
        }
    }

    /// The page of a flight is there. The caller has a partition.
    pub(crate) fn land(&self, departure: Departure, index: &AnyIndex) {
        let Departure { flight, image } = departure;
        self.land_page((flight.number, flight.seq), &flight.stage, index);
        let flights = &mut *self.flights.lock();
        flights.images.push(image);
        flights.aloft.retain(|aloft| aloft.seq != flight.seq);
        if let Ok(Flight { mut stage, .. }) = Arc::try_unwrap(flight) {
            stage.clear();
            flights.stages.push(stage);
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_blocks::{ByteTier, FooterEntry};
    use terrace_engine::record::{Kind, Lifetime, NewRecord};
    use terrace_media::HeapRegion;

    use super::*;
    use crate::copies::WithStages;
    use crate::open::SlabOptions;

    fn space() -> SlabSpace<ByteTier<HeapRegion>> {
        let (region, bytes) = (Arc::new(HeapRegion::new(4 << 20).unwrap()), 4 << 20);
        let options = SlabOptions::of_tests();
        SlabSpace::new(ByteTier::new(region, 0, bytes, String::new()), None, options).unwrap()
    }

    /// A stage with one record of a page.
    fn staged(space: &SlabSpace<ByteTier<HeapRegion>>, version: u64) -> (Stage, FooterEntry) {
        let (kind, db) = (Kind::Value, 0);
        let record = NewRecord {
            version,
            kind,
            db,
            flags: 0,
            state: 0,
            expire_at: 0,
            token: 0,
            key: b"key",
            value: b"value",
        };
        let entry = FooterEntry { hash: 9, check: 1, version, offset: 64, kind, db, life: Lifetime::NEVER };
        let from = space.locations.page(terrace_blocks::Place { slot: 9, offset: 64 }, kind, record.words());
        let mut stage = Stage::default();
        stage.push(What::Page { words: 4, seq: 1 }, from, entry, &record);
        (stage, entry)
    }

    #[test]
    fn what_is_aloft_is_shown_and_trusted_by_nobody() {
        let space = space();
        let before = space.sealed();
        let (mut stage, entry) = staged(&space, 5);
        assert_eq!(space.launch(0, &mut stage), Progress::Worked);
        assert!(stage.is_empty() && space.is_aloft());
        assert_eq!(space.sealed(), before, "it may not be there after a crash");
        let mut shown = Vec::new();
        let stages = [&stage, &Stage::default()];
        let copies = WithStages { space: &space, stages };
        copies.show(0, &mut |entries| shown.extend_from_slice(entries));
        assert_eq!(shown, [entry], "a tombstone above it must stay");
    }

    #[test]
    fn a_later_page_is_not_trusted_before_an_earlier_one() {
        let space = space();
        let before = space.sealed();
        for version in [5, 6] {
            let (mut stage, _) = staged(&space, version);
            assert_eq!(space.launch(0, &mut stage), Progress::Worked);
        }
        let (mut third, _) = staged(&space, 7);
        assert_eq!(space.launch(0, &mut third), Progress::Blocked, "two at once");
        let index = terrace_index::Clht::with_min_buckets(4);
        let mut departures = space.flights.lock().depart(0);
        space.land(departures.remove(1), AnyIndex::of(&index));
        assert_eq!(space.sealed(), before);
        space.land(departures.remove(0), AnyIndex::of(&index));
        assert_eq!(space.sealed(), before + 2);
        assert!(!space.is_aloft());
    }
}
