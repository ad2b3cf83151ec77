//! The server that is cut off: `terrace-proof torture-server`, the real one on media with shadows.
//!
//! It tells its phases on standard output, a line each: `opening`, `open FENCES`, `serving REDIS MEMCACHED`, `stopping`,
//! `closed FENCES` (fences and syncs since `stopping`). It ends when its standard input does: nobody is left to cut it off.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, setrlimit};
use signal_hook::consts::SIGTERM;
use terrace::{Options, Place, Tier};
use terrace_engine::Durability;
use terrace_media_sim::shadow::{Outage, Sabotage};
use terrace_server::{Server, ServerOptions};
use terrace_testkit::sweep::MediaKind;

use super::clock::MachineClock;
use super::media::ShadowMedia;
use crate::subjects;

/// Ends a server whose parent is gone.
const ORPHANED: i32 = 3;
/// Event loops.
const WORKERS: usize = 2;

/// Serves a store on media with shadows. For `torture`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The engine.
    #[arg(long)]
    engine: String,
    /// The kind of media: byte, block or tiered.
    #[arg(long)]
    media: MediaKind,
    /// The mode.
    #[arg(long)]
    durability: Durability,
    /// The store's directory.
    #[arg(long)]
    dir: PathBuf,
    /// Where the shadows are.
    #[arg(long)]
    shadows: PathBuf,
    /// Bytes of DRAM for records.
    #[arg(long)]
    dram_bytes: u64,
    /// Bytes of the lower tier.
    #[arg(long)]
    tier_bytes: u64,
    /// On both kinds of media: the directory of the memory.
    #[arg(long, required_if_eq("media", "tiered"))]
    memory: Option<PathBuf>,
    /// And its bytes.
    #[arg(long, default_value_t = 0)]
    memory_bytes: u64,
    /// Leave out one flush, fence or sync in N.
    #[arg(long)]
    sabotage: Option<Sabotage>,
    /// Which start of the machine this is; 0: the system's.
    #[arg(long, default_value_t = 0)]
    boot: u64,
    /// Somebody sets the wall clock all the time, by this seed; 0: nobody does.
    #[arg(long, default_value_t = 0)]
    wall_seed: u64,
    /// End at this fence or sync of the opening.
    #[arg(long, default_value_t = 0)]
    die_opening: u64,
    /// End at this fence or sync of an orderly stop.
    #[arg(long, default_value_t = 0)]
    die_stopping: u64,
}

/// Serves until SIGTERM.
///
/// # Errors
/// If the store can't be opened, served or closed.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    // An outage is no crash of the program that anybody wants to look at.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM]).context("catching signals")?;
    std::thread::Builder::new().name("orphaned".into()).spawn(|| {
        // Whatever it says, it is the end.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(ORPHANED);
    })?;

    let outage = Arc::new(Outage::at(arguments.die_opening));
    let media = ShadowMedia {
        shadows: arguments.shadows.clone(),
        sabotage: arguments.sabotage.clone(),
        outage: outage.clone(),
    };
    say("opening")?;
    let store = terrace::open_on(options(arguments), &media)?;
    say(&format!("open {}", outage.passed()))?;
    let any_port = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()];
    let server_options = ServerOptions {
        redis: any_port.clone(),
        memcached: any_port,
        threads: WORKERS,
        durability: arguments.durability.to_string(),
        ..ServerOptions::default()
    };
    let server = Server::start(store.clone(), server_options)?;
    let (Some(redis), Some(memcached)) = (server.addresses().redis, server.addresses().memcached) else {
        anyhow::bail!("the server listens nowhere");
    };
    say(&format!("serving {redis} {memcached}"))?;

    signals.forever().next();
    let before = outage.passed();
    if arguments.die_stopping > 0 {
        outage.within(arguments.die_stopping);
    }
    say("stopping")?;
    server.shutdown()?;
    store.close()?;
    say(&format!("closed {}", outage.passed() - before))?;
    Ok(ExitCode::SUCCESS)
}

fn options(arguments: &Arguments) -> Options {
    let tier = Tier { bytes: arguments.tier_bytes, place: Some(Place::Path(arguments.dir.clone())) };
    let memory = || Tier { bytes: arguments.memory_bytes, place: arguments.memory.clone().map(Place::Path) };
    // tmpfs stands in for it: its bytes outlive the process, and the shadow says what outlives the power.
    let stands_in = Some("dram".into());
    let (pmem, ssd, profile) = match arguments.media {
        MediaKind::Byte => (Some(tier), None, stands_in),
        MediaKind::Block => (None, Some(tier), None),
        MediaKind::Tiered => (Some(memory()), Some(tier), stands_in),
    };
    let (engine, heap) = subjects::opened_with(&arguments.engine);
    Options {
        engine: engine.into(),
        heap,
        dir: Some(arguments.dir.clone()),
        dram_records: Some(arguments.dram_bytes),
        pmem,
        ssd,
        profile,
        durability: arguments.durability,
        clock: Arc::new(MachineClock::new(arguments.boot, arguments.wall_seed)),
        ..Options::default()
    }
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("telling the phase")
}
