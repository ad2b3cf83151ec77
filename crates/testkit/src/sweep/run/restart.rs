//! Clean stops and deaths of the process in the middle of a history.

use terrace_engine::Durability;
use terrace_media_sim::set_actor;

use super::super::judge::read_all;
use super::super::lane::Held;
use super::{BACKGROUND, Driver, Stop, nothing_after};

impl Driver<'_> {
    pub(super) fn restart(&mut self, clean: bool) -> Result<(), Stop> {
        self.complete_all();
        if clean {
            self.settle()?;
        } else {
            self.answer_all()?;
            self.refuse_unanswered()?;
        }
        self.lanes.clear();
        self.coverage.take(&self.store.stats());
        set_actor(BACKGROUND);
        if clean {
            self.store.close().map_err(|error| Stop::Failed(format!("closing: {error}")))?;
            self.closes.push(self.recorder.position());
            self.coverage.add("clean stops", 1);
            self.coverage.saved(&self.store.stats());
        } else {
            self.coverage.add("process kills", 1);
        }
        set_actor(0);
        let store = self.setup.open(&self.media, &self.clock, &self.manner, false);
        let store = store.map_err(|error| Stop::Failed(format!("opening again, clean {clean}: {error}")))?;
        self.store = Held::new(store);
        self.note_steadiness();
        if !clean && self.setup.options.durability == Durability::None {
            self.take_stock()?;
        }
        self.open_lanes()
    }

    /// Without a log the death of the process takes back what it likes, and the history goes on with the rest.
    fn take_stock(&mut self) -> Result<(), Stop> {
        let position = self.recorder.position();
        let wrong = |error: String| Stop::Failed(format!("after a kill: {error}"));
        let found = read_all(&**self.store, self.clock.us(), self.setup.subject.stem()).map_err(wrong)?;
        let promise = nothing_after(&self.closes, position);
        let verdict = self.ledger.oracle_now(self.seed).verify(position, &promise, &found.records);
        verdict.map_err(|violation| wrong(violation.to_string()))?;
        let tags = &mut self.tags;
        let fallen = self.ledger.fall_back(position, &found, &mut || {
            *tags += 1;
            *tags
        });
        self.coverage.add("keys that fell back", fallen);
        Ok(())
    }
}
