//! How a store's time lies to the machine's clocks, kept in its directory (`docs/time.md`).
//!
//! ```text
//! DIR/clock    one line of text: terrace-clock 1 STORE BOOT BASE_US WALL_AHEAD_MS CRC    (hexadecimal, but the last two numbers)
//! ```
//!
//! It is written when a store is opened after the machine has started, and when somebody sets the wall clock: what it says holds in
//! between. Without it a store goes by the wall clock.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_engine::clock::{Anchor, Clock};

use super::block::write_whole;

const FILE: &str = "clock";
const WORD: &str = "terrace-clock";
const FORMAT: &str = "1";

/// The machine's clocks, and what a store's directory says of its time.
#[derive(Debug)]
pub(crate) struct StoreClock {
    machine: Arc<dyn Clock>,
    path: Option<PathBuf>,
    store_id: u64,
}

impl StoreClock {
    /// For the store in `dir`; without a directory nothing is kept.
    pub fn new(machine: Arc<dyn Clock>, dir: Option<&Path>, store_id: u64) -> Self {
        Self { machine, path: dir.map(|dir| dir.join(FILE)), store_id }
    }
}

impl Clock for StoreClock {
    fn now_us(&self) -> u64 {
        self.machine.now_us()
    }
    fn elapsed_us(&self) -> u64 {
        self.machine.elapsed_us()
    }
    fn boot(&self) -> u64 {
        self.machine.boot()
    }
    fn kept(&self) -> Option<Anchor> {
        let path = self.path.as_ref()?;
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let anchor = decode(&text, self.store_id);
                if anchor.is_none() {
                    tracing::warn!(
                        "{} is damaged or another store's: time goes by the wall clock",
                        path.display()
                    );
                }
                anchor
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!("{}: {error}: time goes by the wall clock", path.display());
                }
                None
            }
        }
    }
    fn keep(&self, anchor: Anchor) -> io::Result<()> {
        match &self.path {
            Some(path) => {
                // A store that lies in memory alone has made no directory yet.
                path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
                write_whole(path, encode(anchor, self.store_id).as_bytes())
            }
            None => Ok(()),
        }
    }
}

/// The start of the machine at which the store of a directory was open last, whichever store that was.
pub(crate) fn boot_of(dir: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(dir.join(FILE)).ok()?;
    let mut words = text.split(' ');
    let is_clock = words.next() == Some(WORD) && words.next() == Some(FORMAT);
    words.nth(1).filter(|_| is_clock).and_then(|boot| u64::from_str_radix(boot, 16).ok())
}

fn encode(anchor: Anchor, store_id: u64) -> String {
    let Anchor { boot, base_us, wall_ahead_ms } = anchor;
    let text = format!("{WORD} {FORMAT} {store_id:016x} {boot:016x} {base_us} {wall_ahead_ms}");
    let crc = crc32c::crc32c(text.as_bytes());
    format!("{text} {crc:08x}\n")
}

fn decode(text: &str, store_id: u64) -> Option<Anchor> {
    let (front, crc) = text.trim_end().rsplit_once(' ')?;
    let words: Vec<&str> = front.split(' ').collect();
    let &[WORD, FORMAT, store, boot, base_us, wall_ahead_ms] = words.as_slice() else { return None };
    let is_whole = u32::from_str_radix(crc, 16).ok()? == crc32c::crc32c(front.as_bytes());
    let is_this = u64::from_str_radix(store, 16).ok()? == store_id;
    (is_whole && is_this).then_some(Anchor {
        boot: u64::from_str_radix(boot, 16).ok()?,
        base_us: base_us.parse().ok()?,
        wall_ahead_ms: wall_ahead_ms.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use terrace_engine::clock::SystemClock;

    use super::*;

    #[test]
    fn what_is_kept_is_there_in_a_directory_that_was_not() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        let clock = |store_id| StoreClock::new(Arc::new(SystemClock), Some(&inner), store_id);
        let anchor = Anchor { boot: 7, base_us: -5, wall_ahead_ms: 3 };
        assert_eq!(clock(1).kept(), None);
        clock(1).keep(anchor).unwrap();
        assert_eq!((clock(1).kept(), clock(2).kept(), boot_of(&inner)), (Some(anchor), None, Some(7)));
    }
}
