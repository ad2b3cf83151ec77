//! Power cuts instead of SIGKILL: the server runs on media with shadows, and starts again on what a cut leaves of them
//! (`crate::torture`).

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;
use terrace::Size;
use terrace::engine::Durability;
use terrace_testkit::rng::Rng;
use terrace_testkit::sweep::MediaKind;

use super::server::{Launch, Running, STARTS_WITHIN, Tiers};
use crate::torture::cut::{cut, held};

/// Where shadows and stand-ins of byte-addressable media are.
const SHARED_MEMORY: &str = "/dev/shm";

/// Starts `torture-server` on a directory of its own, and cuts its power.
pub struct PowerCuts {
    program: PathBuf,
    options: Vec<String>,
    durability: Durability,
    media: MediaKind,
    /// The store's directory, its memory's, its shadows', the images', and what holds them.
    places: [PathBuf; 4],
    homes: Mutex<Vec<TempDir>>,
    rng: Mutex<Rng>,
}

impl PowerCuts {
    /// Servers of `program`, which is `terrace-proof`.
    ///
    /// # Errors
    /// If no directories can be made, or a size is none.
    pub fn new(program: &Path, tiers: &Tiers, seed: u64) -> anyhow::Result<Self> {
        let memory = TempDir::new_in(SHARED_MEMORY).context("no directory on tmpfs")?;
        let store = match tiers.media {
            MediaKind::Byte => TempDir::new_in(SHARED_MEMORY),
            MediaKind::Block | MediaKind::Tiered => TempDir::new(),
        };
        let store = store.context("no directory for the store")?;
        let in_memory = |name| memory.path().join(name);
        let places =
            [store.path().join("data"), in_memory("memory"), in_memory("shadows"), in_memory("images")];
        places.iter().try_for_each(std::fs::create_dir)?;
        let bytes = |size: &str| match size.parse() {
            Ok(Size::Bytes(bytes)) => Ok(bytes.to_string()),
            Ok(Size::Percent(_)) => bail!("{size:?} is no number of bytes"),
            Err(error) => bail!("{error}"),
        };
        let mut options = vec![
            ("--engine", tiers.engine.clone()),
            ("--media", tiers.media.to_string()),
            ("--durability", tiers.durability.to_string()),
            ("--dir", places[0].display().to_string()),
            ("--shadows", places[2].display().to_string()),
            ("--dram-bytes", bytes(&tiers.dram)?),
            ("--tier-bytes", bytes(&tiers.lower)?),
        ];
        if tiers.media == MediaKind::Tiered {
            let memory = places[1].display().to_string();
            options.extend([("--memory", memory), ("--memory-bytes", bytes(&tiers.middle)?)]);
        }
        Ok(Self {
            program: program.to_owned(),
            options: options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect(),
            durability: tiers.durability,
            media: tiers.media,
            places,
            homes: Mutex::new(vec![store, memory]),
            rng: Mutex::new(Rng::new(seed ^ 0x9077)),
        })
    }

    fn output(&self) -> PathBuf {
        self.places[0].with_file_name("output.txt")
    }

    fn spawn(&self) -> anyhow::Result<Child> {
        let file = File::create(self.output())?;
        let mut command = Command::new(&self.program);
        command.arg("torture-server").args(&self.options);
        // It ends when its input does.
        command.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file);
        command.spawn().with_context(|| format!("can't run {}", self.program.display()))
    }
}

impl Launch for PowerCuts {
    fn start(&self) -> anyhow::Result<Running> {
        let from = Instant::now();
        let mut child = self.spawn()?;
        loop {
            let printed = std::fs::read_to_string(self.output()).unwrap_or_default();
            if let Some((redis, memcached)) = serving(&printed) {
                return Ok(Running::new(child, redis, memcached, self.output()));
            }
            let ended = child.try_wait()?;
            if ended.is_some() || from.elapsed() > STARTS_WITHIN {
                let _ = child.kill();
                let _ = child.wait();
                bail!("the server did not come to serve ({ended:?}):\n{printed}");
            }
            // Polling another process; nothing depends on how long this takes.
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn start_and_crash(&self, wait: Duration) -> anyhow::Result<()> {
        let mut child = self.spawn()?;
        // A random moment of its start is what is wanted.
        std::thread::sleep(wait);
        child.kill()?;
        child.wait()?;
        self.crashed()
    }

    fn crashed(&self) -> anyhow::Result<()> {
        let seed = self.rng.lock().unwrap_or_else(PoisonError::into_inner).next_u64();
        let [store, memory, shadows, images] = &self.places;
        cut(&held(self.media, store, memory), shadows, images, seed).map(drop)
    }

    fn window(&self) -> Option<Duration> {
        match self.durability {
            Durability::Batch(window) => Some(window),
            _ => None,
        }
    }

    fn keep(&self) -> PathBuf {
        let homes = std::mem::take(&mut *self.homes.lock().unwrap_or_else(PoisonError::into_inner));
        homes.into_iter().for_each(|home| drop(home.keep()));
        self.places[0].clone()
    }
}

/// The addresses that a server tells once it serves.
fn serving(printed: &str) -> Option<(SocketAddr, SocketAddr)> {
    // Only a whole line.
    let line =
        printed.split_inclusive('\n').find_map(|line| line.strip_prefix("serving "))?.strip_suffix('\n')?;
    let (redis, memcached) = line.split_once(' ')?;
    Some((redis.parse().ok()?, memcached.parse().ok()?))
}
