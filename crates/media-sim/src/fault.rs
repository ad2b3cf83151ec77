//! Devices that fail when told to: which accesses, and how.
//!
//! ```text
//!   Fault::new(Access, FaultKind)  .after(n)  .forever()  .within(bytes)  .one_in(n, seed)
//!                      |
//!        error, nothing done       Io, NoSpace
//!        error, part of it done    Partial (a write's first sectors; a read that ends short)
//!        no error, and a lie       Lost, Misdirected, Stale, Flip
//!        no error, but later       Late (queued reads)
//! ```

use std::io;
use std::ops::Range;

use crate::replay::SECTOR_BYTES;
use crate::rng::Rng;

/// An access that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read, direct or through a queue.
    Read,
    /// A write.
    Write,
    /// A sync.
    Sync,
}

/// What the device does. A kind that makes no sense for an access leaves it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// EIO; nothing happens.
    Io,
    /// ENOSPC; nothing happens.
    NoSpace,
    /// A write stores its first sectors of 512 bytes and answers EIO. A read brings them and ends there: an error, for
    /// [`terrace_media::Completion`] knows no half reads.
    Partial {
        /// How many.
        sectors: u32,
    },
    /// A write answers that it is done, and nothing was stored: firmware that lies.
    Lost,
    /// The access goes to another place, so many pages on (around the end), and succeeds.
    Misdirected {
        /// How far.
        pages: u64,
    },
    /// A read brings what each page held before it was last written, as far as the device was told to remember
    /// ([`SimBlock::keep_history`](crate::SimBlock::keep_history)).
    Stale,
    /// A read brings this byte (of those it asked for, modulo their number) with other bits; the medium itself is whole.
    Flip {
        /// Which byte.
        byte: u64,
        /// The bits that differ.
        mask: u8,
    },
    /// A queued read completes only after so many more reaps. One that waits lets that time pass.
    Late {
        /// How many.
        reaps: u32,
    },
}

impl FaultKind {
    /// The error that is answered, if one is.
    pub(crate) fn error(self, access: Access) -> io::Result<()> {
        let code = match self {
            Self::Io => 5,
            Self::NoSpace => 28,
            Self::Partial { .. } if access == Access::Read => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the read ended short"));
            }
            Self::Partial { .. } => 5,
            _ => return Ok(()),
        };
        Err(io::Error::from_raw_os_error(code))
    }
    /// How many of an access's bytes are done before it fails.
    pub(crate) fn done(self, len: usize) -> usize {
        match self {
            Self::Io | Self::NoSpace | Self::Lost => 0,
            Self::Partial { sectors } => len.min(sectors as usize * SECTOR_BYTES),
            _ => len,
        }
    }
}

/// Failures to come. A failed sync stays failed for the device's life, whatever is said here.
#[derive(Clone, Debug)]
pub struct Fault {
    access: Access,
    kind: FaultKind,
    after: u64,
    forever: bool,
    within: Option<Range<u64>>,
    chance: Option<(u64, Rng)>,
}

impl Fault {
    /// The next such access fails, once.
    pub fn new(access: Access, kind: FaultKind) -> Self {
        Self { access, kind, after: 0, forever: false, within: None, chance: None }
    }
    /// So many accesses that it would hit succeed first.
    pub fn after(mut self, accesses: u64) -> Self {
        self.after = accesses;
        self
    }
    /// It stays: every later such access fails too.
    pub fn forever(mut self) -> Self {
        self.forever = true;
        self
    }
    /// Only reads and writes that touch these bytes of the device. Syncs have no place.
    pub fn within(mut self, bytes: Range<u64>) -> Self {
        self.within = Some(bytes);
        self
    }
    /// Only one such access in `n`, as the seed says.
    pub fn one_in(mut self, n: u64, seed: u64) -> Self {
        self.chance = Some((n, Rng::new(seed)));
        self
    }

    fn is_late(&self) -> bool {
        matches!(self.kind, FaultKind::Late { .. })
    }

    fn hits(&mut self, access: Access, bytes: &Range<u64>) -> bool {
        let touches = |within: &Range<u64>| within.start < bytes.end && bytes.start < within.end;
        access == self.access
            && (access == Access::Sync || self.within.as_ref().is_none_or(touches))
            && self.chance.as_mut().is_none_or(|(n, rng)| rng.one_in(*n))
    }
}

/// The failures a device still has before it.
#[derive(Default)]
pub(crate) struct Faults {
    waiting: Vec<Fault>,
    /// How many accesses failed or lied.
    pub(crate) fired: u64,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.waiting.push(fault);
    }

    /// Forgets what is to come: the device is well again.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Counts one access and says how it fails, if it does. Each waiting fault that it would hit counts down, also when
    /// another fires.
    pub(crate) fn next(&mut self, access: Access, bytes: Range<u64>) -> Option<FaultKind> {
        self.fire(access, bytes, false)
    }

    /// How many reaps a read that is queued now is late.
    pub(crate) fn lateness(&mut self, bytes: Range<u64>) -> u32 {
        match self.fire(Access::Read, bytes, true) {
            Some(FaultKind::Late { reaps }) => reaps,
            _ => 0,
        }
    }

    fn fire(&mut self, access: Access, bytes: Range<u64>, late: bool) -> Option<FaultKind> {
        let mut fired = None;
        self.waiting.retain_mut(|fault| {
            if fault.is_late() != late || !fault.hits(access, &bytes) {
                return true;
            }
            if fault.after > 0 {
                fault.after -= 1;
                return true;
            }
            fired = fired.or(Some(fault.kind));
            fault.forever || access == Access::Sync
        });
        self.fired += u64::from(fired.is_some());
        fired
    }
}
