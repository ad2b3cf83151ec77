//! Settings about what is watched, which `CONFIG SET` changes while the server runs: with redis.conf's names and values.

use clap::Args;
use terrace_server::check_parameter;

use super::settings::Sources;

/// Flags about what is watched.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Watching")]
pub struct WatchingArgs {
    /// Changes of keys that are published, as letters: KEA for all; those that CONFIG SET takes [default: none]
    #[arg(long, value_name = "LETTERS")]
    pub notify_keyspace_events: Option<String>,
    /// Log commands that take longer, in SLOWLOG; -1: none [default: 10000]
    #[arg(long, value_name = "MICROSECONDS", allow_negative_numbers = true)]
    pub slowlog_log_slower_than: Option<String>,
    /// Entries that SLOWLOG keeps [default: 128]
    #[arg(long, value_name = "N")]
    pub slowlog_max_len: Option<String>,
    /// Keep batches that take so long or longer, for LATENCY; 0: none [default: 0]
    #[arg(long, value_name = "MILLISECONDS")]
    pub latency_monitor_threshold: Option<String>,
    /// Count how long each command takes, for LATENCY HISTOGRAM: yes or no [default: yes]
    #[arg(long, value_name = "YES|NO")]
    pub latency_tracking: Option<String>,
    /// Keys that CLIENT TRACKING remembers, of all clients; 0: any number [default: 1000000]
    #[arg(long, value_name = "N")]
    pub tracking_table_max_keys: Option<String>,
    /// Entries that ACL LOG keeps [default: 128]
    #[arg(long, value_name = "N")]
    pub acllog_max_len: Option<String>,
}

/// Those that were given, with their values.
///
/// # Errors
/// If a value is none that the parameter takes.
pub(super) fn gather(from: &Sources<'_>, args: WatchingArgs) -> anyhow::Result<Vec<(&'static str, String)>> {
    let all = [
        ("notify-keyspace-events", args.notify_keyspace_events),
        ("slowlog-log-slower-than", args.slowlog_log_slower_than),
        ("slowlog-max-len", args.slowlog_max_len),
        ("latency-monitor-threshold", args.latency_monitor_threshold),
        ("latency-tracking", args.latency_tracking),
        ("tracking-table-max-keys", args.tracking_table_max_keys),
        ("acllog-max-len", args.acllog_max_len),
    ];
    let mut given = Vec::new();
    for (key, flag) in all {
        if let Some(value) = from.get::<String>(flag, key)? {
            check_parameter(key, &value).map_err(|why| anyhow::anyhow!("--{key} {value:?}: {why}"))?;
            given.push((key, value));
        }
    }
    Ok(given)
}
