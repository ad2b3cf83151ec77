//! Runs a command for at most so long, and a program of examples to its end.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::install::Program;
use super::library::Protocol;
use super::outcome::Outcome;

/// What a command said, and how it ended.
pub struct Ended {
    /// None if it was stopped: it took too long.
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub errors: String,
}

impl Ended {
    /// Whether it ended well.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The last that it complained of, for a line of a report.
    pub fn reason(&self) -> String {
        let mut said = self.output.lines().chain(self.errors.lines()).filter(|line| !line.trim().is_empty());
        let line = said.next_back().unwrap_or("it said nothing").trim();
        match self.status {
            Some(status) => format!("{status}: {line}"),
            None => format!("it took too long and was stopped: {line}"),
        }
    }
}

/// Runs it to its end, or for so long. What it says goes to files, which can't fill up as pipes do.
///
/// # Errors
/// If it can't be started.
pub fn to_end(command: &mut Command, patience: Duration) -> anyhow::Result<Ended> {
    let said = tempfile::tempdir()?;
    let (output, errors) = (said.path().join("output"), said.path().join("errors"));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(&output)?)
        .stderr(File::create(&errors)?)
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = |path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Ended { status, output: text(output)?, errors: text(errors)? })
}

/// Runs all examples of a program against a server.
///
/// # Errors
/// If the program can't be started.
pub fn examples(
    program: &Program,
    protocol: Protocol,
    address: SocketAddr,
    patience: Duration,
) -> anyhow::Result<Vec<Outcome>> {
    let variable = match protocol {
        Protocol::Redis => "REDIS_ADDRESS",
        Protocol::Memcached => "MEMCACHED_ADDRESS",
    };
    let mut command = program.command();
    let ended = to_end(command.env(variable, address.to_string()), patience)?;
    Ok(outcomes(&ended))
}

/// A program that ends before its time, or tells of no example, has failed, whatever it said before.
fn outcomes(ended: &Ended) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = ended.output.lines().filter_map(Outcome::parse).collect();
    let finished = ended.output.lines().any(|line| line == "end");
    if !finished || !ended.succeeded() || outcomes.is_empty() {
        outcomes.push(Outcome::failed("the program", &ended.reason()));
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Tally;
    use super::*;

    fn sh(script: &str) -> Ended {
        to_end(Command::new("sh").args(["-c", script]), Duration::from_secs(20)).unwrap()
    }

    fn failures(script: &str) -> usize {
        Tally::of(outcomes(&sh(script))).failed
    }

    #[test]
    fn a_program_must_say_that_it_came_to_its_end() {
        assert_eq!(failures("echo ok a; echo end"), 0);
        assert_eq!(failures("echo ok a"), 1);
        assert_eq!(failures("echo end"), 1);
        assert_eq!(failures("echo ok a; echo end; exit 3"), 1);
        assert_eq!(failures("echo ok a; echo 'failed b: c'; echo end"), 1);
    }

    #[test]
    fn what_takes_too_long_is_stopped() {
        let ended = to_end(Command::new("sleep").arg("60"), Duration::from_millis(50)).unwrap();
        assert!(!ended.succeeded());
        assert!(ended.reason().contains("too long"), "{}", ended.reason());
    }

    #[test]
    fn the_reason_is_the_last_line() {
        let ended = sh("echo out; echo first >&2; echo; exit 7");
        assert!(ended.reason().ends_with("7: first"), "{}", ended.reason());
    }
}
