//! A server in a memory cgroup of its own.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::Arguments;
use crate::disk::Disk;

/// What a cgroup has beside the DRAM that its server was given.
const BESIDE_BYTES: u64 = 512 << 20;
/// What memcached keeps in DRAM of an item whose value is on the SSD: header, key, place, in the slab class that they need.
const EXTSTORE_ITEM_BYTES: u64 = 96;
/// With its defaults extstore forgets most of what a load brings, for it writes down what has been idle for long, once a second.
/// These were the best of those tried on two cores: nothing is forgotten, and what is read often comes back into DRAM.
const EXTSTORE_OPTIONS: &str =
    "ext_threads=8,ext_item_size=64,ext_wbuf_size=8,ext_max_sleep=1000,ext_item_age=0,ext_recache_rate=20";
/// The shortest time for a server to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Ours.
    Terrace,
    /// memcached with extstore and as much DRAM.
    Extstore,
    /// The same with DRAM for the headers of all items on top.
    ExtstoreAll,
    /// redis-server with everything in DRAM.
    Redis,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Terrace => "terrace",
            Self::Extstore => "extstore",
            Self::ExtstoreAll => "extstore-all",
            Self::Redis => "redis",
        })
    }
}

/// One that runs.
pub struct Server {
    kind: Kind,
    child: Child,
    port: u16,
    group: Group,
    dir: PathBuf,
    redis_protocol: bool,
    /// What the device had written when it listened.
    written_before: Option<u64>,
}

/// What it used.
pub struct Usage {
    /// Bytes that it had the device read.
    pub read_bytes: u64,
    /// Bytes that the device under its directory wrote meanwhile, for whomever: of one process the kernel counts pages that it
    /// changed in the cache, some of them several times before they are written once. `None` where the device is not known.
    pub written_bytes: Option<u64>,
    /// Memory that is not a file's.
    pub anonymous_bytes: u64,
}

impl Server {
    /// Starts one with nothing in it, and waits until it listens.
    pub fn start(arguments: &Arguments, terrace: &Path, kind: Kind) -> anyhow::Result<Self> {
        let dir = arguments.dir.join(kind.to_string());
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        std::fs::create_dir_all(&dir)?;
        let dir = dir.canonicalize()?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let data_bytes = arguments.records * (arguments.value_bytes + 100);
        let headers = if kind == Kind::ExtstoreAll { arguments.records * EXTSTORE_ITEM_BYTES } else { 0 };
        let dram = if kind == Kind::Redis { data_bytes * 2 } else { arguments.dram_bytes() + headers };
        // Against redis it speaks that protocol.
        let redis_protocol = kind == Kind::Redis || arguments.servers.contains(&Kind::Redis);
        let mut line: Vec<String> = match kind {
            Kind::Terrace => {
                let ours = format!("127.0.0.1:{port}");
                let (redis, memcached) =
                    if redis_protocol { (ours.as_str(), "off") } else { ("off", ours.as_str()) };
                let words =
                    ["serve", "--redis", redis, "--memcached", memcached, "--engine", &arguments.engine];
                let mut line = vec![terrace.display().to_string()];
                line.extend(words.map(String::from));
                line.extend(["--dram-records".into(), dram.to_string()]);
                line.extend(["--ssd".into(), (data_bytes * 4).to_string(), "--dir".into()]);
                line.push(dir.display().to_string());
                line
            }
            Kind::Extstore | Kind::ExtstoreAll => {
                let megabytes = dram.div_ceil(1 << 20).max(64);
                let gigabytes = (data_bytes * 4).div_ceil(1 << 30);
                let words = ["memcached", "-l", "127.0.0.1", "-U", "0", "-u", "root", "-t", "2", "-c", "256"];
                let mut line: Vec<String> = words.map(String::from).to_vec();
                line.extend(["-p".into(), port.to_string(), "-m".into(), megabytes.to_string()]);
                line.extend(["-o".into(), format!("ext_path={}/ext:{gigabytes}G", dir.display())]);
                line.extend(["-o".into(), EXTSTORE_OPTIONS.into()]);
                line
            }
            Kind::Redis => {
                let words = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
                let mut line: Vec<String> = words.map(String::from).to_vec();
                line.extend(["--port".into(), port.to_string(), "--dir".into(), dir.display().to_string()]);
                line
            }
        };
        let group =
            Group::new(&format!("terrace-versus-{}-{kind}", std::process::id()), dram + BESIDE_BYTES)?;
        // A shell enters the group and becomes the server.
        let mut words = vec![
            "-c".to_string(),
            "echo $$ > \"$0\" && exec \"$@\"".into(),
            group.dir.join("cgroup.procs").display().to_string(),
        ];
        words.append(&mut line);
        let child = Command::new("sh")
            .args(&words)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("stderr"))?)
            .spawn()
            .with_context(|| format!("starting {kind}"))?;
        let mut server = Self { kind, child, port, group, dir, redis_protocol, written_before: None };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait()?;
            if ended.is_some() || started.elapsed() > PATIENCE {
                let said = std::fs::read_to_string(server.dir.join("stderr")).unwrap_or_default();
                bail!("{kind} does not listen ({ended:?}): {said}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        server.written_before = Disk::under(&server.dir).map(|disk| disk.written_bytes);
        Ok(server)
    }

    /// What the client connects to.
    pub fn url(&self) -> String {
        let protocol = if self.redis_protocol { "redis" } else { "memcached" };
        format!("{protocol}://127.0.0.1:{}", self.port)
    }

    /// What it used up to now.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        let id = self.child.id();
        let field = |file: &str, name: &str| -> anyhow::Result<u64> {
            let text = std::fs::read_to_string(format!("/proc/{id}/{file}"))?;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .context("the kernel tells less here")?;
            Ok(line.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0))
        };
        Ok(Usage {
            read_bytes: field("io", "read_bytes:")?,
            written_bytes: Disk::under(&self.dir)
                .map(|disk| disk.written_bytes)
                .zip(self.written_before)
                .map(|(now, before)| now.saturating_sub(before)),
            anonymous_bytes: field("status", "RssAnon:")? * 1024,
        })
    }

    /// Ends it and takes its files away.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status()?;
        anyhow::ensure!(asked.success(), "{} ended by itself", self.kind);
        let started = Instant::now();
        while self.child.try_wait()?.is_none() {
            if started.elapsed() > PATIENCE {
                self.child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        std::fs::remove_dir_all(&self.dir)?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.group.remove();
    }
}

/// A memory cgroup, of either version.
struct Group {
    dir: PathBuf,
}

impl Group {
    fn new(name: &str, bytes: u64) -> anyhow::Result<Self> {
        let first = Path::new("/sys/fs/cgroup/memory");
        let (parent, limit) = if first.is_dir() {
            (first, "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max")
        };
        let dir = parent.join(name);
        std::fs::create_dir(&dir)
            .with_context(|| format!("making cgroup {}: it needs root", dir.display()))?;
        let group = Self { dir };
        std::fs::write(group.dir.join(limit), bytes.to_string())
            .with_context(|| format!("limiting {}", group.dir.display()))?;
        Ok(group)
    }
    fn remove(&self) {
        // Its last process may still be on its way out.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
