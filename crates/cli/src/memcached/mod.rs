//! `terrace memcached`, or terrace under the name memcached: memcached's command line, and a cache behind it.
//!
//! ```text
//!   arguments --getopt--> flags --options, extended, listen--> CommandLine --+--> store   terrace's options
//!                                                                            '--> server  the server's
//!   crate::process: background, user, pid file, limits        usage: -h, -V, -i
//! ```

mod extended;
mod getopt;
mod listen;
mod options;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod usage;

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use signal_hook::consts::SIGUSR1;
use terrace_index::allocator::give_back;
use terrace_server::{Endpoint, Loading, Server};

use crate::memory::Keeper;
use crate::serve::signals::Signals;
use crate::{descriptors, logging, process, say, serve};
use options::{CommandLine, Wanted};

/// Options of `terrace memcached`: memcached's own.
#[derive(Debug, Args)]
pub struct MemcachedArgs {
    /// memcached's flags: see -h
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    pub arguments: Vec<String>,
}

/// What sysexits.h has for a wrong command line, and memcached, too.
const WRONG_USAGE: u8 = 64;
/// Names a file to write the ports to, once they are bound.
const PORT_FILE: &str = "MEMCACHED_PORT_FILENAME";

/// The arguments, if this program was called by the name memcached, or memcached-debug as its tests call it.
pub fn arguments(mut all: impl Iterator<Item = OsString>) -> Option<Vec<String>> {
    let name = all.next()?;
    let file_name = Path::new(&name).file_name()?;
    let is_memcached = file_name == "memcached" || file_name == "memcached-debug";
    is_memcached.then(|| all.map(|argument| argument.to_string_lossy().into_owned()).collect())
}

/// Runs it until a signal ends it.
pub fn run(arguments: &[String]) -> anyhow::Result<ExitCode> {
    match options::read(arguments) {
        Ok(Wanted::Serve(line)) => serve(&line),
        Ok(Wanted::Help) => Ok(say::line(&usage::help()).map(|()| ExitCode::SUCCESS)?),
        Ok(Wanted::Version) => Ok(say::line(&usage::version()).map(|()| ExitCode::SUCCESS)?),
        Ok(Wanted::License) => Ok(say::line(&usage::license()).map(|()| ExitCode::SUCCESS)?),
        Err(why) => {
            say::error(&format!("memcached: {why}\nmemcached -h lists the flags"));
            Ok(ExitCode::from(WRONG_USAGE))
        }
    }
}

fn serve(line: &CommandLine) -> anyhow::Result<ExitCode> {
    if line.daemon && !process::is_background() {
        return process::to_background("-d", line.verbose > 0);
    }
    // As quiet as memcached, unless the environment or -v says otherwise.
    let level = match line.verbose {
        0 if std::env::var_os("RUST_LOG").is_some() => None,
        0 => Some("warn"),
        1 => Some("info"),
        2 => Some("debug"),
        _ => Some("trace"),
    };
    logging::start(level)?;
    if process::is_background() {
        process::leave_session()?;
    }
    if !line.notes.is_empty() {
        tracing::warn!("without a meaning here: {}", line.notes.join("; "));
    }
    if line.core {
        process::allow_core();
    }
    let room = descriptors::make_room(line.connections.into());
    // Who becomes another user may not write where root may: then the file is there before the server is.
    let early_pid_file = line.pid_file.as_deref().filter(|_| line.user.is_some() && process::is_root());
    let _early_pid_file = early_pid_file.and_then(process::PidFile::write_or_warn);
    if let Some(user) = &line.user {
        process::become_user(user)?;
    }
    // Whoever stops it while memory is locked and media are opened gets an orderly stop.
    let signals = Signals::install(&[SIGUSR1])?;
    if line.lock_memory {
        process::lock_memory();
    }
    let access = serve::MemcachedAccess::read(line.auth_file.as_ref())?;
    let (mut options, endpoints) = (server::options(line, &access), server::endpoints(line)?);
    options.max_connections = room as usize;
    options.memcached = endpoints;
    // Before anything is touched that lies on a disk: a port that is taken costs no cache. Who comes meanwhile is told that it loads.
    let loading = Loading::start(&options, serve::progress()).context("failed to listen")?;
    store::prepare(line)?;
    let memory = Keeper::start(give_back).context("starting the thread that gives memory back")?;
    let store = serve::open_with_progress(store::options(line)?)?;
    let options = server::on(options, &store);
    let server = match Server::start_after(loading, store.clone(), options) {
        Ok(server) => server,
        Err(error) => {
            store.close()?;
            return Err(anyhow::Error::new(error).context("failed to listen"));
        }
    };
    memory.tell(server.memory_watch());
    let late_pid_file = line.pid_file.as_deref().filter(|_| early_pid_file.is_none());
    let _late_pid_file = late_pid_file.and_then(process::PidFile::write_or_warn);
    write_ports(&server)?;
    if process::is_background() {
        process::tell_ready();
    }
    tracing::info!("serving on {:?}", server.addresses().all_memcached);
    serve::until_told(server, store, signals, |server| {
        if line.tls {
            server.reload_tls()?;
        }
        access.read_again()
    })?;
    store::ended(line)?;
    Ok(ExitCode::SUCCESS)
}

/// Tells whoever started this which ports it took.
fn write_ports(server: &Server) -> anyhow::Result<()> {
    let Some(path) = std::env::var_os(PORT_FILE) else { return Ok(()) };
    let mut text = String::new();
    for address in server.addresses().all_memcached.iter().filter_map(Endpoint::address) {
        let family = if address.is_ipv6() { "INET6" } else { "INET" };
        let _ = writeln!(text, "TCP {family}: {}", address.port());
    }
    process::write_whole(Path::new(&path), &text).with_context(|| format!("{PORT_FILE}: {}", path.display()))
}
