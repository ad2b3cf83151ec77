//! The simulated media of one history, and the clock that its store is given.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use terrace_engine::clock::{Anchor, Clock};
use terrace_media_sim::{CrashImage, QueueOrder, Recorder, SimBlock, SimRegion};

/// Which kind of media a sweep runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// Byte-addressable memory: one region.
    Byte,
    /// Block media: a device for the log and one for the data.
    Block,
    /// Both: a region for the log and a middle tier, and a device for the data.
    Tiered,
}

impl MediaKind {
    /// Whether the operation log lies on a device, so that answers wait for a sync.
    pub fn log_is_synced(self) -> bool {
        self == Self::Block
    }
    /// Whether records are read from a device, so that answers come late.
    pub fn is_read_late(self) -> bool {
        self != Self::Byte
    }
}

impl std::str::FromStr for MediaKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "byte" => Ok(Self::Byte),
            "block" => Ok(Self::Block),
            "tiered" => Ok(Self::Tiered),
            _ => Err(format!("{text:?}: expected byte, block or tiered")),
        }
    }
}

impl std::fmt::Display for MediaKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Byte => "byte",
            Self::Block => "block",
            Self::Tiered => "tiered",
        })
    }
}

/// What a store lies on. Clones share the bytes.
#[derive(Clone)]
pub enum Media {
    /// A region.
    Byte(SimRegion),
    /// Two devices.
    Block {
        /// For the operation log.
        log: SimBlock,
        /// For everything else.
        data: SimBlock,
    },
    /// A region and a device.
    Tiered {
        /// For the operation log and the middle tier.
        region: SimRegion,
        /// For everything else.
        data: SimBlock,
    },
}

/// The content of media: one region, log and data, or region and data.
#[derive(Clone)]
pub(super) struct Bytes(pub Vec<Vec<u8>>);

impl Media {
    /// Media that record, with this content.
    pub(super) fn recorded(kind: MediaKind, bytes: &Bytes, recorder: &Recorder) -> Self {
        let bytes = &bytes.0;
        match kind {
            MediaKind::Byte => Self::Byte(recorder.region(bytes[0].clone())),
            MediaKind::Block => {
                let (log, data) = (recorder.block(bytes[0].clone()), recorder.block(bytes[1].clone()));
                Self::Block { log, data }
            }
            MediaKind::Tiered => {
                let (region, data) = (recorder.region(bytes[0].clone()), recorder.block(bytes[1].clone()));
                Self::Tiered { region, data }
            }
        }
    }
    /// What a crash left.
    pub(super) fn of(kind: MediaKind, image: &CrashImage) -> Self {
        match kind {
            MediaKind::Byte => Self::Byte(image.region(0)),
            MediaKind::Block => Self::Block { log: image.block(0), data: image.block(1) },
            MediaKind::Tiered => Self::Tiered { region: image.region(0), data: image.block(0) },
        }
    }
    /// How reads of block media complete in queues made from now on.
    pub(super) fn set_queue_order(&self, order: QueueOrder) {
        match self {
            Self::Byte(_) => {}
            Self::Block { log, data } => {
                log.set_queue_order(order);
                data.set_queue_order(order);
            }
            Self::Tiered { data, .. } => data.set_queue_order(order),
        }
    }
    pub(super) fn to_bytes(&self) -> Bytes {
        Bytes(match self {
            Self::Byte(region) => vec![region.to_bytes()],
            Self::Block { log, data } => vec![log.to_bytes(), data.to_bytes()],
            Self::Tiered { region, data } => vec![region.to_bytes(), data.to_bytes()],
        })
    }
}

/// So many looks at the clock without anything done mean that a store waits for ever. Everything that waits looks at it.
const LOOKS_MAX: u64 = 20_000;

/// From so many looks on each takes a microsecond: the log is freed behind versions, which are made of time.
const LOOKS_FREE: u64 = 1_000;

/// A clock that the driver sets, and a fuse against stores that hang: with one thread nobody else could end the wait.
#[derive(Debug)]
pub(super) struct SweepClock {
    us: AtomicU64,
    looks: AtomicU64,
    /// What the clock on the wall is ahead, and that the store can know it: the machine was not started since.
    set_by_us: Option<i64>,
}

impl SweepClock {
    pub fn new(us: u64) -> Self {
        Self { us: us.into(), looks: 0.into(), set_by_us: None }
    }
    /// Of a machine whose clock on the wall was set by so much while a store was closed, which began with `us` elapsed.
    pub fn set(us: u64, by_us: i64) -> Self {
        Self { set_by_us: Some(by_us), ..Self::new(us) }
    }
    pub fn advance_us(&self, us: u64) {
        self.us.fetch_add(us, Relaxed);
    }
    pub fn us(&self) -> u64 {
        self.us.load(Relaxed)
    }
    /// Something was done.
    pub fn progress(&self) {
        self.looks.store(0, Relaxed);
    }
}

impl Clock for SweepClock {
    fn elapsed_us(&self) -> u64 {
        let looks = self.looks.fetch_add(1, Relaxed);
        assert!(
            looks < LOOKS_MAX || std::thread::panicking(),
            "the store hangs: it waits, and nothing changes"
        );
        if looks > LOOKS_FREE {
            self.advance_us(1);
        }
        self.us()
    }
    fn now_us(&self) -> u64 {
        self.elapsed_us().saturating_add_signed(self.set_by_us.unwrap_or(0))
    }
    fn boot(&self) -> u64 {
        u64::from(self.set_by_us.is_some())
    }
    fn kept(&self) -> Option<Anchor> {
        self.set_by_us.map(|_| Anchor { boot: 1, base_us: 0, wall_ahead_ms: 0 })
    }
}
