//! Media that break their promise on purpose: whoever watches them must notice.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omit {
    /// The last line of a flushed range.
    Flush,
    /// A fence: what it would have made durable waits for the thread's next one.
    Fence,
    /// A sync: it reports success, and its pages wait for the next one.
    Sync,
}

/// One in so many flushes, fences or syncs is left out.
#[derive(Debug)]
pub struct Sabotage {
    omit: Omit,
    one_in: u64,
    calls: AtomicU64,
}

impl Sabotage {
    /// Leaves out one in `one_in`, spread evenly and without a pattern.
    ///
    /// # Panics
    /// If `one_in` is 0.
    pub fn new(omit: Omit, one_in: u64) -> Self {
        assert!(one_in > 0, "one in 0 is never");
        Self { omit, one_in, calls: AtomicU64::new(0) }
    }

    /// Whether this call is to be left out.
    pub(super) fn strikes(&self, omit: Omit) -> bool {
        if self.omit != omit {
            return false;
        }
        let call = self.calls.fetch_add(1, Relaxed);
        let mixed = (call + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32).is_multiple_of(self.one_in)
    }
}

impl Clone for Sabotage {
    fn clone(&self) -> Self {
        Self::new(self.omit, self.one_in)
    }
}

impl std::fmt::Display for Sabotage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let omit = match self.omit {
            Omit::Flush => "flush",
            Omit::Fence => "fence",
            Omit::Sync => "sync",
        };
        write!(f, "{omit}:{}", self.one_in)
    }
}

impl FromStr for Sabotage {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?}: expected flush, fence or sync, and :N to leave out one in N");
        let (omit, one_in) = text.split_once(':').unwrap_or((text, "1"));
        let omit = match omit {
            "flush" => Omit::Flush,
            "fence" => Omit::Fence,
            "sync" => Omit::Sync,
            _ => return Err(expected()),
        };
        let one_in = one_in.parse().ok().filter(|one_in| *one_in > 0).ok_or_else(expected)?;
        Ok(Self::new(omit, one_in))
    }
}
