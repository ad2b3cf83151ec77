//! Options from four sources: a flag comes before the environment, that before the file, that before the default.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use terrace::engine::Durability;
use terrace::{Eviction, Granularity, Place, Placement, ReadCache, Size, Swap, TierSpec, WhenFull};
use terrace_server::Endpoint;

use super::args::ServeArgs;
use super::file::File;
use super::listen::{Listen, Listeners};
use super::network::Network;
use super::numa::NumaNodes;
use super::tiers::{self, Tiers};
use crate::names;
use crate::redis::Meaning;

/// The keys of the configuration file; in the environment in capitals with underscores, behind `TERRACE_`.
pub const KEYS: [&str; 49] = [
    "dir",
    "redis",
    "memcached",
    "admin",
    "threads",
    "background-threads",
    "engine",
    "index",
    "placement",
    "policy",
    "swap",
    "read-cache",
    "heap",
    "dram",
    "dram-records",
    "pmem",
    "ssd",
    "profile",
    "nodes",
    "expected-records",
    "durability",
    "when-full",
    "maxclients",
    "tcp-backlog",
    "timeout",
    "login-timeout",
    "tcp-keepalive",
    "protected-mode",
    "requirepass",
    "aclfile",
    "enable-debug-command",
    "memcached-auth-file",
    "proto-max-bulk-len",
    "max-item-size",
    "client-query-buffer-limit",
    "client-output-buffer-limit",
    "maxmemory-clients",
    "notify-keyspace-events",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "latency-monitor-threshold",
    "latency-tracking",
    "tracking-table-max-keys",
    "acllog-max-len",
    "tls-port",
    "tls-cert-file",
    "tls-key-file",
    "tls-ca-cert-file",
    "tls-auth-clients",
];

/// The options in force; sizes are still as they were asked for. Shown, they are a configuration file.
#[derive(Debug, PartialEq)]
pub struct Settings {
    /// Where the store lies.
    pub dir: PathBuf,
    /// What Redis's protocol is spoken on.
    pub redis: Listeners,
    /// What memcached's protocol is spoken on.
    pub memcached: Listeners,
    /// Metrics.
    pub admin: Listen,
    /// Worker threads.
    pub threads: usize,
    /// Threads that move records.
    pub background_threads: usize,
    /// Engine.
    pub engine: String,
    /// Index.
    pub index: String,
    /// Placement.
    pub placement: Option<Placement>,
    /// Policy and gate of DRAM.
    pub policy: Option<Eviction>,
    /// Swapping.
    pub swap: Option<Swap>,
    /// `--read-cache`
    pub read_cache: Option<ReadCache>,
    /// How long a heap's chunks are.
    pub heap: Option<Granularity>,
    /// Bound on memory.
    pub dram: Option<Size>,
    /// Bound on the records in DRAM.
    pub dram_records: Option<Size>,
    /// Byte-addressable tier.
    pub pmem: Option<TierSpec>,
    /// Block tier.
    pub ssd: Option<TierSpec>,
    /// Emulated device.
    pub profile: Option<String>,
    /// NUMA nodes of a new store's places.
    pub nodes: NumaNodes,
    /// Records that a new store's hash table is made for.
    pub expected_records: Option<u64>,
    /// When writes are answered.
    pub durability: Durability,
    /// What to do when full.
    pub when_full: WhenFull,
    /// Clients.
    pub network: Network,
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $type(pub String);
        impl FromStr for $type {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                $check(text).map(Self)
            }
        }
    };
}
name!(
    /// The name of an engine that is there.
    Engine,
    names::engine
);
name!(
    /// The name of an index that is there.
    Index,
    names::index
);

pub(super) struct Sources<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    file: File,
}

impl Sources<'_> {
    /// The flag's value, or else the environment's, or else the file's.
    pub(super) fn get<T: FromStr<Err: Display + 'static>>(
        &self,
        flag: Option<T>,
        key: &str,
    ) -> anyhow::Result<Option<T>> {
        if flag.is_some() {
            return Ok(flag);
        }
        let variable = variable(key);
        let (text, place) = match (self.environment)(&variable) {
            Some(text) => (text, variable),
            None => match self.file.get(key) {
                Some((text, place)) => (text.to_owned(), place),
                None => return Ok(None),
            },
        };
        text.parse().map(Some).map_err(|error: T::Err| {
            // Of a number the standard library says what is wrong, and not what would be right.
            match (&error as &dyn std::any::Any).is::<std::num::ParseIntError>() {
                true => anyhow::anyhow!("{place}: {text:?}: expected a whole number"),
                false => anyhow::anyhow!("{place}: {error}"),
            }
        })
    }
}

fn variable(key: &str) -> String {
    format!("TERRACE_{}", key.replace('-', "_").to_uppercase())
}

/// Variables of the environment that look like misspelt options, with what was probably meant. Unlike in the file they are no
/// error: other programs may use the prefix.
pub fn misspelt(variables: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let known: Vec<String> = KEYS.iter().copied().chain(["config"]).map(variable).collect();
    variables
        .filter(|name| name.starts_with("TERRACE_") && !known.contains(name))
        .filter_map(|name| {
            let rest = known.iter().filter_map(|known| known.strip_prefix("TERRACE_"));
            let meant = names::closest(name.strip_prefix("TERRACE_")?, rest)?;
            Some((name.clone(), format!("TERRACE_{meant}")))
        })
        .collect()
}

/// Gathers the settings; `environment` looks a variable up.
///
/// # Errors
/// If a source holds what can't be read, or two options contradict each other; the text says where.
pub fn gather(args: ServeArgs, environment: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Settings> {
    let config = args.config.clone().or_else(|| environment("TERRACE_CONFIG").map(PathBuf::from));
    let file = config.map(|path| File::read(&path, &KEYS)).transpose()?.unwrap_or_default();
    gather_from(args, environment, file)
}

/// As [`gather`] with what a redis.conf stands for in the place of a configuration file.
///
/// # Errors
/// As of [`gather`].
pub fn gather_redis(
    args: ServeArgs,
    environment: &dyn Fn(&str) -> Option<String>,
    meaning: &Meaning,
) -> anyhow::Result<Settings> {
    gather_from(args, environment, File::of(&meaning.values))
}

/// As [`gather`] with the text of a file in the place of the one that `--config` names.
///
/// # Errors
/// As of [`gather`].
pub fn gather_text(
    args: ServeArgs,
    environment: &dyn Fn(&str) -> Option<String>,
    file: Option<&str>,
) -> anyhow::Result<Settings> {
    let file = file.map(|text| File::parse("the file", text, &KEYS)).transpose()?.unwrap_or_default();
    gather_from(args, environment, file)
}

fn gather_from(
    args: ServeArgs,
    environment: &dyn Fn(&str) -> Option<String>,
    file: File,
) -> anyhow::Result<Settings> {
    let from = Sources { environment, file };
    let dir = from.get(args.dir, "dir")?.unwrap_or_else(|| PathBuf::from(terrace::defaults::DIR));
    let pmem: Option<TierSpec> = from.get(args.pmem, "pmem")?;
    let given = Tiers { pmem, ssd: from.get(args.ssd, "ssd")? };
    let named = from.get(args.engine, "engine")?.map(|Engine(name)| name);
    let Tiers { pmem, ssd } =
        if named.as_deref() == Some("dram") { given } else { tiers::complete(&dir, given)? };
    let engine = named
        .or_else(|| engine_of_store(&dir, [&pmem, &ssd]))
        .unwrap_or_else(|| terrace::defaults::ENGINE.to_owned());
    let durability = from.get(args.durability, "durability")?;
    let (dram, dram_records) = budgets(&from, args.dram, args.dram_records)?;
    let threads = match from.get(args.threads, "threads")? {
        Some(threads) => threads,
        None => processors()?,
    };
    let background_threads = from.get(args.background_threads, "background-threads")?;
    let settings = Settings {
        dir,
        redis: from.get(args.redis, "redis")?.unwrap_or(Listeners::loopback(6379)),
        memcached: from.get(args.memcached, "memcached")?.unwrap_or(Listeners::loopback(11211)),
        admin: from.get(args.admin, "admin")?.unwrap_or(Listen::Off),
        threads,
        background_threads: background_threads
            .unwrap_or((threads / WORKERS_A_BACKGROUND_THREAD).clamp(1, BACKGROUND_THREADS_DEFAULT_MAX)),
        index: from.get(args.index, "index")?.map_or_else(|| "clht".to_owned(), |Index(name)| name),
        placement: from.get(args.placement, "placement")?,
        policy: from.get(args.policy, "policy")?,
        swap: from.get(args.swap, "swap")?,
        read_cache: from.get(args.read_cache, "read-cache")?,
        heap: from.get(args.heap, "heap")?,
        dram,
        dram_records,
        pmem,
        ssd,
        profile: from.get(args.profile, "profile")?,
        nodes: from.get(args.nodes, "nodes")?.unwrap_or_default(),
        expected_records: from.get(args.expected_records, "expected-records")?,
        durability: durability.unwrap_or(match engine.as_str() {
            "dram" => Durability::None,
            _ => Durability::default(),
        }),
        when_full: from.get(args.when_full, "when-full")?.unwrap_or_default(),
        network: Network::gather(&from, args.network)?,
        engine,
    };
    settings.check()?;
    Ok(settings)
}

/// Where nobody says how many background threads there are: one for so many workers, and at most as many as in TaC's experiments.
const WORKERS_A_BACKGROUND_THREAD: usize = 4;
const BACKGROUND_THREADS_DEFAULT_MAX: usize = 8;

/// The engine that made the store that is there already: who named none then names none at the next start, whatever the default
/// has become.
fn engine_of_store(dir: &Path, tiers: [&Option<TierSpec>; 2]) -> Option<String> {
    let places = tiers.into_iter().flatten().filter_map(|tier| tier.place.as_ref()).flat_map(Place::paths);
    std::iter::once(dir).chain(places.map(PathBuf::as_path)).find_map(terrace::stored_engine)
}

/// The two budgets are alternatives: the source that comes first decides which one holds.
fn budgets(
    from: &Sources<'_>,
    dram: Option<Size>,
    records: Option<Size>,
) -> anyhow::Result<(Option<Size>, Option<Size>)> {
    if dram.is_some() || records.is_some() {
        return Ok((dram, records));
    }
    let set = |key| (from.environment)(&variable(key)).is_some();
    if set("dram") != set("dram-records") {
        let (with_dram, with_records) = (set("dram"), set("dram-records"));
        return Ok((
            if with_dram { from.get(None, "dram")? } else { None },
            if with_records { from.get(None, "dram-records")? } else { None },
        ));
    }
    Ok((from.get(None, "dram")?, from.get(None, "dram-records")?))
}

fn processors() -> anyhow::Result<usize> {
    Ok(std::thread::available_parallelism()
        .context("the number of processors is unknown; give --threads")?
        .get())
}

impl Settings {
    fn check(&self) -> anyhow::Result<()> {
        use anyhow::ensure;
        ensure!(self.threads > 0 && self.threads <= 1024, "--threads must be 1 to 1024");
        ensure!((1..=128).contains(&self.background_threads), "--background-threads must be 1 to 128");
        ensure!(
            self.dram.is_none() || self.dram_records.is_none(),
            "give --dram or --dram-records, not both: the second lifts the first"
        );
        ensure!(
            !self.redis.0.is_empty() || !self.memcached.0.is_empty(),
            "with --redis off and --memcached off nobody could reach the store"
        );
        let mut listeners = self.redis.0.iter().chain(&self.memcached.0);
        ensure!(
            self.network.has_certificate() || !listeners.any(|at| matches!(at, Endpoint::Tls(_))),
            "an address with tls: before it needs a certificate: add --tls-cert-file FILE and --tls-key-file FILE"
        );
        ensure!(
            self.profile.is_none() || self.pmem.is_some(),
            "--profile emulates the device at --pmem; add --pmem SIZE, such as --pmem 1GiB"
        );
        ensure!(
            self.placement.is_none() || self.engine == "tac",
            "--placement is of engine tac: leave it out, or use --engine tac"
        );
        ensure!(
            self.policy.is_none() || self.engine == "tac",
            "--policy is of engine tac: leave it out, or use --engine tac"
        );
        ensure!(
            self.swap.is_none() || self.engine == "tac",
            "--swap is of engine tac: leave it out, or use --engine tac"
        );
        ensure!(
            self.swap != Some(Swap::Buf)
                || (self.ssd.is_some() && self.placement != Some(Placement::AntiTuple)),
            "--swap buf is about the SSD, and placement anti-tuple is the one without it: add --ssd SIZE and use --placement tac, or leave --swap out"
        );
        ensure!(
            matches!(self.placement, None | Some(Placement::Tac))
                || (self.pmem.is_some() && self.ssd.is_some()),
            "--placement is about three tiers: add --pmem SIZE@PATH and --ssd SIZE, or leave it out"
        );
        ensure!(
            self.engine != "dram" || (self.pmem.is_none() && self.ssd.is_none()),
            "--engine dram has no lower tier; leave out --pmem and --ssd, or use --engine hetermm"
        );
        ensure!(
            self.engine != "dram" || self.durability == Durability::None,
            "--engine dram keeps nothing, so that --durability can only be none; use --engine hetermm"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn without_options_the_usual_ports_of_the_loopback() {
        let settings = gather(ServeArgs::default(), &nothing).unwrap();
        assert_eq!(settings.dir, PathBuf::from("terrace-data"));
        assert_eq!(settings.redis.to_string(), "127.0.0.1:6379");
        assert_eq!(settings.memcached.to_string(), "127.0.0.1:11211");
        assert_eq!((settings.admin.address(), settings.engine.as_str()), (None, "tac"));
        assert_eq!(settings.durability.to_string(), "batch:100");
    }

    #[test]
    fn a_store_that_is_there_keeps_its_engine() {
        let dir = tempfile::tempdir().unwrap();
        let gathered = |args: ServeArgs| {
            let dir = Some(dir.path().to_owned());
            gather(ServeArgs { dir, ..args }, &nothing).unwrap().engine
        };
        assert_eq!(gathered(ServeArgs::default()), "tac", "a new store");
        let (engine, path) = ("hetermm".to_owned(), Some(dir.path().to_owned()));
        let ssd = Some(terrace::Tier { bytes: 32 << 20, place: None });
        let options =
            terrace::Options { engine, dir: path, dram: Some(8 << 20), ssd, ..terrace::Options::default() };
        terrace::open(options).unwrap().close().unwrap();
        assert_eq!(gathered(ServeArgs::default()), "hetermm");
        let asked = ServeArgs { engine: Some(Engine("tac".into())), ..ServeArgs::default() };
        assert_eq!(gathered(asked), "tac", "opening then says whose store it is");
    }

    #[test]
    fn a_flag_before_the_environment_before_the_file_before_the_default() {
        let file = file("threads = 1\ndram = \"1MiB\"\nwhen-full = \"evict\"\ndurability = \"sync\"");
        let environment = |name: &str| match name {
            "TERRACE_THREADS" => Some("2".to_owned()),
            "TERRACE_DRAM" => Some("2MiB".to_owned()),
            "TERRACE_CONFIG" => Some(file.path().display().to_string()),
            _ => None,
        };
        let args = ServeArgs { threads: Some(3), ..ServeArgs::default() };
        let settings = gather(args, &environment).unwrap();
        assert_eq!(settings.threads, 3, "the flag");
        assert_eq!(settings.background_threads, 1, "one for four workers");
        assert_eq!(settings.dram, Some(Size::Bytes(2 << 20)), "the environment");
        assert_eq!(settings.when_full, WhenFull::Evict, "the file");
        assert_eq!(settings.index, "clht", "the default");
    }

    #[test]
    fn every_key_is_read_from_the_environment_and_the_file() {
        let values = [
            ("dir", "/srv/x"),
            ("redis", "127.0.0.1:1"),
            ("memcached", "off"),
            ("admin", "127.0.0.1:3"),
            ("threads", "5"),
            ("background-threads", "6"),
            ("engine", "tac"),
            ("index", "clht"),
            ("placement", "anti-nvm"),
            ("policy", "lru/beats"),
            ("swap", "buf"),
            ("read-cache", "sampled:100"),
            ("heap", "object"),
            ("dram-records", "3MiB"),
            ("pmem", "1GiB"),
            ("ssd", "2GiB@/srv/y"),
            ("profile", "optane-200"),
            ("nodes", "2"),
            ("expected-records", "1000"),
            ("durability", "none"),
            ("when-full", "evict"),
            ("maxclients", "11"),
            ("tcp-backlog", "12"),
            ("timeout", "13"),
            ("login-timeout", "14"),
            ("tcp-keepalive", "15"),
            ("protected-mode", "no"),
            // Not with the file of users.
            ("requirepass", ""),
            ("aclfile", "/srv/users.acl"),
            ("enable-debug-command", "yes"),
            ("memcached-auth-file", "/users"),
            ("proto-max-bulk-len", "16MiB"),
            ("max-item-size", "17MiB"),
            ("client-query-buffer-limit", "18MiB"),
            ("client-output-buffer-limit", "19MiB"),
            ("maxmemory-clients", "20%"),
            ("notify-keyspace-events", "KEA"),
            ("slowlog-log-slower-than", "22"),
            ("slowlog-max-len", "23"),
            ("latency-monitor-threshold", "24"),
            ("latency-tracking", "no"),
            ("tracking-table-max-keys", "25"),
            ("acllog-max-len", "26"),
            ("tls-port", "21"),
            ("tls-cert-file", "/cert"),
            ("tls-key-file", "/key"),
            ("tls-ca-cert-file", "/ca"),
            ("tls-auth-clients", "optional"),
        ];
        let told = |settings: Settings| format!("{settings:?}");
        let text: String = values.iter().map(|(key, value)| format!("{key} = {value:?}\n")).collect();
        let file = file(&text);
        let args = ServeArgs { config: Some(file.path().to_owned()), ..ServeArgs::default() };
        let from_file = told(gather(args, &nothing).unwrap());
        let environment = |name: &str| {
            values.iter().find(|(key, _)| variable(key) == name).map(|(_, value)| (*value).to_owned())
        };
        let from_environment = told(gather(ServeArgs::default(), &environment).unwrap());
        assert_eq!(from_file, from_environment);
        for word in [
            "/srv/x",
            "127.0.0.1:1",
            "Listeners([])",
            "127.0.0.1:3",
            " threads: 5",
            "background_threads: 6",
            "3145728",
            "/srv/y",
            "optane",
            "AntiNvm",
            "policy: Lru, gate: Beats",
            "Buf",
            "Object",
            "Evict",
        ] {
            assert!(from_file.contains(word), "{word} is missing in {from_file}");
        }
    }

    #[test]
    fn a_nearer_budget_replaces_the_other_kind() {
        let file = file("dram = \"1GiB\"");
        let args = ServeArgs {
            config: Some(file.path().to_owned()),
            dram_records: Some(Size::Bytes(7)),
            ..ServeArgs::default()
        };
        let settings = gather(args, &nothing).unwrap();
        assert_eq!((settings.dram, settings.dram_records), (None, Some(Size::Bytes(7))));
    }

    #[test]
    fn misspelt_variables_are_noticed_and_others_are_not() {
        let names = ["TERRACE_DRAM", "TERRACE_DARM_RECORDS", "TERRACE_CONFIG", "TERRACE_KILL_ROUNDS", "HOME"];
        let found = misspelt(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(found, [("TERRACE_DARM_RECORDS".to_owned(), "TERRACE_DRAM_RECORDS".to_owned())]);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let environment = |name: &str| (name == "TERRACE_WHEN_FULL").then(|| "maybe".to_owned());
        let error = gather(ServeArgs::default(), &environment).unwrap_err().to_string();
        assert!(error.contains("TERRACE_WHEN_FULL") && error.contains("refuse or evict"), "{error}");
        let file = file("\nengine = \"bonsay\"");
        let args = ServeArgs { config: Some(file.path().to_owned()), ..ServeArgs::default() };
        let error = gather(args, &nothing).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("did you mean bonsai?"), "{error}");
        let many = |name: &str| (name == "TERRACE_THREADS").then(|| "many".into());
        let error = gather(ServeArgs::default(), &many).unwrap_err().to_string();
        assert_eq!(error, "TERRACE_THREADS: \"many\": expected a whole number");
        let engine = Some("tac".parse().unwrap());
        let placed = |placement: &str, engine| ServeArgs {
            placement: Some(placement.parse().unwrap()),
            engine,
            ssd: Some("1GiB".parse().unwrap()),
            ..ServeArgs::default()
        };
        let refused = |args| gather(args, &nothing).unwrap_err().to_string();
        let other = Some("hetermm".parse().unwrap());
        assert!(refused(placed("tac", other)).contains("use --engine tac"));
        assert!(refused(placed("anti-2", engine.clone())).contains("add --pmem"));
        let policy = Some("sieve".parse().unwrap());
        let other = Some("hetermm".parse().unwrap());
        let args = ServeArgs { policy, engine: other, ..ServeArgs::default() };
        assert!(refused(args).contains("--policy is of engine tac"));
        let swapped = |engine: &str, ssd: Option<&str>| ServeArgs {
            swap: Some(Swap::Buf),
            engine: Some(engine.parse().unwrap()),
            ssd: ssd.map(|size| size.parse().unwrap()),
            pmem: ssd.is_none().then(|| "1GiB".parse().unwrap()),
            ..ServeArgs::default()
        };
        assert!(refused(swapped("hetermm", Some("1GiB"))).contains("--swap is of engine tac"));
        assert!(refused(swapped("tac", None)).contains("--swap buf is about the SSD"));
        assert!(gather(swapped("tac", Some("1GiB")), &nothing).is_ok());
        assert_eq!(gather(placed("tac", engine), &nothing).unwrap().placement, Some(Placement::Tac));
        let args = ServeArgs { profile: Some("optane-200".into()), ..ServeArgs::default() };
        assert!(gather(args, &nothing).unwrap_err().to_string().contains("--pmem 1GiB"));
        let engine = Some("dram".parse().unwrap());
        let args = ServeArgs { engine, durability: Some(Durability::default()), ..ServeArgs::default() };
        assert!(gather(args, &nothing).unwrap_err().to_string().contains("only be none"));
    }
}
