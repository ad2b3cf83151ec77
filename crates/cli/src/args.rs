//! The command line.

use clap::{Parser, Subcommand};

/// A key-value store whose data steps down from DRAM to persistent or CXL memory to an SSD as it cools.
///
/// It speaks the Redis and the memcached protocol over one keyspace.
#[derive(Debug, Parser)]
#[command(name = "terrace", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// What to log on standard error: error, warn, info, debug, trace, or a filter such as terrace_server=debug [default: $RUST_LOG, else info]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  terrace serve                              open ./terrace-data, listen on the usual ports of the loopback
  terrace bench --workload rh --records 1000000 --dram-records 25%
  terrace compare --workload wh              engines beside each other, on this machine's DRAM and disk
  terrace reproduce tac --scale 0.01         what a paper found, and what we find
  terrace reproduce                          the same of all papers, and a report of it
  terrace check ./terrace-data               verify every checksum, offline
  terrace memcached -m 1024 -c 4096          a cache with memcached's command line; a link named memcached does the same
  terrace redis-server /etc/redis/redis.conf --port 7777     as Redis; a link named redis-server does the same
  terrace help serve                         all options of serve, with examples";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a store to Redis and memcached clients.
    Serve(Box<crate::serve::ServeArgs>),
    /// Run a YCSB workload against a store in this process, or against a server.
    Bench(Box<crate::bench::BenchArgs>),
    /// Run one workload on every engine that takes the media, and print one table.
    Compare(Box<crate::compare::CompareArgs>),
    /// Print papers' figures and ours side by side, of one paper or of all.
    Reproduce(Box<crate::reproduce::ReproduceArgs>),
    /// Verify every checksum and invariant of a store that nobody has open.
    Check(crate::check::CheckArgs),
    /// Serve a cache, with memcached's command line: see terrace memcached -h.
    #[command(disable_help_flag = true)]
    Memcached(crate::memcached::MemcachedArgs),
    /// Serve with redis-server's command line and redis.conf: see terrace redis-server -h.
    #[command(name = "redis-server", disable_help_flag = true, disable_version_flag = true)]
    RedisServer(crate::redis::RedisArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_shows_examples() {
        for name in ["serve", "bench", "compare", "reproduce", "check"] {
            let mut command = Cli::command();
            let help = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            assert!(help.contains("Examples:") && help.contains(&format!("terrace {name}")), "{name}");
        }
    }
}
