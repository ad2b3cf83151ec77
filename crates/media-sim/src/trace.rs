//! What a history did to its media, event by event.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::Location;

/// A moment in a history: the number of events that happened before it.
pub type Position = usize;

/// A medium of a trace, in order of registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct MediumId(pub(crate) u16);

/// A line of source that stores, flushes, fences, streams, writes or syncs, and which of these: a line may do several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub(crate) u32);

/// What a site does to its medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteKind {
    /// Stores through the cache: durable by what comes later alone.
    Store,
    /// Stores around the cache: stored and flushed.
    Stream,
    /// Writes lines back.
    Flush,
    /// Waits for what was flushed.
    Fence,
    /// Writes pages of a block device: durable by a later sync alone.
    Write,
    /// Waits for what was written.
    Sync,
}

impl std::fmt::Display for SiteKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Store => "store",
            Self::Stream => "stream",
            Self::Flush => "flush",
            Self::Fence => "fence",
            Self::Write => "write",
            Self::Sync => "sync",
        })
    }
}

/// A run of bytes in the trace's arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// One thing that happened. Reads leave no event: a crash can't tell them.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Bytes stored into a region; `streamed` ones count as flushed too.
    Store { medium: MediumId, actor: u32, site: SiteId, offset: u64, bytes: Bytes, streamed: bool },
    /// Lines written back, effective at the actor's next fence.
    Flush { medium: MediumId, actor: u32, site: SiteId, offset: u64, len: u64 },
    /// The actor's flushed lines are durable, in every region.
    Fence { actor: u32, site: SiteId },
    /// A completed write to a block device.
    BlockWrite { medium: MediumId, site: SiteId, offset: u64, bytes: Bytes },
    /// A successful sync of a block device.
    Sync { medium: MediumId, site: SiteId },
    /// The driver's client was answered.
    Acknowledged { token: u64 },
}

/// The content a medium started with.
#[derive(Clone, Debug)]
pub(crate) enum Initial {
    Region(Vec<u64>),
    Block(Vec<u8>),
}

/// A whole history: the initial images of its media and everything that happened to them, in one order.
///
/// Made by [`Recorder::finish`](crate::Recorder::finish), replayed by [`Explorer`](crate::Explorer).
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub(crate) media: Vec<Initial>,
    pub(crate) events: Vec<Event>,
    pub(crate) arena: Vec<u8>,
    pub(crate) strays: Vec<String>,
    sites: Vec<(&'static Location<'static>, SiteKind)>,
    site_ids: HashMap<(&'static Location<'static>, SiteKind), SiteId>,
}

impl Trace {
    /// Events in it; the position of its end.
    pub fn len(&self) -> Position {
        self.events.len()
    }
    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
    /// Every place in the source that made something durable, each once. Replaying without one of them
    /// ([`Explorer::without_site`](crate::Explorer::without_site)) must be caught by a good check.
    pub fn sites(&self) -> Vec<SiteId> {
        let mut sites: Vec<SiteId> = self.events.iter().filter_map(Event::persisting_site).collect();
        sites.sort_unstable();
        sites.dedup();
        sites
    }
    /// `file:line` of a site.
    pub fn site_name(&self, site: SiteId) -> String {
        self.sites
            .get(site.0 as usize)
            .map_or_else(String::new, |(at, _)| format!("{}:{}", at.file(), at.line()))
    }
    /// Where a site is, and what it does there.
    ///
    /// # Panics
    /// If it is not a site of this trace.
    pub fn site(&self, site: SiteId) -> (&'static Location<'static>, SiteKind) {
        self.sites[site.0 as usize]
    }
    /// The positions of the events that a site made, those that [`sites`](Self::sites) are about.
    pub fn executions(&self, site: SiteId) -> Vec<Position> {
        let events = self.events.iter().enumerate();
        events.filter(|(_, event)| event.persisting_site() == Some(site)).map(|(at, _)| at).collect()
    }
    /// Stores that went around the media API, a sentence each: at some fence a region did not hold what had been recorded.
    /// A trace with any is worthless, for no crash of it is complete.
    pub fn strays(&self) -> &[String] {
        &self.strays
    }
    /// Forgets what happened from `position` on.
    pub fn truncate(&mut self, position: Position) {
        self.events.truncate(position);
    }
    /// The position of the last successful sync of the `n`th block device before `position`: every write to it before the
    /// returned position is safe. 0 if there was none. The search goes backwards and is as long as the way to that sync.
    ///
    /// # Panics
    /// If `position` lies behind the end.
    pub fn last_sync(&self, n: usize, position: Position) -> Position {
        let blocks = self.media.iter().enumerate().filter(|(_, medium)| matches!(medium, Initial::Block(_)));
        let Some(id) = blocks.map(|(id, _)| MediumId(id as u16)).nth(n) else { return 0 };
        let synced = |event: &Event| matches!(event, Event::Sync { medium, .. } if *medium == id);
        self.events[..position].iter().rposition(synced).unwrap_or(0)
    }
    /// The positions at which the absence of the event at `at` may show: from behind it until a later event of the same actor
    /// or device would do what it did.
    ///
    /// # Panics
    /// If there is no such event.
    pub fn effect(&self, at: Position) -> Range<Position> {
        let later = self.events[at + 1..].iter();
        let end = match &self.events[at] {
            Event::Fence { actor, .. } => {
                later.clone().position(|event| matches!(event, Event::Fence { actor: a, .. } if a == actor))
            }
            Event::Sync { medium, .. } => {
                later.clone().position(|event| matches!(event, Event::Sync { medium: m, .. } if m == medium))
            }
            Event::Flush { medium, offset, len, .. } => self.flushed_again(at, *medium, *offset, *len),
            Event::Store { medium, offset, bytes, .. } => {
                self.flushed_again(at, *medium, *offset, bytes.len as u64)
            }
            _ => Some(0),
        };
        at + 1..end.map_or(self.len() + 1, |end| at + 2 + end)
    }
    /// How long after `at` all those bytes were flushed and fenced once more.
    fn flushed_again(&self, at: Position, medium: MediumId, offset: u64, len: u64) -> Option<Position> {
        let mut flushed_by = None;
        self.events[at + 1..].iter().position(|event| match event {
            Event::Flush { medium: m, actor, offset: o, len: l, .. } => {
                let all = *m == medium && *o / 64 <= offset / 64 && o + l >= offset + len;
                flushed_by = flushed_by.or(all.then_some(*actor));
                false
            }
            Event::Store { medium: m, actor, offset: o, bytes, streamed: true, .. } => {
                let all = *m == medium && *o / 64 <= offset / 64 && o + bytes.len as u64 >= offset + len;
                flushed_by = flushed_by.or(all.then_some(*actor));
                false
            }
            Event::Fence { actor, .. } => flushed_by == Some(*actor),
            _ => false,
        })
    }
    pub(crate) fn bytes(&self, bytes: Bytes) -> &[u8] {
        &self.arena[bytes.start..bytes.start + bytes.len]
    }
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Bytes {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        Bytes { start, len: bytes.len() }
    }
    pub(crate) fn note_site(&mut self, at: &'static Location<'static>, kind: SiteKind) -> SiteId {
        *self.site_ids.entry((at, kind)).or_insert_with(|| {
            self.sites.push((at, kind));
            SiteId(self.sites.len() as u32 - 1)
        })
    }
}

impl Event {
    /// The site of an event that makes something durable or starts to.
    pub(crate) fn persisting_site(&self) -> Option<SiteId> {
        match self {
            Self::Flush { site, .. }
            | Self::Fence { site, .. }
            | Self::Sync { site, .. }
            | Self::Store { site, streamed: true, .. } => Some(*site),
            _ => None,
        }
    }
}
