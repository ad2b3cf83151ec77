//! redis.conf's names that mean nothing here. Where nobody misses anything they are taken and told, and change nothing; where one
//! would promise something that this server lacks, it can only be what it is by default.

use terrace_protocol::resp::parse_integer;

use self::Takes::{Fixed, Lacks, Number, Percentiles, Text, Word, Words, YesNo};
use super::value::{memory_bytes, one_of};
use crate::shared::Shared;

/// Such a name.
pub(super) struct Foreign {
    pub name: &'static str,
    /// As of Redis 7.0.
    pub default: &'static str,
    takes: Takes,
}

/// What it takes.
#[derive(Clone, Copy)]
enum Takes {
    /// Anything, when the server starts.
    Fixed,
    YesNo,
    /// A number, or bytes.
    Number,
    Word(&'static [&'static str]),
    /// Some of these, told in this order.
    Words(&'static [&'static str]),
    /// Numbers from 0 to 100.
    Percentiles,
    Text,
    /// Its default alone, for this reason.
    Lacks(&'static str),
}

const fn foreign(name: &'static str, default: &'static str, takes: Takes) -> Foreign {
    Foreign { name, default, takes }
}

const FOLLOWS: &str = "there is no replication: the server can't follow another";
const NO_REPLICAS: &str = "there are no replicas, and so every write would be refused";
const SUITES: &str = "TLS 1.2 and 1.3 are spoken, with suites that can't be chosen";

const SHUTDOWN: [&str; 5] = ["default", "save", "nosave", "now", "force"];
/// Which percentiles INFO tells of the times that commands took.
pub(super) const PERCENTILES: &str = "latency-tracking-info-percentiles";

/// All of them, sorted by name.
#[rustfmt::skip]
pub(super) static FOREIGN: &[Foreign] = &[
    foreign("acl-pubsub-default", "resetchannels", Lacks("a new user may listen to no channel: give each user its channels, as with &*")),
    foreign("active-defrag-cycle-max", "25", Number),
    foreign("active-defrag-cycle-min", "1", Number),
    foreign("active-defrag-ignore-bytes", "104857600", Number),
    foreign("active-defrag-max-scan-fields", "1000", Number),
    foreign("active-defrag-threshold-lower", "10", Number),
    foreign("active-defrag-threshold-upper", "100", Number),
    foreign("active-expire-effort", "1", Number),
    foreign("activedefrag", "no", YesNo),
    foreign("activerehashing", "yes", YesNo),
    foreign("always-show-logo", "no", Fixed),
    foreign("aof-disable-auto-gc", "no", YesNo),
    foreign("aof-load-truncated", "yes", YesNo),
    foreign("aof-rewrite-incremental-fsync", "yes", YesNo),
    foreign("aof-timestamp-enabled", "no", YesNo),
    foreign("aof-use-rdb-preamble", "yes", YesNo),
    foreign("aof_rewrite_cpulist", "", Fixed),
    foreign("appenddirname", "appendonlydir", Fixed),
    foreign("appendfilename", "appendonly.aof", Fixed),
    foreign("auto-aof-rewrite-min-size", "67108864", Number),
    foreign("auto-aof-rewrite-percentage", "100", Number),
    foreign("bgsave_cpulist", "", Fixed),
    foreign("bind-source-addr", "", Text),
    foreign("bio_cpulist", "", Fixed),
    foreign("busy-reply-threshold", "5000", Number),
    foreign("cluster-allow-pubsubshard-when-down", "yes", YesNo),
    foreign("cluster-allow-reads-when-down", "no", YesNo),
    foreign("cluster-allow-replica-migration", "yes", YesNo),
    foreign("cluster-announce-bus-port", "0", Number),
    foreign("cluster-announce-hostname", "", Text),
    foreign("cluster-announce-ip", "", Text),
    foreign("cluster-announce-port", "0", Number),
    foreign("cluster-announce-tls-port", "0", Number),
    foreign("cluster-config-file", "nodes.conf", Fixed),
    foreign("cluster-enabled", "no", Lacks("there is no cluster")),
    foreign("cluster-link-sendbuf-limit", "0", Number),
    foreign("cluster-migration-barrier", "1", Number),
    foreign("cluster-node-timeout", "15000", Number),
    foreign("cluster-port", "0", Fixed),
    foreign("cluster-preferred-endpoint-type", "ip", Word(&["ip", "hostname", "unknown-endpoint"])),
    foreign("cluster-replica-no-failover", "no", YesNo),
    foreign("cluster-replica-validity-factor", "10", Number),
    foreign("cluster-require-full-coverage", "yes", YesNo),
    foreign("cluster-slave-no-failover", "no", YesNo),
    foreign("cluster-slave-validity-factor", "10", Number),
    foreign("crash-log-enabled", "yes", YesNo),
    foreign("crash-memcheck-enabled", "yes", YesNo),
    foreign("daemonize", "no", Fixed),
    foreign("disable-thp", "yes", Fixed),
    foreign("dynamic-hz", "yes", YesNo),
    foreign("enable-protected-configs", "no", Lacks("protected parameters are given when the server starts, and never set while it runs")),
    foreign("hash-max-listpack-entries", "512", Number),
    foreign("hash-max-listpack-value", "64", Number),
    foreign("hash-max-ziplist-entries", "512", Number),
    foreign("hash-max-ziplist-value", "64", Number),
    foreign("hll-sparse-max-bytes", "3000", Number),
    foreign("ignore-warnings", "", Text),
    foreign("io-threads-do-reads", "no", Fixed),
    foreign("jemalloc-bg-thread", "yes", YesNo),
    foreign(PERCENTILES, "50 99 99.9", Percentiles),
    foreign("lfu-decay-time", "1", Number),
    foreign("lfu-log-factor", "10", Number),
    foreign("list-compress-depth", "0", Number),
    foreign("list-max-listpack-size", "-2", Number),
    foreign("list-max-ziplist-size", "-2", Number),
    foreign("logfile", "", Fixed),
    foreign("loglevel", "notice", Word(&["debug", "verbose", "notice", "warning"])),
    foreign("lua-time-limit", "5000", Number),
    foreign("masterauth", "", Text),
    foreign("masteruser", "", Text),
    foreign("maxmemory-eviction-tenacity", "10", Number),
    foreign("maxmemory-samples", "5", Number),
    foreign("min-replicas-max-lag", "10", Number),
    foreign("min-replicas-to-write", "0", Lacks(NO_REPLICAS)),
    foreign("min-slaves-max-lag", "10", Number),
    foreign("min-slaves-to-write", "0", Lacks(NO_REPLICAS)),
    foreign("no-appendfsync-on-rewrite", "no", YesNo),
    foreign("oom-score-adj", "no", Word(&["no", "yes", "relative", "absolute"])),
    foreign("oom-score-adj-values", "0 200 800", Text),
    foreign("pidfile", "", Fixed),
    foreign("proc-title-template", "{title} {listen-addr} {server-mode}", Text),
    foreign("propagation-error-behavior", "ignore", Word(&["ignore", "panic", "panic-on-replicas"])),
    foreign("rdb-del-sync-files", "no", YesNo),
    foreign("rdb-save-incremental-fsync", "yes", YesNo),
    foreign("rdbchecksum", "yes", Fixed),
    foreign("rdbcompression", "yes", YesNo),
    foreign("repl-backlog-size", "1048576", Number),
    foreign("repl-backlog-ttl", "3600", Number),
    foreign("repl-disable-tcp-nodelay", "no", YesNo),
    foreign("repl-diskless-load", "disabled", Word(&["disabled", "on-empty-db", "swapdb"])),
    foreign("repl-diskless-sync", "yes", YesNo),
    foreign("repl-diskless-sync-delay", "5", Number),
    foreign("repl-diskless-sync-max-replicas", "0", Number),
    foreign("repl-ping-replica-period", "10", Number),
    foreign("repl-ping-slave-period", "10", Number),
    foreign("repl-timeout", "60", Number),
    foreign("replica-announce-ip", "", Text),
    foreign("replica-announce-port", "0", Number),
    foreign("replica-announced", "yes", YesNo),
    foreign("replica-ignore-disk-write-errors", "no", YesNo),
    foreign("replica-ignore-maxmemory", "yes", YesNo),
    foreign("replica-lazy-flush", "no", YesNo),
    foreign("replica-priority", "100", Number),
    foreign("replica-read-only", "yes", YesNo),
    foreign("replica-serve-stale-data", "yes", YesNo),
    foreign("replicaof", "", Lacks(FOLLOWS)),
    foreign("sanitize-dump-payload", "no", Word(&["no", "yes", "clients"])),
    foreign("server_cpulist", "", Fixed),
    foreign("set-max-intset-entries", "512", Number),
    foreign("set-proc-title", "yes", Fixed),
    foreign("shutdown-on-sigint", "default", Words(&SHUTDOWN)),
    foreign("shutdown-on-sigterm", "default", Words(&SHUTDOWN)),
    foreign("shutdown-timeout", "10", Number),
    foreign("slave-announce-ip", "", Text),
    foreign("slave-announce-port", "0", Number),
    foreign("slave-ignore-maxmemory", "yes", YesNo),
    foreign("slave-lazy-flush", "no", YesNo),
    foreign("slave-priority", "100", Number),
    foreign("slave-read-only", "yes", YesNo),
    foreign("slave-serve-stale-data", "yes", YesNo),
    foreign("slaveof", "", Lacks(FOLLOWS)),
    foreign("socket-mark-id", "0", Fixed),
    foreign("stop-writes-on-bgsave-error", "yes", YesNo),
    foreign("stream-node-max-bytes", "4096", Number),
    foreign("stream-node-max-entries", "100", Number),
    foreign("supervised", "no", Fixed),
    foreign("syslog-enabled", "no", Fixed),
    foreign("syslog-facility", "local0", Fixed),
    foreign("syslog-ident", "redis", Fixed),
    foreign("tls-ca-cert-dir", "", Lacks("certificates of a directory are not looked up: give them in one file with tls-ca-cert-file")),
    foreign("tls-ciphers", "", Lacks(SUITES)),
    foreign("tls-ciphersuites", "", Lacks(SUITES)),
    foreign("tls-client-cert-file", "", Text),
    foreign("tls-client-key-file", "", Text),
    foreign("tls-client-key-file-pass", "", Text),
    foreign("tls-cluster", "no", YesNo),
    foreign("tls-dh-params-file", "", Text),
    foreign("tls-key-file-pass", "", Lacks("keys with a password are not read: give one without, in a file that the server alone may read")),
    foreign("tls-prefer-server-ciphers", "no", YesNo),
    foreign("tls-protocols", "", Lacks(SUITES)),
    foreign("tls-replication", "no", YesNo),
    foreign("tls-session-cache-size", "20480", Number),
    foreign("tls-session-cache-timeout", "300", Number),
    foreign("tls-session-caching", "yes", YesNo),
    foreign("zset-max-listpack-entries", "128", Number),
    foreign("zset-max-listpack-value", "64", Number),
    foreign("zset-max-ziplist-entries", "128", Number),
    foreign("zset-max-ziplist-value", "64", Number),
];

impl Foreign {
    /// The one of this name, in any case.
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        FOREIGN.iter().find(|foreign| name.eq_ignore_ascii_case(foreign.name.as_bytes()))
    }

    /// The text as it is told if it may be given when the server starts.
    pub fn read(&self, text: &str) -> Result<String, String> {
        match self.takes {
            Lacks(_) if text.eq_ignore_ascii_case(self.default) => Ok(self.default.into()),
            Lacks(why) => Err(why.into()),
            YesNo => one_of(&["yes", "no"], text.as_bytes())
                .map(str::to_owned)
                .map_err(|_| "argument must be 'yes' or 'no'".into()),
            Word(words) => one_of(words, text.as_bytes()).map(str::to_owned),
            Words(words) => {
                let given: Result<Vec<_>, _> =
                    text.split_ascii_whitespace().map(|word| one_of(words, word.as_bytes())).collect();
                let given = given?;
                if given.is_empty() {
                    return one_of(words, b"").map(str::to_owned);
                }
                Ok(words.iter().filter(|word| given.contains(word)).copied().collect::<Vec<_>>().join(" "))
            }
            Percentiles => {
                let numbers: Result<Vec<f64>, _> = text.split_ascii_whitespace().map(str::parse).collect();
                let numbers = numbers.ok().filter(|all| all.iter().all(|one| (0.0..=100.0).contains(one)));
                let numbers = numbers.ok_or("argument(s) must be numbers from 0 to 100")?;
                Ok(numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" "))
            }
            Number => match (parse_integer(text.as_bytes()), memory_bytes(text.as_bytes())) {
                (Some(number), _) => Ok(number.to_string()),
                (None, Some(bytes)) => Ok(bytes.to_string()),
                (None, None) => Err("argument couldn't be parsed into an integer".into()),
            },
            Fixed | Text => Ok(text.into()),
        }
    }

    /// Keeps what it was set to, under its other name as well: Redis knows some by an old name and a new one.
    pub fn keep(&self, shared: &Shared, text: &str) {
        for name in std::iter::once(self.name).chain(self.other_name()) {
            shared.redis.settings.keep_foreign(name, text.to_owned());
        }
    }

    fn other_name(&self) -> Option<&'static str> {
        let renamed = [("slave", "replica"), ("ziplist", "listpack")];
        renamed
            .iter()
            .flat_map(|(old, new)| [self.name.replace(old, new), self.name.replace(new, old)])
            .filter(|name| name != self.name)
            .find_map(|name| Self::find(name.as_bytes()))
            .map(|other| other.name)
    }

    /// The same while the server runs.
    pub fn change(&self, text: &[u8]) -> Result<String, String> {
        match self.takes {
            Fixed => Err("can't set immutable config".into()),
            _ => self.read(&String::from_utf8_lossy(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn names_are_sorted_and_nobody_elses() {
        assert!(FOREIGN.windows(2).all(|pair| pair[0].name < pair[1].name));
        for foreign in FOREIGN {
            assert!(parameters::find(foreign.name.as_bytes()).is_none(), "{}", foreign.name);
            assert_eq!(foreign.read(foreign.default).as_deref(), Ok(foreign.default), "{}", foreign.name);
        }
    }

    #[test]
    fn old_names_and_new_ones_are_one() {
        let other = |name: &str| Foreign::find(name.as_bytes()).unwrap().other_name();
        assert_eq!(other("hash-max-ziplist-entries"), Some("hash-max-listpack-entries"));
        assert_eq!(other("hash-max-listpack-entries"), Some("hash-max-ziplist-entries"));
        assert_eq!(other("slave-priority"), Some("replica-priority"));
        assert_eq!(other("loglevel"), None);
        for foreign in FOREIGN {
            let same = foreign.other_name().and_then(|name| Foreign::find(name.as_bytes()));
            assert!(same.is_none_or(|same| same.default == foreign.default), "{}", foreign.name);
        }
    }

    #[test]
    fn what_would_promise_something_is_refused() {
        let read = |name: &str, text: &str| Foreign::find(name.as_bytes()).unwrap().read(text);
        assert!(read("replicaof", "10.0.0.1 6379").unwrap_err().contains("no replication"));
        assert!(read("cluster-enabled", "yes").unwrap_err().contains("no cluster"));
        assert!(read("tls-protocols", "TLSv1").unwrap_err().contains("can't be chosen"));
        assert_eq!(read("repl-backlog-size", "1mb").as_deref(), Ok("1048576"));
        assert_eq!(read("list-max-listpack-size", "-2").as_deref(), Ok("-2"));
        assert!(read("activedefrag", "maybe").unwrap_err().contains("'yes' or 'no'"));
        assert_eq!(read("shutdown-on-sigint", "force nosave NOW").as_deref(), Ok("nosave now force"));
        assert!(read("shutdown-on-sigterm", "").unwrap_err().contains("default, save"));
        assert_eq!(read(PERCENTILES, "0.0 50.0 99.99 100").as_deref(), Ok("0 50 99.99 100"));
        assert!(["10 x", "10 101", "-1", "NaN"].iter().all(|text| read(PERCENTILES, text).is_err()));
        assert!(Foreign::find(b"LFU-log-FACTOR").unwrap().change(b"x").is_err());
        assert!(Foreign::find(b"daemonize").unwrap().change(b"yes").unwrap_err().contains("immutable"));
    }
}
