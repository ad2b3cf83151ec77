//! redis-server's command line: what stands behind the file is lines of a redis.conf, each beginning with a name behind two dashes.
//!
//! As of Redis 7.0 a name and its values may be one argument (`"--maxmemory 2gb"`), and what follows a name that stands alone is its
//! value, whatever it looks like.

use std::path::PathBuf;

use super::conf::Directive;

/// What a command line asks for.
#[derive(Debug, PartialEq)]
pub enum Wanted {
    /// `-h`.
    Help,
    /// `-v`.
    Version,
    /// A server.
    Serve {
        /// A redis.conf; `-` is standard input.
        file: Option<PathBuf>,
        /// Directives behind it.
        more: Vec<Directive>,
    },
}

/// What `-h` says.
pub const HELP: &str = "\
Usage: redis-server [/path/to/redis.conf] [--NAME VALUE ...] [-]
       redis-server - (read the configuration from standard input)
       redis-server -v or --version
       redis-server -h or --help

This is terrace under redis-server's name. What each line of a redis.conf becomes here it says when it starts; what would
promise something that it lacks (replication, cluster, modules) it refuses with the reason. Its own options are those of
terrace serve, which takes a redis.conf, too: terrace serve /path/to/redis.conf --ssd 200GiB

Examples:
  redis-server                                 the usual port, where Redis would listen
  redis-server /etc/redis/redis.conf
  redis-server --port 7777 --maxmemory 2gb
  redis-server /etc/redis/redis.conf --loglevel verbose --save \"\"";

/// What `-v` says: scripts look for `v=`.
pub fn version() -> String {
    format!(
        "Redis server v={} sha=00000000:0 malloc=mimalloc-{} bits=64 build=terrace-{}",
        terrace_server::REDIS_VERSION,
        "3",
        env!("CARGO_PKG_VERSION")
    )
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// If it asks for what is not there.
pub fn read(arguments: &[String]) -> Result<Wanted, String> {
    let mut rest = arguments.iter().map(String::as_str).peekable();
    match arguments {
        [one] if one == "-v" || one == "--version" => return Ok(Wanted::Version),
        [one] if one == "-h" || one == "--help" => return Ok(Wanted::Help),
        [first, ..] if first == "--test-memory" || first == "--check-system" => {
            return Err(format!("{first} is not here: it tests the machine, and serves nothing"));
        }
        _ => {}
    }
    let is_file = |argument: &&str| *argument == "-" || !argument.starts_with('-');
    let mut file = rest.next_if(is_file).map(PathBuf::from);
    let mut more: Vec<Directive> = Vec::new();
    // The last name stands alone, and has no value yet.
    let mut is_waiting = false;
    while let Some(argument) = rest.next() {
        match argument.strip_prefix("--").filter(|_| !is_waiting) {
            Some("sentinel") => return Err("--sentinel is not here: there is no replication to watch".into()),
            Some(line) if !line.is_empty() => {
                let mut directive = Directive::of_command_line(line)?;
                is_waiting = directive.values.is_empty();
                // Without a value it saves never.
                if is_waiting
                    && directive.name == "save"
                    && rest.peek().is_none_or(|next| next.starts_with("--"))
                {
                    directive.values.push(String::new());
                    is_waiting = false;
                }
                more.push(directive);
                continue;
            }
            _ if argument == "-" && file.is_none() => file = Some(PathBuf::from("-")),
            _ => match more.last_mut() {
                Some(directive) => directive.values.push(argument.to_owned()),
                // Redis takes the dashes of the first one for granted.
                None if !argument.starts_with('-') => more.push(Directive::of_command_line(argument)?),
                None => {
                    return Err(format!(
                        "{argument:?}: expected --NAME VALUE, with a directive of redis.conf"
                    ));
                }
            },
        }
        is_waiting = false;
    }
    Ok(Wanted::Serve { file, more })
}
