//! Replays a trace, crashes it wherever it may crash, and has every image checked.

use std::fmt::Display;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::choices::Choices;
use crate::image::CrashImage;
use crate::point::{CrashPoint, Failure, PointKind, Statistics};
use crate::replay::Replay;
use crate::rng::Rng;
use crate::snapshot::{Crash, Model, Snapshot};
use crate::trace::{Event, Position, SiteId, Trace};

mod drawn;

/// How to explore; see [`explore`](Self::explore).
#[derive(Clone, Debug)]
pub struct Explorer {
    seed: u64,
    model: Model,
    images_per_point: u64,
    point_sample: u64,
    store_sample: u64,
    crashes: Vec<Crash>,
    minimise: bool,
    without: Option<SiteId>,
    within: Option<Vec<Range<Position>>>,
}

impl Explorer {
    /// The prefix model, up to 1,024 images at each point, every fence, sync, write and acknowledgement and one in 16
    /// stores, both kinds of crash.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            model: Model::Prefix,
            images_per_point: 1024,
            point_sample: 1,
            store_sample: 16,
            crashes: vec![Crash::Power, Crash::Process],
            minimise: true,
            without: None,
            within: None,
        }
    }
    /// What may survive of unflushed lines.
    #[must_use]
    pub fn model(self, model: Model) -> Self {
        Self { model, ..self }
    }
    /// At most so many images at one point (at least 1). Where all possible ones are no more than this and 1,024, all.
    #[must_use]
    pub fn images_per_point(self, images: u64) -> Self {
        Self { images_per_point: images.max(1), ..self }
    }
    /// Explores one in `n` crash points, chosen by seed; 1 for all.
    #[must_use]
    pub fn point_sample(self, n: u64) -> Self {
        Self { point_sample: n.max(1), ..self }
    }
    /// Crashes in and after one in `n` stores, chosen by seed; 1 for all, 0 for none.
    #[must_use]
    pub fn store_sample(self, n: u64) -> Self {
        Self { store_sample: n, ..self }
    }
    /// Only this kind of crash.
    #[must_use]
    pub fn only(self, crash: Crash) -> Self {
        Self { crashes: vec![crash], ..self }
    }
    /// Whether a failing image is reduced until each remaining loss is needed for the failure (runs the check again).
    #[must_use]
    pub fn minimise(self, minimise: bool) -> Self {
        Self { minimise, ..self }
    }
    /// Mutation: replays as if this line of the source flushed, fenced or synced nothing. A good check then fails; if it
    /// passes, the tests have a hole or the flush is redundant.
    #[must_use]
    pub fn without_site(self, site: SiteId) -> Self {
        Self { without: Some(site), ..self }
    }

    /// Crashes only where the position lies in one of these ranges.
    #[must_use]
    pub fn within(self, ranges: Vec<Range<Position>>) -> Self {
        Self { within: Some(ranges), ..self }
    }

    /// Checks crash images of the whole trace in order of position. `check` opens the engine on the image and says what is
    /// wrong, if anything; a panic in it counts as wrong.
    ///
    /// # Errors
    /// The first image that `check` refused.
    pub fn explore<E: Display>(
        &self,
        trace: &Trace,
        check: impl FnMut(&CrashPoint, &CrashImage) -> Result<(), E>,
    ) -> Result<Statistics, Box<Failure>> {
        let replay = Replay::new(trace, self.without);
        let image = CrashImage::of(&replay);
        let statistics = Statistics { histories: 1, ..Statistics::default() };
        let mut run = Run { explorer: self, replay, image, statistics, check, choice: Vec::new() };
        // A position is a point only once: nothing happens between an event's end and the next one's beginning.
        let mut visited = None;
        loop {
            let position = run.replay.position;
            let event = run.replay.next_event();
            let inside = event.and_then(|event| self.inside(event, position));
            if let Some(kind) = inside {
                run.visit(kind)?;
            }
            let before = event.map_or(Some(PointKind::End), before);
            if let Some(kind) = before.filter(|_| visited != Some(position)) {
                run.visit(kind)?;
            }
            let Some(event) = event else { return Ok(run.statistics) };
            run.replay.step();
            if let Some(kind) = self.after(event, position) {
                run.visit(kind)?;
                visited = Some(run.replay.position);
            }
        }
    }

    /// How many crash points a trace has, sampled out ones included. [`explore`](Self::explore) visits one in
    /// [`point_sample`](Self::point_sample) of them.
    pub fn points(&self, trace: &Trace) -> u64 {
        let mut points = 1;
        let mut after = false;
        for (position, event) in trace.events.iter().enumerate() {
            let count = |yes: bool, crashes| if yes { crashes } else { 0 };
            points += count(self.inside(event, position).is_some(), 1);
            points += count(before(event).is_some() && !after, self.crashes.len() as u64);
            after = self.after(event, position).is_some();
            points += count(after, self.crashes.len() as u64);
        }
        points
    }

    /// Makes one image again and checks it.
    ///
    /// # Errors
    /// What `check` says.
    ///
    /// # Panics
    /// If the choice is not of this trace and point.
    pub fn replay<E: Display>(
        &self,
        trace: &Trace,
        point: &CrashPoint,
        choice: &[u32],
        mut check: impl FnMut(&CrashPoint, &CrashImage) -> Result<(), E>,
    ) -> Result<(), String> {
        let mut replay = Replay::new(trace, self.without);
        while replay.position < point.position {
            assert!(replay.next_event().is_some(), "the point lies behind the trace's end");
            replay.step();
        }
        let snapshot = Snapshot::take(&replay, point, self.model);
        assert_eq!(snapshot.arities().len(), choice.len(), "the choice belongs to another crash");
        let image = CrashImage::of(&replay);
        snapshot.apply(choice, &image, trace);
        caught(&mut check, point, &image)
    }

    fn rng(&self, position: Position, salt: u64) -> Rng {
        Rng::new(Rng::new(self.seed ^ salt).bits() ^ position as u64)
    }

    fn samples_store(&self, position: Position) -> bool {
        self.rng(position, 1).one_in(self.store_sample)
    }

    /// The point inside an event, which only a process's death reaches.
    fn inside(&self, event: &Event, position: Position) -> Option<PointKind> {
        match event {
            Event::Store { bytes, .. } if bytes.len > 8 && self.samples_store(position) => {
                Some(PointKind::DuringStore)
            }
            Event::BlockWrite { .. } => Some(PointKind::DuringWrite),
            _ => None,
        }
    }

    fn after(&self, event: &Event, position: Position) -> Option<PointKind> {
        match event {
            Event::Fence { .. } => Some(PointKind::AfterFence),
            Event::Sync { .. } => Some(PointKind::AfterSync),
            Event::BlockWrite { .. } => Some(PointKind::AfterWrite),
            Event::Acknowledged { token } => Some(PointKind::Acknowledged(*token)),
            Event::Store { .. } if self.samples_store(position) => Some(PointKind::AfterStore),
            _ => None,
        }
    }
}

fn before(event: &Event) -> Option<PointKind> {
    match event {
        Event::Fence { .. } => Some(PointKind::BeforeFence),
        Event::Sync { .. } => Some(PointKind::BeforeSync),
        _ => None,
    }
}

/// One exploration under way.
struct Run<'t, C> {
    explorer: &'t Explorer,
    replay: Replay<'t>,
    image: CrashImage,
    statistics: Statistics,
    check: C,
    choice: Vec<u32>,
}

impl<E: Display, C: FnMut(&CrashPoint, &CrashImage) -> Result<(), E>> Run<'_, C> {
    fn visit(&mut self, kind: PointKind) -> Result<(), Box<Failure>> {
        let inside = kind.is_inside();
        let position = self.replay.position;
        if self.explorer.within.as_ref().is_some_and(|all| !all.iter().any(|range| range.contains(&position)))
        {
            return Ok(());
        }
        for crash in &self.explorer.crashes {
            let point = CrashPoint { position: self.replay.position, kind, crash: *crash };
            let salt = 2 + *crash as u64 * 2 + u64::from(inside);
            let mut rng = self.explorer.rng(point.position, salt);
            if rng.one_in(self.explorer.point_sample) && !(inside && *crash == Crash::Power) {
                self.crash(point, &mut rng)?;
            }
        }
        Ok(())
    }

    fn crash(&mut self, point: CrashPoint, rng: &mut Rng) -> Result<(), Box<Failure>> {
        let snapshot = Snapshot::take(&self.replay, &point, self.explorer.model);
        let arities = snapshot.arities();
        let mut choices = Choices::new(&arities, self.explorer.images_per_point);
        self.statistics.points += 1;
        self.statistics.exhaustive_points += u64::from(choices.exhaustive());
        let mut choice = std::mem::take(&mut self.choice);
        while choices.next(rng, &mut choice) {
            self.statistics.images += 1;
            self.statistics.power_images += u64::from(point.crash == Crash::Power);
            if let Err(message) = self.try_image(&point, &snapshot, &choice) {
                return Err(Box::new(self.failure(point, &snapshot, choice, message)));
            }
        }
        self.choice = choice;
        Ok(())
    }

    fn try_image(&mut self, point: &CrashPoint, snapshot: &Snapshot, choice: &[u32]) -> Result<(), String> {
        self.image.reset(&mut self.replay);
        snapshot.apply(choice, &self.image, self.replay.trace);
        caught(&mut self.check, point, &self.image)
    }

    /// Gives back one loss after the other, as long as the image still fails.
    fn failure(
        &mut self,
        point: CrashPoint,
        snapshot: &Snapshot,
        mut choice: Vec<u32>,
        mut message: String,
    ) -> Failure {
        let dims = if self.explorer.minimise { choice.len() } else { 0 };
        for i in 0..dims {
            let newest = snapshot.newest(i);
            let lost = std::mem::replace(&mut choice[i], newest);
            if lost == newest {
                continue;
            }
            match self.try_image(&point, snapshot, &choice) {
                Err(simpler) => message = simpler,
                Ok(()) => choice[i] = lost,
            }
        }
        let lost = snapshot.describe(&choice, self.replay.trace);
        Failure { seed: self.explorer.seed, point, choice, lost, message, statistics: self.statistics }
    }
}

/// Runs the check; a panic in it becomes its verdict, so that the crash is reported with its seed.
fn caught<E: Display>(
    check: &mut impl FnMut(&CrashPoint, &CrashImage) -> Result<(), E>,
    point: &CrashPoint,
    image: &CrashImage,
) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(|| check(point, image))) {
        Ok(verdict) => verdict.map_err(|wrong| wrong.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("the check panicked: {}", text.unwrap_or("(no message)")))
        }
    }
}
