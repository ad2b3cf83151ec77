//! memcached's command line, understood: what was asked for, what means nothing here, and what can't be had.

use std::path::PathBuf;

use terrace_server::MemcachedProtocols;

use super::extended::{self, Extended};
use super::getopt;
use super::listen;

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandLine {
    /// The TCP port; 0: none, -1: a free one.
    pub port: i32,
    /// The addresses of `-l`, each with its own port if it has one.
    pub listen: Vec<listen::Wanted>,
    /// The Unix socket, instead of TCP.
    pub socket: Option<PathBuf>,
    /// Its mode.
    pub socket_mode: u32,
    /// Megabytes for items.
    pub megabytes: u64,
    /// Refuse instead of evicting.
    pub refuse: bool,
    /// Connections.
    pub connections: u32,
    /// Worker threads.
    pub threads: usize,
    /// Longest item.
    pub item_bytes: usize,
    /// Operations of one connection in one turn, if that was said.
    pub requests: Option<usize>,
    /// Connections that may wait.
    pub backlog: u32,
    /// How many times `-v`.
    pub verbose: u8,
    /// Go to the background.
    pub daemon: bool,
    /// Where to write the process's number.
    pub pid_file: Option<PathBuf>,
    /// Whom to become.
    pub user: Option<String>,
    /// No `flush_all`.
    pub no_flush: bool,
    /// `shutdown` works.
    pub shutdown: bool,
    /// No listing of keys.
    pub no_dump: bool,
    /// No `watch`.
    pub no_watch: bool,
    /// What ends a key's prefix.
    pub delimiter: Option<u8>,
    /// Users and passwords.
    pub auth_file: Option<PathBuf>,
    /// The protocols that are spoken.
    pub protocols: MemcachedProtocols,
    /// Clients of the binary protocol log in.
    pub sasl: bool,
    /// A file in persistent memory that holds the items.
    pub memory_file: Option<PathBuf>,
    /// TLS on the TCP ports.
    pub tls: bool,
    /// Keep memory from being swapped out.
    pub lock_memory: bool,
    /// Allow core files.
    pub core: bool,
    /// `-o`.
    pub extended: Extended,
    /// What was asked for and means nothing here, and why.
    pub notes: Vec<String>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Serve.
    Serve(Box<CommandLine>),
    /// Print the usage.
    Help,
    /// Print the version.
    Version,
    /// Print the licence.
    License,
}

impl Default for CommandLine {
    /// memcached's defaults.
    fn default() -> Self {
        Self {
            port: 11211,
            listen: Vec::new(),
            socket: None,
            socket_mode: 0o700,
            megabytes: 64,
            refuse: false,
            connections: 1024,
            threads: 4,
            item_bytes: 1 << 20,
            requests: None,
            backlog: 1024,
            verbose: 0,
            daemon: false,
            pid_file: None,
            user: None,
            no_flush: false,
            shutdown: false,
            no_dump: false,
            no_watch: false,
            delimiter: None,
            auth_file: None,
            protocols: MemcachedProtocols::Both,
            sasl: false,
            memory_file: None,
            tls: false,
            lock_memory: false,
            core: false,
            extended: Extended::default(),
            notes: Vec::new(),
        }
    }
}

/// Reads a command line.
///
/// # Errors
/// What is wrong with it, or can't be had, in words for its user.
pub fn read(arguments: &[String]) -> Result<Wanted, String> {
    let mut line = CommandLine::default();
    for (flag, value) in getopt::split(arguments)? {
        let value = value.unwrap_or_default();
        match flag {
            'h' => return Ok(Wanted::Help),
            'V' => return Ok(Wanted::Version),
            'i' => return Ok(Wanted::License),
            _ => line.take(flag, value)?,
        }
    }
    line.check()?;
    Ok(Wanted::Serve(Box::new(line)))
}

impl CommandLine {
    fn take(&mut self, flag: char, value: String) -> Result<(), String> {
        match flag {
            'p' => {
                self.port =
                    number(&value, "-p", -1..=65535, "a port, 0 for none or -1 for a free one")? as i32
            }
            'U' if number(&value, "-U", 0..=65535, "a port, or 0")? == 0 => {}
            'U' => self.note(
                "-U",
                "UDP is not spoken, which lets strangers use the server against others: clients use TCP",
            ),
            's' => self.socket = Some(value.into()),
            'a' => {
                self.socket_mode = terrace_server::unix_mode(&value)
                    .ok_or(format!("-a {value:?}: expected permissions in octal, such as 770"))?;
            }
            'l' => self.listen.extend(listen::read(&value)?),
            'm' => self.megabytes = number(&value, "-m", 1..=1 << 40, "megabytes such as 64")? as u64,
            'M' => self.refuse = true,
            'c' => self.connections = number(&value, "-c", 1..=1 << 24, "a number of connections")? as u32,
            't' => {
                // Each has a session with the store.
                let expected = format!("1 to {} threads", terrace::SESSIONS);
                self.threads = number(&value, "-t", 1..=terrace::SESSIONS as i64, &expected)? as usize;
            }
            'I' => self.item_bytes = item_size(&value)?,
            'R' => self.requests = Some(number(&value, "-R", 1..=1 << 31, "a number of requests")? as usize),
            'b' => self.backlog = number(&value, "-b", 1..=1 << 24, "a number of connections")? as u32,
            'v' => self.verbose = self.verbose.saturating_add(1),
            'd' => self.daemon = true,
            'P' => self.pid_file = Some(value.into()),
            'u' => self.user = Some(value),
            'F' => self.no_flush = true,
            'A' => self.shutdown = true,
            'X' => self.no_dump = true,
            'W' => self.no_watch = true,
            // What follows the first does not count.
            'D' => match value.as_bytes().first() {
                Some(delimiter) if !delimiter.is_ascii_control() => self.delimiter = Some(*delimiter),
                _ => return Err(format!("-D {value:?}: expected a character such as :")),
            },
            'Y' => self.auth_file = Some(value.into()),
            'e' => self.memory_file = Some(value.into()),
            'Z' => self.tls = true,
            'k' => self.lock_memory = true,
            'r' => self.core = true,
            'B' => match value.as_str() {
                "auto" => self.protocols = MemcachedProtocols::Both,
                "ascii" => self.protocols = MemcachedProtocols::Text,
                "binary" => self.protocols = MemcachedProtocols::Binary,
                _ => return Err(format!("-B {value:?}: expected auto, ascii or binary")),
            },
            'S' => self.sasl = true,
            'o' => extended::read(&value, &mut self.extended, &mut self.notes)?,
            'C' => self.note("-C", "every record has a version anyhow, so cas goes on working"),
            'L' => self.note("-L", "memory is taken as the engine and the system see fit"),
            'f' => self.note("-f", "records are not kept in slabs of growing classes"),
            'n' => self.note("-n", "a record takes as much as it needs"),
            'N' => self.note("-N", "connections go to the thread that has the fewest"),
            _ => return Err(format!("invalid option -- '{flag}'")),
        }
        Ok(())
    }

    fn note(&mut self, flag: &str, why: &str) {
        self.notes.push(format!("{flag}: {why}"));
    }

    fn check(&self) -> Result<(), String> {
        if self.item_bytes as u64 > (self.megabytes << 20) / 2 {
            return Err(format!(
                "-I: an item may be at most half of the memory for items: give -m {} or more",
                (self.item_bytes as u64).div_ceil(1 << 20) * 2
            ));
        }
        if self.memory_file.is_some() && self.extended.ext_path.is_some() {
            return Err("-e and -o ext_path can't be combined: leave one out".into());
        }
        if self.sasl && self.auth_file.is_none() {
            return Err("-S: SASL needs users: add -Y FILE, lines of user:password, which both protocols then ask for".into());
        }
        if self.tls && self.extended.ssl_chain_cert.is_none() {
            return Err("-Z: TLS needs a certificate: add -o ssl_chain_cert=FILE,ssl_key=FILE".into());
        }
        if self.socket.is_none() && self.port == 0 {
            return Err(
                "-p 0: nobody could reach the server: give a port, or a Unix socket with -s PATH".into()
            );
        }
        Ok(())
    }
}

/// A whole number within bounds; `expected` says what it is.
pub(super) fn number(
    text: &str,
    flag: &str,
    range: std::ops::RangeInclusive<i64>,
    expected: &str,
) -> Result<i64, String> {
    let number = text.trim().parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{flag} {text:?}: expected {expected}"))
}

/// A size with k, m or g behind it, from 1 KiB to 1 GiB.
fn item_size(text: &str) -> Result<usize, String> {
    let expected = || format!("-I {text:?}: expected a size such as 2m, from 1k to 1g");
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| (1 << 10..=1 << 30).contains(bytes)).ok_or_else(expected)
}
