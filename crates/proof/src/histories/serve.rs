//! What a child process runs: the server that `terrace serve` runs, without its command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use terrace::engine::Durability;
use terrace::{Granularity, Options, Tier, TierSpec};
use terrace_server::{Server, ServerOptions};

/// Options of the child; the same as those of `terrace serve`, as far as they go.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArguments {
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    redis: SocketAddr,
    #[arg(long)]
    memcached: SocketAddr,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    #[arg(long, default_value = "hetermm")]
    engine: String,
    #[arg(long)]
    heap: Option<Granularity>,
    #[arg(long)]
    dram: terrace::Size,
    #[arg(long)]
    pmem: Option<TierSpec>,
    #[arg(long)]
    ssd: Option<TierSpec>,
    #[arg(long)]
    profile: Option<String>,
    #[arg(long)]
    durability: Durability,
}

/// Serves until it is killed.
///
/// # Errors
/// If the store can't be opened or the server not started.
pub fn run(arguments: &ServeArguments) -> anyhow::Result<ExitCode> {
    let ServeArguments { dir, redis, memcached, threads, engine, heap, dram, pmem, ssd, profile, durability } =
        arguments;
    let tier = |spec: &Option<TierSpec>| spec.as_ref().map(|spec| Tier::of(spec, 0));
    std::fs::create_dir_all(dir)?;
    let store = terrace::open(Options {
        engine: engine.clone(),
        heap: *heap,
        dir: Some(dir.clone()),
        dram: Some(dram.of(0)),
        pmem: tier(pmem),
        ssd: tier(ssd),
        profile: profile.clone(),
        durability: *durability,
        recovery_threads: *threads,
        ..Options::default()
    })?;
    let options = ServerOptions {
        redis: vec![(*redis).into()],
        memcached: vec![(*memcached).into()],
        threads: *threads,
        description: store.description.clone(),
        ..ServerOptions::default()
    };
    let server = Server::start(store, options)?;
    while server.is_healthy() {
        // Only asks now and then whether a worker ended; a signal ends the process.
        std::thread::park_timeout(std::time::Duration::from_secs(1));
    }
    anyhow::bail!("a worker ended")
}
