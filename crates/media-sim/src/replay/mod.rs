//! Walks a trace and knows, at each position, what is durable and what a crash may choose.

mod lines;
mod pages;

pub(crate) use lines::{Lines, Stored};
pub(crate) use pages::{Pages, SECTOR_BYTES, SECTORS, Version, pages_of};

use crate::trace::{Event, Initial, SiteId, Trace};

/// The state of all media at one position of a trace.
pub(crate) struct Replay<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) media: Vec<Medium>,
    /// Events seen.
    pub(crate) position: usize,
    /// A site whose flushes, fences and syncs are left out, as if the line were missing from the source.
    without: Option<SiteId>,
}

/// The persistence state of one medium.
pub(crate) enum Medium {
    Region(Lines),
    Block(Pages),
}

impl<'t> Replay<'t> {
    pub(crate) fn new(trace: &'t Trace, without: Option<SiteId>) -> Self {
        let media = trace.media.iter().map(|initial| match initial {
            Initial::Region(words) => Medium::Region(Lines::new(words.clone())),
            Initial::Block(bytes) => Medium::Block(Pages::new(bytes.clone())),
        });
        Self { trace, media: media.collect(), position: 0, without }
    }

    /// The event that comes next.
    pub(crate) fn next_event(&self) -> Option<&'t Event> {
        self.trace.events.get(self.position)
    }

    /// Lets the next event happen; `false` if it was a flush, fence or sync that had nothing to do.
    pub(crate) fn step(&mut self) -> bool {
        let Some(event) = self.next_event() else { return true };
        let missing = |site: SiteId| self.without == Some(site);
        let mut useful = true;
        match event {
            Event::Store { medium, actor, site, offset, bytes, streamed } => {
                if let Medium::Region(lines) = &mut self.media[medium.0 as usize] {
                    lines.store(*offset, self.trace.bytes(*bytes), *site);
                    if *streamed && !missing(*site) {
                        lines.flush(*actor, *offset, bytes.len as u64);
                    }
                }
            }
            Event::Flush { medium, actor, site, offset, len } if !missing(*site) => {
                if let Medium::Region(lines) = &mut self.media[medium.0 as usize] {
                    useful = lines.flush(*actor, *offset, *len);
                }
            }
            Event::Fence { actor, site } if !missing(*site) => {
                // A fence knows nothing of regions: it is for all that its thread flushed.
                useful = false;
                for medium in &mut self.media {
                    if let Medium::Region(lines) = medium {
                        useful |= lines.fence(*actor);
                    }
                }
            }
            Event::BlockWrite { medium, site, offset, bytes } => {
                if let Medium::Block(pages) = &mut self.media[medium.0 as usize] {
                    pages.write(*offset, *bytes, *site);
                }
            }
            Event::Sync { medium, site } if !missing(*site) => {
                if let Medium::Block(pages) = &mut self.media[medium.0 as usize] {
                    useful = pages.sync(self.trace);
                }
            }
            _ => {}
        }
        self.position += 1;
        useful
    }
}
