//! Crashes at points, and with choices of what survives, that somebody draws: a fuzzer's bytes, through an [`Rng`].

use std::fmt::Display;

use super::{Explorer, Run, before};
use crate::choices::Arity;
use crate::image::CrashImage;
use crate::point::{CrashPoint, Failure, PointKind, Statistics};
use crate::replay::Replay;
use crate::rng::Rng;
use crate::snapshot::{Crash, Snapshot};
use crate::trace::Trace;

impl Explorer {
    /// Draws up to `images` crashes, each a point (any that [`explore`](Self::explore) knows, so not those of stores left out by
    /// [`store_sample`](Self::store_sample)) and what survives there, and has them checked in order of position.
    ///
    /// # Errors
    /// The first image that `check` refused.
    pub fn explore_drawn<E: Display>(
        &self,
        trace: &Trace,
        draws: &mut Rng,
        images: u64,
        check: impl FnMut(&CrashPoint, &CrashImage) -> Result<(), E>,
    ) -> Result<Statistics, Box<Failure>> {
        let points = self.all_points(trace);
        // A zero is the end, the only point that every history has.
        let last = points.len() - 1;
        let images = 1 + draws.below(images.max(1));
        let mut drawn: Vec<usize> =
            (0..images).map(|_| last - draws.below(points.len() as u64) as usize).collect();
        drawn.sort_unstable();
        let replay = Replay::new(trace, self.without);
        let image = CrashImage::of(&replay);
        let statistics = Statistics { histories: 1, ..Statistics::default() };
        let mut run = Run { explorer: self, replay, image, statistics, check, choice: Vec::new() };
        for point in drawn.into_iter().map(|i| points[i]) {
            while run.replay.position < point.position {
                run.replay.step();
            }
            let snapshot = Snapshot::take(&run.replay, &point, self.model);
            let choice = choose(draws, &snapshot.arities());
            run.statistics.points += 1;
            run.statistics.images += 1;
            run.statistics.power_images += u64::from(point.crash == Crash::Power);
            if let Err(message) = run.try_image(&point, &snapshot, &choice) {
                return Err(Box::new(run.failure(point, &snapshot, choice, message)));
            }
        }
        Ok(run.statistics)
    }

    /// Every point in the order in which [`explore`](Self::explore) visits them, those that it would sample out included.
    fn all_points(&self, trace: &Trace) -> Vec<CrashPoint> {
        let mut points = Vec::new();
        let mut add = |position, kind: PointKind| {
            let crashes = self.crashes.iter().filter(|crash| !(kind.is_inside() && **crash == Crash::Power));
            points.extend(crashes.map(|crash| CrashPoint { position, kind, crash: *crash }));
        };
        let mut visited = false;
        for (position, event) in trace.events.iter().enumerate() {
            if let Some(kind) = self.inside(event, position) {
                add(position, kind);
            }
            if let Some(kind) = before(event).filter(|_| !visited) {
                add(position, kind);
            }
            let after = self.after(event, position);
            visited = after.is_some();
            if let Some(kind) = after {
                add(position + 1, kind);
            }
        }
        add(trace.events.len(), PointKind::End);
        points
    }
}

/// An option of each dimension. Without anything left to draw the oldest of each: the most is lost.
fn choose(draws: &mut Rng, arities: &[Arity]) -> Vec<u32> {
    let oldest = || vec![0; arities.len()];
    let newest = || arities.iter().map(|arity| arity.listed - 1).collect::<Vec<_>>();
    let any = |rng: &mut Rng, arity: &Arity| match arity.wild && rng.one_in(4) {
        true => arity.listed + rng.below(1 << 16) as u32,
        false => rng.below(u64::from(arity.listed)) as u32,
    };
    let with_one = |mut all: Vec<u32>, draws: &mut Rng| {
        if !all.is_empty() {
            let i = draws.below(all.len() as u64) as usize;
            all[i] = any(draws, &arities[i]);
        }
        all
    };
    match draws.below(6) {
        0 => oldest(),
        1 => newest(),
        2 => with_one(newest(), draws),
        3 => with_one(oldest(), draws),
        4 => arities.iter().map(|arity| any(draws, arity)).collect(),
        _ => {
            let mut rng = Rng::new(draws.below(1 << 16));
            arities.iter().map(|arity| any(&mut rng, arity)).collect()
        }
    }
}
