//! The `terrace` command: all of it but the allocator, so that tests can reach what reads options.
//!
//! ```text
//!   main --> args --+--> serve  settings (flag > environment > file > default) --> terrace::open --> Server --> signals
//!                   +--> bench  terrace_bench::run --> table, JSON
//!                   +--> compare  terrace_bench::compare::run --> the same of several engines
//!                   +--> redis  a redis.conf, redis-server's command line, also of a link with that name --> serve
//!                   +--> memcached  its command line, also of a link with that name --> a cache, served likewise
//!                   +--> reproduce  terrace_bench::reproduce::run --> papers' figures and ours, JSON, HTML, plots
//!                   '--> check  a store's files, offline
//! ```

#![forbid(unsafe_code)]

mod args;
mod bench;
mod check;
mod compare;
mod descriptors;
mod interrupt;
mod logging;
mod memcached;
mod memory;
mod names;
mod process;
mod progress_lines;
mod redis;
mod reproduce;
mod say;
mod serve;

use std::process::ExitCode;

use clap::Parser;

pub use args::{Cli, Command};
pub use serve::{KEYS, ServeArgs, Settings, gather_text};

/// Runs the command that the process was given.
pub fn run() -> ExitCode {
    terrace_index::allocator::keep_little();
    if let Some(arguments) = memcached::arguments(std::env::args_os()) {
        return end(memcached::run(&arguments));
    }
    if let Some(arguments) = redis::arguments(std::env::args_os()) {
        return end(redis::run(&arguments));
    }
    let Cli { command, log_level } = Cli::parse();
    let level = log_level.as_deref();
    let log = || logging::start(level);
    end(match command {
        Command::Serve(mut options) => match options.redis_conf.take() {
            Some(file) => redis::serve_with(*options, level, &file),
            None => log().and_then(|()| serve::run(*options)),
        },
        Command::Bench(options) => log().and_then(|()| bench::run(*options)),
        Command::Compare(options) => log().and_then(|()| compare::run(*options)),
        Command::Reproduce(options) => log().and_then(|()| reproduce::run(*options)),
        Command::Check(options) => log().and_then(|()| check::run(&options)),
        Command::Memcached(options) => memcached::run(&options.arguments),
        Command::RedisServer(options) => redis::run(&options.arguments),
    })
}

fn end(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        // Whoever read our output has gone: nothing is left to tell, and nobody to tell it to.
        Err(error) if say::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&format!("terrace: {}", told(&error)));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes; one that is in the text of another already is not said again.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn a_cause_is_said_once() {
        let error = anyhow::anyhow!("no room").context("making x: no room");
        assert_eq!(told(&error), "making x: no room");
        let error = anyhow::Error::new(std::io::Error::other("no room")).context("making x");
        assert_eq!(told(&error), "making x: no room");
    }
}
