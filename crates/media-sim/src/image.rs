//! The media as a crash left them, independent of the engine that ran before.

use crate::region::LINE_WORDS;
use crate::replay::{Medium, Replay};
use crate::snapshot::Crash;
use crate::{Recorder, SimBlock, SimRegion};

/// One simulated medium of an image.
enum SimMedium {
    Region(SimRegion),
    Block(SimBlock),
}

/// What recovery finds: every region and block device of the history, in the order in which the recorder made them.
///
/// The media are plain (nothing is recorded) and belong to this crash alone: recovery may write to them. The explorer
/// reuses their memory for the next image, unless a clone is still held.
pub struct CrashImage {
    media: Vec<SimMedium>,
}

impl CrashImage {
    /// The durable content at the replay's position, in fresh buffers.
    pub(crate) fn of(replay: &Replay<'_>) -> Self {
        Self { media: replay.media.iter().map(fresh).collect() }
    }

    /// The `n`th region, from 0.
    ///
    /// # Panics
    /// If the history had no such region.
    pub fn region(&self, n: usize) -> SimRegion {
        let mut regions = self.media.iter().filter_map(SimMedium::region);
        let Some(region) = regions.nth(n) else { panic!("the history has no region {n}") };
        region.clone()
    }

    /// The `n`th block device, from 0.
    ///
    /// # Panics
    /// If the history had no such device.
    pub fn block(&self, n: usize) -> SimBlock {
        let mut blocks = self.media.iter().filter_map(SimMedium::block);
        let Some(block) = blocks.nth(n) else { panic!("the history has no block device {n}") };
        block.clone()
    }

    /// A copy that records: run the recovery on it, finish the recorder and explore its trace to crash inside the recovery.
    /// Take it before the image is changed. After the death of a process what it had not made durable is only stored in the
    /// copy, as its first events: power loss inside the recovery may still take it.
    pub fn recording(&self, crash: Crash) -> (Recorder, CrashImage) {
        let recorder = Recorder::new();
        let copy = |medium: &SimMedium| match medium {
            SimMedium::Region(region) if crash == Crash::Process => {
                SimMedium::Region(region.recorded_unflushed(&recorder))
            }
            SimMedium::Block(block) if crash == Crash::Process => {
                SimMedium::Block(block.recorded_unsynced(&recorder))
            }
            SimMedium::Region(region) => SimMedium::Region(recorder.region(region.to_bytes())),
            SimMedium::Block(block) => SimMedium::Block(recorder.block(block.to_bytes())),
        };
        let media = self.media.iter().map(copy).collect();
        (recorder, Self { media })
    }

    /// Back to the durable content at the replay's position: undoes the last image and what its recovery wrote, and takes
    /// over what became durable since.
    pub(crate) fn reset(&mut self, replay: &mut Replay<'_>) {
        for (mine, state) in self.media.iter_mut().zip(&mut replay.media) {
            if !mine.is_unique() {
                *mine = fresh(state);
            }
            match (mine, state) {
                (SimMedium::Region(region), Medium::Region(lines)) => {
                    lines.rebased.drain(..).for_each(|line| region.mark_line(line));
                    region.restore(&lines.base);
                }
                (SimMedium::Block(block), Medium::Block(pages)) => {
                    pages.rebased.drain(..).for_each(|page| block.mark_page(page));
                    block.restore(&pages.base);
                }
                _ => unreachable!("images are made from the replay's own media"),
            }
        }
    }

    pub(crate) fn region_of(&self, medium: usize) -> Option<&SimRegion> {
        self.media[medium].region()
    }

    pub(crate) fn block_of(&self, medium: usize) -> Option<&SimBlock> {
        self.media[medium].block()
    }
}

fn fresh(state: &Medium) -> SimMedium {
    match state {
        Medium::Region(lines) => {
            debug_assert!(lines.base.len().is_multiple_of(LINE_WORDS));
            SimMedium::Region(SimRegion::new(&lines.base, None))
        }
        Medium::Block(pages) => SimMedium::Block(SimBlock::from_image(pages.base.clone())),
    }
}

impl SimMedium {
    fn region(&self) -> Option<&SimRegion> {
        if let Self::Region(region) = self { Some(region) } else { None }
    }
    fn block(&self) -> Option<&SimBlock> {
        if let Self::Block(block) = self { Some(block) } else { None }
    }
    fn is_unique(&self) -> bool {
        match self {
            Self::Region(region) => region.is_unique(),
            Self::Block(block) => block.is_unique(),
        }
    }
}
