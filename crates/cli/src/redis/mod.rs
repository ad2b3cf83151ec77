//! A redis.conf and redis-server's command line, in the sense in which they mean something here.
//!
//! ```text
//!   terrace serve FILE --flag …                               terrace redis-server FILE --name value …, or a link of that name
//!             '--conf--> directives, with their lines <--command line--'
//!                             | meaning
//!                             v
//!   values of options of `terrace serve` + users, parameters + process (background, log, pid file) + what each line became
//! ```

mod command;
mod conf;
mod meaning;
mod notify;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use crate::serve::{self, ServeArgs};
use crate::{logging, process};
use command::Wanted;
use conf::Directive;
pub use meaning::{Background, Meaning};
pub use notify::Supervisor;

/// Options of `terrace redis-server`: redis-server's own.
#[derive(Debug, Args)]
pub struct RedisArgs {
    /// A redis.conf, and directives as --NAME VALUE
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}

/// The arguments, if this program was called by the name redis-server.
pub fn arguments(mut all: impl Iterator<Item = std::ffi::OsString>) -> Option<Vec<String>> {
    let name = all.next()?;
    let is_redis = std::path::Path::new(&name).file_name()? == "redis-server";
    is_redis.then(|| all.map(|argument| argument.to_string_lossy().into_owned()).collect())
}

/// Runs redis-server's command line.
pub fn run(arguments: &[String]) -> anyhow::Result<ExitCode> {
    match command::read(arguments).map_err(anyhow::Error::msg)? {
        Wanted::Help => Ok(crate::say::line(command::HELP).map(|()| ExitCode::SUCCESS)?),
        Wanted::Version => Ok(crate::say::line(&command::version()).map(|()| ExitCode::SUCCESS)?),
        Wanted::Serve { file, more } => {
            let mut directives = file.map(|file| conf::read(&file)).transpose()?.unwrap_or_default();
            directives.extend(more);
            start(ServeArgs::default(), None, &directives)
        }
    }
}

/// Runs `terrace serve` with the options that a redis.conf stands for, where no flag says otherwise.
pub fn serve_with(args: ServeArgs, log_level: Option<&str>, file: &Path) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(args.config.is_none(), "give a redis.conf or --config FILE, not both");
    start(args, log_level, &conf::read(file)?)
}

fn start(args: ServeArgs, log_level: Option<&str>, directives: &[Directive]) -> anyhow::Result<ExitCode> {
    let meaning = Meaning::of(directives).map_err(anyhow::Error::msg)?;
    let Background { daemon, log_file, log_level: level, .. } = &meaning.background;
    if *daemon && !process::is_background() {
        return process::to_background("daemonize", false);
    }
    // As of RUST_LOG, if that is set.
    let level = if std::env::var_os("RUST_LOG").is_some() { None } else { *level };
    logging::start_into(log_level.or(level), log_file.as_deref())?;
    if process::is_background() {
        process::leave_session().context("daemonize")?;
    }
    for line in &meaning.told {
        tracing::info!("{line}");
    }
    serve::run_with(args, Some(meaning))
}
