//! `terrace serve`: open a store, serve it, save it.
//!
//! ```text
//!   flags > TERRACE_* > --config file or redis.conf > defaults  --> settings --> sizing (machine, cgroup, free disk) --> Options
//!   ports (LOADING) --> terrace::open (progress bar or lines of the log) --> Server --> first signal: drain, save, exit 0
//!                                                                again, ten seconds later: exit at once
//! ```

mod access;
mod args;
mod banner;
mod file;
mod listen;
mod network;
mod numa;
mod recovery_bar;
mod run;
mod settings;
mod shown;
pub mod signals;
mod sizing;
mod tiers;
mod watching;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use terrace_index::allocator::give_back;
use terrace_server::{Endpoint, Loading, Server, ServerOptions};

pub use access::MemcachedAccess;
pub use args::ServeArgs;
pub use recovery_bar::{open as open_with_progress, progress};
pub use run::until_told;
#[cfg(test)]
pub(crate) use settings::gather_redis;
pub use settings::{KEYS, Settings, gather_text};
pub use tiers::store_of;

use crate::memory::Keeper;
use crate::redis::{Meaning, Supervisor};
use crate::{descriptors, process, say};

/// Runs it until a signal ends it.
pub fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    run_with(args, None)
}

/// The same with what a redis.conf stands for.
pub fn run_with(args: ServeArgs, given: Option<Meaning>) -> anyhow::Result<ExitCode> {
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for (name, meant) in settings::misspelt(variables) {
        tracing::warn!("{name} is no option and is ignored; did you mean {meant}?");
    }
    let environment = |name: &str| std::env::var(name).ok();
    let (config_file, settings) = match &given {
        None => {
            let file = args.config.clone().or_else(|| environment("TERRACE_CONFIG").map(PathBuf::from));
            (file, settings::gather(args, &environment)?)
        }
        Some(meaning) => (None, settings::gather_redis(args, &environment, meaning)?),
    };
    tracing::debug!("as a configuration file, the options are\n{}", without_password(&settings.to_string()));
    // A taken port is told before a recovery that may take long.
    let redis = settings.network.redis(&settings.redis);
    let ports = redis.iter().chain(&settings.memcached.0).filter_map(Endpoint::address);
    for address in ports.chain(settings.admin.address()) {
        listen::probe(address).map_err(explain_bind)?;
    }
    let access = MemcachedAccess::read(settings.network.memcached_auth_file.as_ref())?;
    let sized = sizing::size(&settings)?;
    say::announce(&banner::found(&settings, &sized));
    // Nobody is told to wait for a store that will not be opened.
    terrace::refuse_at_once(&sized.options)?;
    let signals = signals::Signals::install(&[])?;

    let memory = Keeper::start(give_back).context("starting the thread that gives memory back")?;
    let mut options = ServerOptions { config_file, ..server_options(&settings, &sized) };
    options.memcached_users = access.users();
    let Meaning { users, parameters, dbfilename, background, .. } = given.unwrap_or_default();
    options.users = users;
    options.parameters.extend(parameters);
    options.dbfilename = dbfilename.unwrap_or(options.dbfilename);
    options.max_connections = descriptors::make_room(options.max_connections as u64) as usize;
    // Who comes during a recovery is told of it.
    let loading = Loading::start(&options, recovery_bar::progress()).map_err(explain_bind)?;
    let store = recovery_bar::open(sized.options.clone())?;
    let places = tiers::Tiers { pmem: settings.pmem.clone(), ssd: settings.ssd.clone() };
    if let Err(error) = tiers::remember(&settings.dir, &places) {
        tracing::warn!("{error:#}; the next start needs the places of tiers again");
    }
    options.description = store.description.clone();
    let server = match Server::start_after(loading, store.clone(), options) {
        Ok(server) => server,
        Err(error) => {
            store.close()?;
            return Err(explain_bind(error));
        }
    };
    server.on_shutdown_request(signals::ask);
    // `--dram-records` bounds records alone.
    if sized.options.dram_records.is_none() {
        memory.tell(server.memory_watch());
    }
    say::announce(&banner::ready(&settings, &sized, &store, server.addresses()));
    let _pid_file = background.pid_file.as_deref().and_then(process::PidFile::write_or_warn);
    if process::is_background() {
        process::tell_ready();
    }
    if let Some(supervisor) = Supervisor::find().filter(|_| background.supervised) {
        supervisor.tell("READY=1");
    }
    let has_certificate = settings.network.has_certificate();
    until_told(server, store, signals, |server| {
        if has_certificate {
            server.reload_tls()?;
        }
        access.read_again()
    })?;
    let kept = !sized.options.ends_with_process();
    tracing::info!("stopped; {}", if kept { "everything is saved" } else { "nothing was kept" });
    Ok(ExitCode::SUCCESS)
}

/// The lines of a configuration file, save for the one that is nobody's business.
fn without_password(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("requirepass")).collect::<Vec<_>>().join("\n")
}

fn server_options(settings: &Settings, sized: &sizing::Sized) -> ServerOptions {
    let dram = sized.options.dram.or(sized.options.dram_records).unwrap_or(0);
    ServerOptions {
        redis: settings.network.redis(&settings.redis),
        memcached: settings.memcached.0.clone(),
        admin: settings.admin.address(),
        threads: settings.threads,
        dram_budget_bytes: dram,
        give_back: Some(give_back),
        evicts: sized.options.when_full == terrace::WhenFull::Evict,
        // A store that lies nowhere may be saved, too.
        dir: settings.dir.display().to_string(),
        durability: sized.options.durability.to_string(),
        ..settings.network.options(dram)
    }
}

/// A taken port is the commonest reason for not starting, so it says what to do.
fn explain_bind(error: std::io::Error) -> anyhow::Error {
    use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
    let advice = match error.kind() {
        AddrInUse => Some("something else listens there"),
        AddrNotAvailable => Some("this machine has no such address"),
        PermissionDenied => Some("ports below 1024 need privileges"),
        _ => None,
    };
    match advice {
        Some(why) => anyhow::anyhow!(
            "{error}: {why}; choose others with --redis ADDR:PORT, --memcached ADDR:PORT and --admin ADDR:PORT, or switch one \
             off with --redis off"
        ),
        None => anyhow::Error::new(error).context("the server could not start"),
    }
}
