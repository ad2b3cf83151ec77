//! What is printed at the start: what was found, and how to connect.

use std::fmt::Write;

use terrace::engine::{Durability, RecoveryStats, Scanned, SnapshotUse};
use terrace::{OpenStore, Options, Tier, WhenFull, human_bytes};
use terrace_server::{Addresses, Endpoint};

use super::settings::Settings;
use super::sizing::Sized;

/// What was found and chosen, before the store is opened.
pub fn found(settings: &Settings, sized: &Sized) -> String {
    let options = &sized.options;
    let place =
        options.dir.as_ref().map_or_else(|| "in memory".to_owned(), |dir| format!("in {}", dir.display()));
    let mut lines = vec![
        format!("terrace {}", env!("CARGO_PKG_VERSION")),
        format!("store       {} {place}, index {}", options.engine, options.index_shown()),
    ];
    lines.extend(sized.found.iter().map(|line| format!("found       {line}")));
    lines.push(format!("tiers       {}", tiers(options)));
    if let Some(profile) = &options.profile {
        lines.push(format!("profile     {profile}, emulated: its times are not this machine's"));
    }
    lines.push(format!("durability  {}", durability(options)));
    lines.push(format!(
        "when full   {}",
        match options.when_full {
            WhenFull::Refuse => "refuse writes; reads and deletes go on",
            WhenFull::Evict => "evict the oldest records",
        }
    ));
    lines.push(format!(
        "threads     {} workers, {} in the background",
        settings.threads, settings.background_threads
    ));
    lines.join("\n")
}

/// How to connect, once that is possible.
pub fn ready(settings: &Settings, sized: &Sized, store: &OpenStore, at: &Addresses) -> String {
    let mut text = String::new();
    for line in &store.description {
        push(&mut text, "opened", line);
    }
    if let Some(recovery) = store.stats().recovery {
        push(&mut text, "recovered", &recovered(&recovery));
    }
    for endpoint in &at.all_redis {
        let how = match endpoint {
            Endpoint::Tcp(address) => format!("redis-cli -h {} -p {}", address.ip(), address.port()),
            Endpoint::Tls(address) => format!("redis-cli --tls -h {} -p {}", address.ip(), address.port()),
            Endpoint::Unix { path, .. } => format!("redis-cli -s {}", path.display()),
        };
        push(&mut text, "redis", &format!("{endpoint}    {how}"));
    }
    for endpoint in &at.all_memcached {
        let how = match endpoint {
            Endpoint::Tcp(address) => format!("nc -q1 {} {}", address.ip(), address.port()),
            Endpoint::Tls(address) => format!("openssl s_client -quiet -connect {address}"),
            Endpoint::Unix { path, .. } => format!("nc -q1 -U {}", path.display()),
        };
        push(&mut text, "memcached", &format!("{endpoint}    printf 'get KEY\\r\\n' | {how}"));
    }
    if let Some(address) = at.admin {
        push(&mut text, "admin", &format!("{address}    curl http://{address}/metrics"));
    }
    for warning in warnings(settings, &sized.options, at) {
        push(&mut text, "warning", warning);
    }
    push(&mut text, "limits", "no replication, cluster, scripting or collections");
    text.push_str(
        "ready       stop with Ctrl-C or SIGTERM: it answers what it has received, saves and exits",
    );
    text
}

/// How the store was opened again.
fn recovered(recovery: &RecoveryStats) -> String {
    let how = match (recovery.clean, recovery.snapshot) {
        (_, SnapshotUse::Used) => "from the snapshot of a clean stop",
        (true, SnapshotUse::Refused) => "after a clean stop, whose snapshot could not be used",
        (true, SnapshotUse::None) => "after a clean stop",
        (false, _) => "after a crash",
    };
    let Scanned { pages, of } = recovery.scanned;
    let mut line = format!(
        "in {} ms: {pages} pages scanned of {of}; {} records, {how}",
        recovery.nanoseconds / 1_000_000,
        recovery.records
    );
    if recovery.poisoned > 0 {
        let _ = write!(
            line,
            "; {} were damaged and answer errors until they are set or deleted",
            recovery.poisoned
        );
    }
    line
}

fn push(text: &mut String, label: &str, line: &str) {
    let _ = writeln!(text, "{label:<11} {line}");
}

fn tiers(options: &Options) -> String {
    let dram = match (options.dram, options.dram_records) {
        (Some(bytes), _) => format!("DRAM {} (index and buffers included)", human_bytes(bytes)),
        (None, Some(bytes)) => format!("DRAM {} of records", human_bytes(bytes)),
        (None, None) => "DRAM without bound".to_owned(),
    };
    let lower = |name: &str, tier: &Option<Tier>| {
        tier.as_ref().map(|tier| {
            let place = match &tier.place {
                Some(terrace::Place::Path(path)) => format!(" at {}", path.display()),
                Some(terrace::Place::Node(node)) => format!(" on NUMA node {node}"),
                Some(terrace::Place::Striped(paths)) => {
                    format!(" striped over {}", super::shown::places(paths))
                }
                None => String::new(),
            };
            format!("{name} {}{place}", human_bytes(tier.bytes))
        })
    };
    let steps = [Some(dram), lower("PMem", &options.pmem), lower("SSD", &options.ssd)];
    steps.into_iter().flatten().collect::<Vec<_>>().join(" > ")
}

fn durability(options: &Options) -> String {
    let mode = options.durability;
    let promise = match mode {
        _ if options.engine == "dram" => "nothing survives a stop of this engine".to_owned(),
        _ if options.ends_with_process() => MEMORY_ENDS.to_owned(),
        Durability::None => "a clean stop saves, a crash does not".to_owned(),
        Durability::Batch(window) => {
            format!("the death of the process loses nothing, power loss at most {} ms", window.as_millis())
        }
        Durability::Sync => "answered when safe from power loss".to_owned(),
    };
    format!("{mode}: {promise}")
}

/// Of memory of the process or of a NUMA node.
const MEMORY_ENDS: &str =
    "nothing survives a stop: --pmem is memory without a file; --pmem SIZE@PATH has one";

/// What an operator may not have meant.
fn warnings(settings: &Settings, options: &Options, at: &Addresses) -> Vec<&'static str> {
    let mut all = Vec::new();
    let asks = |at: &Endpoint| matches!(at, Endpoint::Tls(_)) && settings.network.demands_certificates();
    if at.all_redis.iter().chain(&at.all_memcached).any(|endpoint| !endpoint.is_local() && !asks(endpoint)) {
        all.push(match settings.network.protected_mode {
            true => {
                "it listens beyond the loopback, but lets in only clients of this machine where it asks nobody for a \
                     password: --protected-mode no lets in all"
            }
            false => {
                "it listens beyond the loopback, and where no password is set it asks nobody who they are"
            }
        });
    }
    let network = &settings.network;
    if network.redis_asks()
        && network.memcached_auth_file.is_none()
        && at.all_memcached.iter().any(|at| !asks(at))
    {
        all.push(
            "Redis's clients must log in, and memcached's reach the same keys without: --memcached off, or \
             --memcached-auth-file FILE",
        );
    }
    if options.ends_with_process() && options.engine != "dram" {
        all.push(MEMORY_ENDS);
    } else if options.engine != "dram" && options.durability == Durability::None {
        all.push("a crash loses what was written: durability is none");
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::args::ServeArgs;
    use super::super::settings::gather_text;
    use super::*;

    fn warned(text: &str, options: &Options) -> String {
        let settings = gather_text(ServeArgs::default(), &|_| None, Some(text)).unwrap();
        let at = Addresses {
            all_redis: settings.redis.0.clone(),
            all_memcached: settings.memcached.0.clone(),
            ..Addresses::default()
        };
        warnings(&settings, options, &at).join("\n")
    }

    #[test]
    fn an_open_door_beside_a_locked_one_is_told() {
        let options = Options::default();
        for asks in ["requirepass = \"secret\"\n", "aclfile = \"/users.acl\"\n"] {
            assert!(warned(asks, &options).contains("--memcached-auth-file FILE"), "{asks}");
            for closed in ["memcached = \"off\"", "memcached-auth-file = \"/users\""] {
                assert_eq!(warned(&format!("{asks}{closed}"), &options), "", "{asks}{closed}");
            }
        }
        assert_eq!(warned("", &options), "");
    }

    #[test]
    fn an_opening_is_told() {
        let recovery = RecoveryStats {
            scanned: Scanned { pages: 3, of: 128 },
            records: 1000,
            nanoseconds: 31_900_000,
            ..RecoveryStats::default()
        };
        let told = "in 31 ms: 3 pages scanned of 128; 1000 records, after a crash";
        assert_eq!(recovered(&recovery), told);
        let damaged = RecoveryStats { poisoned: 2, ..recovery };
        assert!(recovered(&damaged).starts_with(&format!("{told}; 2 were damaged and answer errors")));
        let clean = RecoveryStats { clean: true, snapshot: SnapshotUse::Used, ..recovery };
        assert!(recovered(&clean).ends_with("1000 records, from the snapshot of a clean stop"));
    }

    #[test]
    fn memory_without_a_file_keeps_nothing_and_says_so() {
        let of = |place: Option<terrace::Place>| Options {
            pmem: Some(Tier { bytes: 1 << 30, place }),
            profile: Some("optane-200".into()),
            ..Options::default()
        };
        let node = Some(terrace::Place::Node(0));
        for options in [of(None), of(node)] {
            assert!(warned("", &options).contains("nothing survives a stop"));
            assert!(durability(&options).starts_with("batch:100: nothing survives a stop"));
        }
        let filed = of(Some(terrace::Place::Path("/mnt/pmem0".into())));
        assert_eq!(warned("", &filed), "");
        assert!(durability(&filed).contains("the death of the process loses nothing"));
        let striped = of(Some(terrace::Place::Striped(vec!["/mnt/pmem0".into(), "/mnt/pmem1".into()])));
        assert_eq!(warned("", &striped), "");
        assert!(tiers(&striped).ends_with("PMem 1 GiB striped over /mnt/pmem0, /mnt/pmem1"));
    }
}
