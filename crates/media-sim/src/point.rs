//! Where a history may crash, and what a sweep counted and found.

use std::fmt;

use crate::snapshot::Crash;
use crate::trace::Position;

/// Why the explorer crashes here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PointKind {
    /// A fence comes next: everything since the one before is at risk.
    BeforeFence,
    /// A fence has just completed.
    AfterFence,
    /// A sync comes next.
    BeforeSync,
    /// A sync has just completed.
    AfterSync,
    /// Inside a store of several words (a process crash only).
    DuringStore,
    /// After a store (sampled).
    AfterStore,
    /// Inside a write to a block device (a process crash only).
    DuringWrite,
    /// After a write to a block device.
    AfterWrite,
    /// A client has just been answered; the token is the driver's.
    Acknowledged(u64),
    /// The end of the history.
    End,
}

impl PointKind {
    /// Whether the next event is half done.
    pub(crate) fn is_inside(self) -> bool {
        matches!(self, Self::DuringStore | Self::DuringWrite)
    }
}

/// One crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// The number of events that had happened.
    pub position: Position,
    /// Why here.
    pub kind: PointKind,
    /// What crashed.
    pub crash: Crash,
}

/// What a sweep tried. Add several up with `+=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Histories explored.
    pub histories: u64,
    /// Crash points at which images were made; power and process count as two.
    pub points: u64,
    /// Images checked.
    pub images: u64,
    /// Those in which the machine lost power; the rest are deaths of the process.
    pub power_images: u64,
    /// Points at which every possible image was checked.
    pub exhaustive_points: u64,
}

impl std::ops::AddAssign for Statistics {
    fn add_assign(&mut self, other: Self) {
        self.histories += other.histories;
        self.points += other.points;
        self.images += other.images;
        self.power_images += other.power_images;
        self.exhaustive_points += other.exhaustive_points;
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { histories, points, images, power_images, exhaustive_points } = self;
        write!(
            f,
            "{images} crash images ({power_images} of power loss) at {points} points ({exhaustive_points} exhausted) of {histories} histories"
        )
    }
}

/// An image that the check refused. Its `Display` is the whole story.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The explorer's seed.
    pub seed: u64,
    /// Where it crashed.
    pub point: CrashPoint,
    /// The option of each dimension, for [`Explorer::replay`](crate::Explorer::replay).
    pub choice: Vec<u32>,
    /// What did not survive, a sentence each; minimal if the explorer minimises.
    pub lost: Vec<String>,
    /// What the check said.
    pub message: String,
    /// What had been tried, this image included.
    pub statistics: Statistics,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CrashPoint { position, kind, crash } = self.point;
        writeln!(
            f,
            "seed {}: {crash:?} crash at position {position} ({kind:?}): {}",
            self.seed, self.message
        )?;
        if self.lost.is_empty() {
            writeln!(f, "  everything stored had survived")?;
        }
        for lost in &self.lost {
            writeln!(f, "  {lost}")?;
        }
        write!(f, "  replay: choice {:?}", self.choice)
    }
}

impl std::error::Error for Failure {}
