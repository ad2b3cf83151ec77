//! Devices that fail when told to.

use std::io;

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

/// What the device answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// EIO.
    Io,
    /// ENOSPC.
    NoSpace,
}

impl FaultKind {
    pub(crate) fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Self::Io => 5,
            Self::NoSpace => 28,
        })
    }
}

/// One failure to come. The access has no effect. A failed sync stays failed for the device's life.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What fails.
    pub access: Access,
    /// How many such accesses succeed first, counted from the injection.
    pub after: u64,
    /// How it fails.
    pub kind: FaultKind,
    /// Whether every later such access fails too.
    pub sticky: bool,
}

/// The failures a device still has before it.
#[derive(Default)]
pub(crate) struct Faults {
    waiting: Vec<Fault>,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.waiting.push(fault);
    }

    /// Counts one access and says whether it fails. Each waiting fault of its kind counts down, also when another fires.
    pub(crate) fn next(&mut self, access: Access) -> io::Result<()> {
        let mut fired = None;
        self.waiting.retain_mut(|fault| {
            if fault.access != access {
                return true;
            }
            if fault.after > 0 {
                fault.after -= 1;
                return true;
            }
            fired = fired.or(Some(fault.kind));
            fault.sticky || access == Access::Sync
        });
        fired.map_or(Ok(()), |kind| Err(kind.error()))
    }
}
