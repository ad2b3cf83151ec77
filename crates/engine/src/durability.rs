//! What a crash may take, by mode.

use std::str::FromStr;
use std::time::Duration;

/// When an answer is given (see `docs/durability.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// No log. A clean stop saves everything; a crash keeps what had been flushed.
    None,
    /// Answered when the write of the log entry has completed: the death of the process loses nothing, power loss at most
    /// this much time.
    Batch(Duration),
    /// Answered when safe from power loss.
    Sync,
}

impl Default for Durability {
    fn default() -> Self {
        Self::Batch(Duration::from_millis(100))
    }
}

impl FromStr for Durability {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?}: expected none, batch:MILLISECONDS (such as batch:100) or sync");
        match text {
            "none" => Ok(Self::None),
            "sync" => Ok(Self::Sync),
            "batch" => Ok(Self::default()),
            _ => match text.strip_prefix("batch:").and_then(|ms| ms.parse::<u64>().ok()) {
                Some(ms @ 1..=60_000) => Ok(Self::Batch(Duration::from_millis(ms))),
                Some(_) => Err(format!("{text:?}: the window must be 1 to 60000 milliseconds")),
                None => Err(expected()),
            },
        }
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Batch(window) => write!(f, "batch:{}", window.as_millis()),
            Self::Sync => f.write_str("sync"),
        }
    }
}
