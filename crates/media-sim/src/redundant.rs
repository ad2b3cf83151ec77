//! Which flushes, fences and syncs of a history had nothing to do.

use std::ops::AddAssign;

use crate::replay::Replay;
use crate::trace::{Event, SiteId, Trace};

/// How often a site ran, and how often it changed nothing about what is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteUse {
    /// Flushes, fences, syncs or streaming stores of this site.
    pub runs: u64,
    /// Flushes of lines that were all clean or already flushed by the same actor; fences and syncs that made nothing
    /// durable. A streaming store is never redundant.
    pub redundant: u64,
}

impl AddAssign for SiteUse {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.redundant += other.redundant;
    }
}

impl Trace {
    /// Which events made something durable or began to, as far as they are [sites](Self::sites); `false` for all others.
    pub fn useful(&self) -> Vec<bool> {
        let mut useful = Vec::with_capacity(self.len());
        let mut replay = Replay::new(self, None);
        while let Some(event) = replay.next_event() {
            useful.push(replay.step() && event.persisting_site().is_some());
        }
        useful
    }

    /// What each of its [`sites`](Self::sites) was good for. A store of what was there already counts as no store, so that
    /// flushing it is redundant.
    pub fn site_uses(&self) -> Vec<(SiteId, SiteUse)> {
        let sites = self.sites();
        let mut uses: Vec<(SiteId, SiteUse)> = sites.iter().map(|site| (*site, SiteUse::default())).collect();
        let mut replay = Replay::new(self, None);
        while let Some(event) = replay.next_event() {
            let useful = replay.step();
            let site = event.persisting_site();
            let Some(i) = site.and_then(|site| sites.binary_search(&site).ok()) else { continue };
            let streamed = matches!(event, Event::Store { .. });
            uses[i].1 += SiteUse { runs: 1, redundant: u64::from(!useful && !streamed) };
        }
        uses
    }
}
