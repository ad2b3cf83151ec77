//! A probe of the disk beside the store: reads that wait for nothing but the device.
//!
//! A disk that others share sometimes answers nobody for a while. An answer that the store owes to such a disk is long through no
//! fault of its own; the probe tells how long the disk was silent.
//!
//! ```text
//!   every 10 ms one block of a file of its own, past the page cache --> slow, and the device moved next to nothing --> Silence
//! ```
//!
//! What the store itself does to the disk is no excuse. The probe's file is written once, so that its reads wait for no journal and
//! no lock of the store's files; time that the probe waits for a processor is taken off; and a slow read counts only if the device
//! moved few bytes in that time, for anybody.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::random::Random;

/// A read begins so long after the one before it ended.
const EVERY: Duration = Duration::from_millis(10);
/// A read is slow from here on; idle and busy, most take less than one millisecond.
const SLOW: Duration = Duration::from_millis(20);
/// Bytes that a device moves in a second at least if it works: slower than any SSD.
const WORKING: f64 = (50 << 20) as f64;
const BLOCK: usize = 4096;
const BLOCKS: u64 = 1024;
/// A sector of the system's counts.
const SECTOR: u64 = 512;

/// A time in which the disk answered nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    pub from: Instant,
    pub until: Instant,
}

impl Silence {
    /// How much of an interval lies in it.
    fn within(&self, from: Instant, until: Instant) -> Duration {
        self.until.min(until).saturating_duration_since(self.from.max(from))
    }
}

/// A thread that reads.
pub struct Probe {
    silences: Arc<Mutex<Vec<Silence>>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Probe {
    /// Begins to read on the disk of a directory. Where a file can't be read past the page cache, as in memory, or the system
    /// does not count what the device moves, nothing is ever silent.
    ///
    /// # Errors
    /// If its file can't be written.
    pub fn of(dir: &Path) -> io::Result<Self> {
        let (silences, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let mut reads = Reads::new(dir)?;
        let (found, stop) = (silences.clone(), ended.clone());
        let thread = std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                found.lock().extend(reads.as_mut().and_then(Reads::silence));
                std::thread::sleep(EVERY);
            }
        });
        Ok(Self { silences, ended, thread: Some(thread) })
    }

    /// How much of an interval the disk was silent in. A read under way is not known yet.
    pub fn silent(&self, from: Instant, until: Instant) -> Duration {
        self.silences.lock().iter().map(|silence| silence.within(from, until)).sum()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _joined = thread.join();
        }
    }
}

/// The probe's file, and where the system counts for it.
struct Reads {
    file: File,
    device: PathBuf,
    buffer: Vec<u8>,
    random: Random,
}

impl Reads {
    fn new(dir: &Path) -> io::Result<Option<Self>> {
        let path = dir.join("probe");
        let mut file = File::create(&path)?;
        file.write_all(&vec![1; BLOCK * BLOCKS as usize])?;
        file.sync_all()?;
        let of = file.metadata()?.dev();
        let device = format!("/sys/dev/block/{}:{}/stat", rustix::fs::major(of), rustix::fs::minor(of));
        let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let Ok(file) = File::options().read(true).custom_flags(direct).open(&path) else { return Ok(None) };
        // Twice a block holds an aligned one.
        Ok(Some(Self { file, device: device.into(), buffer: vec![0; 2 * BLOCK], random: Random::new(of) }))
    }

    /// One read; `Some` if the disk was silent meanwhile.
    fn silence(&mut self) -> Option<Silence> {
        let aligned = self.buffer.as_ptr().align_offset(BLOCK);
        let block = self.buffer.get_mut(aligned..aligned + BLOCK)?;
        let (moved, waited) = (moved(&self.device)?, waited_for_processor());
        let from = Instant::now();
        self.file.read_exact_at(block, self.random.below(BLOCKS) * BLOCK as u64).ok()?;
        let until = Instant::now() - waited_for_processor().saturating_sub(waited);
        let moved = self::moved(&self.device)? - moved;
        silence(from, until, moved)
    }
}

/// Of a read and what the device moved meanwhile.
fn silence(from: Instant, until: Instant, moved: u64) -> Option<Silence> {
    let took = until.saturating_duration_since(from);
    (took >= SLOW && (moved as f64) < WORKING * took.as_secs_f64()).then_some(Silence { from, until })
}

/// Bytes that a device has read and written.
fn moved(device: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(device).ok()?;
    let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
    Some((fields.get(2)? + fields.get(6)?) * SECTOR)
}

/// How long this thread was ready and had no processor; nothing where the system does not count it.
fn waited_for_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split_whitespace().nth(1).and_then(|field| field.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_works_is_not_silent() {
        let from = Instant::now();
        let until = from + Duration::from_millis(300);
        assert_eq!(silence(from, until, 1 << 20), Some(Silence { from, until }));
        assert_eq!(silence(from, until, 100 << 20), None, "300 ms in which the device moved 100 MiB");
        assert_eq!(silence(from, from + Duration::from_millis(5), 0), None, "a read that is not slow");
    }

    #[test]
    fn only_what_overlaps_counts() {
        let at = Instant::now();
        let ms = |ms| at + Duration::from_millis(ms);
        let silence = Silence { from: ms(100), until: ms(300) };
        assert_eq!(silence.within(ms(200), ms(250)), Duration::from_millis(50));
        assert_eq!(silence.within(ms(0), ms(150)), Duration::from_millis(50));
        assert_eq!(silence.within(ms(300), ms(900)), Duration::ZERO);
    }

    #[test]
    fn what_a_device_moved_is_the_sectors_read_and_written() {
        let dir = tempfile::tempdir().unwrap();
        let stat = dir.path().join("stat");
        std::fs::write(&stat, "  10 0 300 4 20 0 500 8 0 9 9\n").unwrap();
        assert_eq!(moved(&stat), Some((300 + 500) * SECTOR));
        std::fs::write(&stat, "10 0\n").unwrap();
        assert_eq!(moved(&stat), None, "nothing is counted");
        assert_eq!(moved(&dir.path().join("none")), None);
    }
}
