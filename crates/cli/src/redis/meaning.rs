//! What the directives of a redis.conf mean here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use terrace_server::{check_parameter, is_without_meaning};

use super::conf::Directive;
use crate::names::closest;

/// Directives that are options of `terrace serve`, by the same name and with the same values.
const SAME: [&str; 22] = [
    "acllog-max-len",
    "aclfile",
    "client-query-buffer-limit",
    "enable-debug-command",
    "latency-monitor-threshold",
    "latency-tracking",
    "maxclients",
    "maxmemory-clients",
    "notify-keyspace-events",
    "proto-max-bulk-len",
    "protected-mode",
    "requirepass",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "tcp-backlog",
    "tcp-keepalive",
    "timeout",
    "tls-auth-clients",
    "tls-ca-cert-file",
    "tls-cert-file",
    "tls-key-file",
    "tracking-table-max-keys",
];
/// Those that are read below.
const READ: [&str; 24] = [
    "appendfsync",
    "appendonly",
    "bind",
    "client-output-buffer-limit",
    "daemonize",
    "databases",
    "dbfilename",
    "dir",
    "enable-module-command",
    "include",
    "io-threads",
    "logfile",
    "loglevel",
    "maxmemory",
    "maxmemory-policy",
    "pidfile",
    "port",
    "save",
    "supervised",
    "tls-port",
    "unixsocket",
    "unixsocketperm",
    "user",
    "loadmodule",
];
/// Those whose values nobody is to read in a log.
const SECRET: [&str; 5] =
    ["masterauth", "requirepass", "tls-client-key-file-pass", "tls-key-file-pass", "user"];
/// Where Redis writes its number if it goes into the background and nobody says where.
const PID_FILE: &str = "/var/run/redis.pid";
const PORT: u16 = 6379;

/// What a redis.conf stands for.
#[derive(Debug, Default)]
pub struct Meaning {
    /// Values of options of `terrace serve`, each with where it stands.
    pub values: Vec<(&'static str, String, String)>,
    /// Lines about users, as an ACL file has them.
    pub users: Vec<String>,
    /// Parameters that have no option.
    pub parameters: Vec<(String, String)>,
    /// The file that SAVE writes.
    pub dbfilename: Option<String>,
    /// What becomes of the process.
    pub background: Background,
    /// What each line became.
    pub told: Vec<String>,
}

/// What becomes of the process.
#[derive(Debug, Default)]
pub struct Background {
    /// It leaves the terminal.
    pub daemon: bool,
    /// Where it writes its number.
    pub pid_file: Option<PathBuf>,
    /// Where it logs; standard error without.
    pub log_file: Option<PathBuf>,
    /// What it logs.
    pub log_level: Option<&'static str>,
    /// A service manager waits for it.
    pub supervised: bool,
}

/// Where to listen, as it is put together from several lines.
struct Listening {
    addresses: Vec<IpAddr>,
    port: u16,
    tls_port: u16,
    socket: Option<String>,
    mode: String,
}

/// What became of one line, or why it can't be.
type Became = Result<String, String>;

impl Meaning {
    /// Works it out.
    ///
    /// # Errors
    /// All lines that can't be, each with its place and the reason.
    pub fn of(directives: &[Directive]) -> Result<Self, String> {
        let mut meaning = Self::default();
        let mut listening = Listening::default();
        let (mut keeps, mut fsync, mut limits) = (false, "everysec".to_owned(), Vec::new());
        let mut wrong = Vec::new();
        for directive in directives {
            let Directive { name, values, place } = directive;
            let became = match name.as_str() {
                "client-output-buffer-limit" => {
                    limits.extend(values.iter().cloned());
                    checked(name, &values.join(" ")).map(|()| format!("--{name}"))
                }
                "appendonly" => yes_no(values).map(|on| {
                    keeps = on;
                    "writes are durable as --durability says, with it or without".into()
                }),
                "appendfsync" => word(values, &["always", "everysec", "no"]).map(|word| {
                    fsync = word.to_owned();
                    match word {
                        "always" => "with appendonly, --durability sync".into(),
                        _ => "--durability as it is by default: more is safe, and sooner".into(),
                    }
                }),
                _ => match listening.read(name, values) {
                    Some(became) => became,
                    None => meaning.read(directive),
                },
            };
            let shown = if SECRET.contains(&name.as_str()) { "(not shown)".into() } else { values.join(" ") };
            match became {
                Ok(became) => meaning.told.push(format!("{place}: {name} {shown}: {became}")),
                Err(why) => wrong.push(format!("{place}: {name} {shown}: {why}")),
            }
        }
        if !wrong.is_empty() {
            return Err(wrong.join("\n"));
        }
        if keeps && fsync == "always" {
            meaning.set("durability", "sync".into(), "appendfsync");
        }
        if !limits.is_empty() {
            meaning.set("client-output-buffer-limit", limits.join(" "), "client-output-buffer-limit");
        }
        meaning.stand_in_dir(&mut listening);
        meaning.set("redis", listening.text()?, "bind and port");
        // Where Redis was nobody expects another protocol.
        meaning.set("memcached", "off".into(), "a redis.conf");
        Ok(meaning)
    }

    /// `dir` is where Redis stands when it opens other files, wherever in the file the line is.
    fn stand_in_dir(&mut self, listening: &mut Listening) {
        let Some((_, dir, _)) = self.values.iter().find(|(key, ..)| *key == "dir") else { return };
        let dir = PathBuf::from(dir);
        for (key, path, _) in &mut self.values {
            if matches!(*key, "aclfile" | "tls-ca-cert-file" | "tls-cert-file" | "tls-key-file") {
                *path = dir.join(&path).display().to_string();
            }
        }
        let Background { pid_file, log_file, .. } = &mut self.background;
        for path in [pid_file, log_file].into_iter().flatten() {
            *path = dir.join(&path);
        }
        if let Some(path) = &mut listening.socket {
            *path = dir.join(&path).display().to_string();
        }
    }

    fn set(&mut self, key: &'static str, value: String, place: &str) {
        self.values.retain(|(known, ..)| *known != key);
        self.values.push((key, value, place.to_owned()));
    }

    /// Reads a line that stands for itself.
    fn read(&mut self, directive: &Directive) -> Became {
        let Directive { name, values, place } = directive;
        if let Some(&key) = SAME.iter().find(|key| *key == name) {
            let value = one(values)?;
            // Redis reads these in any case.
            let lower = value.to_lowercase();
            let value = if matches!(&*lower, "yes" | "no" | "optional") { lower } else { value.to_owned() };
            if value.is_empty() {
                self.values.retain(|(known, ..)| *known != key);
                return Ok("none".into());
            }
            self.set(key, value, &format!("{place}: {name}"));
            return Ok(format!("--{key}"));
        }
        match name.as_str() {
            "daemonize" => yes_no(values).map(|on| {
                self.background.daemon = on;
                if on && self.background.pid_file.is_none() {
                    self.background.pid_file = Some(PID_FILE.into());
                }
                (if on { "into the background" } else { "in the foreground" }).into()
            }),
            "pidfile" => {
                let path = one(values)?;
                self.background.pid_file = (!path.is_empty()).then(|| path.into());
                Ok("the process's number is written there".into())
            }
            "logfile" => {
                let path = one(values)?;
                self.background.log_file = (!path.is_empty()).then(|| path.into());
                Ok((if path.is_empty() { "the log goes to standard error" } else { "the log goes there" })
                    .into())
            }
            "loglevel" => {
                let level = word(values, &["debug", "verbose", "notice", "warning", "nothing"])?;
                let ours = match level {
                    "debug" => "debug",
                    "warning" => "warn",
                    "nothing" => "off",
                    _ => "info",
                };
                self.background.log_level = Some(ours);
                self.parameters.retain(|(known, _)| known != name);
                if level != "nothing" {
                    self.parameters.push((name.clone(), level.to_owned()));
                }
                Ok(format!("--log-level {ours}"))
            }
            "supervised" => {
                let how = word(values, &["no", "upstart", "systemd", "auto"])?;
                self.background.supervised = matches!(how, "systemd" | "auto");
                Ok(match how {
                    "no" => "nobody is told when it is ready",
                    "upstart" => "nobody is told when it is ready: upstart is not supported",
                    _ => "the service manager is told when it is ready",
                }
                .into())
            }
            "maxmemory" => {
                let text = one(values)?;
                if terrace_bytes(text)? == 0 {
                    self.values.retain(|(known, ..)| *known != "dram");
                    return Ok("--dram as it is by default: half of the memory".into());
                }
                self.set("dram", text.to_owned(), &format!("{place}: {name}"));
                Ok(format!("--dram {text}: what has no room there goes on to the tiers below"))
            }
            "maxmemory-policy" => {
                let text = one(values)?.to_lowercase();
                let evicts = text != "noeviction";
                let known = ["volatile-", "allkeys-"].iter().find_map(|front| text.strip_prefix(front));
                if evicts && !known.is_some_and(|how| ["lru", "lfu", "random", "ttl"].contains(&how)) {
                    return Err("expected noeviction, or a policy such as allkeys-lru".into());
                }
                let how = if evicts { "evict" } else { "refuse" };
                self.set("when-full", how.into(), &format!("{place}: {name}"));
                let coldest = if evicts { ": the coldest keys go, when all tiers are full" } else { "" };
                Ok(format!("--when-full {how}{coldest}"))
            }
            "dir" => {
                let dir = one(values)?;
                self.set("dir", dir.to_owned(), &format!("{place}: {name}"));
                Ok(format!("--dir {dir}: the store lies there"))
            }
            "dbfilename" => {
                let file = one(values)?;
                if file.contains('/') {
                    return Err("dbfilename can't be a path, just a filename".into());
                }
                self.dbfilename = Some(file.to_owned());
                Ok("SAVE and BGSAVE write it".into())
            }
            "save" => Ok("nothing is saved at intervals: writes are durable as --durability says".into()),
            "databases" => match number(values)? {
                1..=16 => Ok("there are 16".into()),
                _ => Err("there are 16 databases".into()),
            },
            "io-threads" => {
                let threads = number(values)?;
                if threads > 1 {
                    self.set("threads", threads.to_string(), &format!("{place}: {name}"));
                    return Ok(format!("--threads {threads}"));
                }
                Ok("--threads as it is by default: the processors".into())
            }
            "user" => {
                self.users.push(format!("user {}", values.join(" ")));
                Ok("a user".into())
            }
            "enable-module-command" if values.len() == 1 && values[0].eq_ignore_ascii_case("no") => {
                Ok("there are no modules".into())
            }
            "enable-module-command" | "loadmodule" => Err("there are no modules".into()),
            "rename-command" => {
                Err("commands keep their names: take them from users with ACL rules, as in user default on \
                                     nopass ~* &* +@all -flushall"
                    .into())
            }
            "replicaof" | "slaveof" if values.len() == 2 && values.iter().all(|word| is_no_one(word)) => {
                Ok("it follows nobody".into())
            }
            name => self.read_parameter(name, values),
        }
    }

    fn read_parameter(&mut self, name: &str, values: &[String]) -> Became {
        let text = values.join(" ");
        match checked(name, &text) {
            Ok(()) => {
                self.parameters.retain(|(known, _)| known != name);
                self.parameters.push((name.to_owned(), text));
                let means = if is_without_meaning(name) { "means nothing here" } else { "taken as it is" };
                Ok(means.into())
            }
            Err(why) if why.starts_with("there is no parameter") => {
                let known = SAME.iter().chain(&READ).copied();
                let hint = closest(name, known).map(|name| format!(": did you mean {name}?"));
                Err(format!("redis.conf has no such directive{}", hint.unwrap_or_default()))
            }
            Err(why) => Err(why),
        }
    }
}

impl Default for Listening {
    /// As Redis: everywhere, where `protected-mode` keeps strangers out.
    fn default() -> Self {
        let everywhere = [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)];
        Self {
            addresses: everywhere.into_iter().filter(|address| is_there(*address)).collect(),
            port: PORT,
            tls_port: 0,
            socket: None,
            mode: "755".into(),
        }
    }
}

impl Listening {
    /// Reads a line, if it is about this.
    fn read(&mut self, name: &str, values: &[String]) -> Option<Became> {
        let port = |values: &[String]| {
            u16::try_from(number(values)?).map_err(|_| "expected a port, 0 to 65535".to_owned())
        };
        Some(match name {
            "bind" => self.bind(values),
            "port" => port(values).map(|port| {
                self.port = port;
                (if port == 0 { "no port without TLS" } else { "a port of --redis" }).into()
            }),
            "tls-port" => port(values).map(|port| {
                self.tls_port = port;
                (if port == 0 { "no port with TLS" } else { "a port of --redis with tls:" }).into()
            }),
            "unixsocket" => one(values).map(|path| {
                self.socket = (!path.is_empty()).then(|| path.to_owned());
                "a socket of --redis with unix:".into()
            }),
            "unixsocketperm" => one(values).and_then(|mode| match terrace_server::unix_mode(mode) {
                None => Err("expected permissions in octal, such as 770".into()),
                Some(0) => Ok("755".into()),
                Some(_) => {
                    self.mode = mode.to_owned();
                    Ok("the socket's mode".into())
                }
            }),
            _ => return None,
        })
    }

    /// `bind`: addresses; one with a dash before it may be missing.
    fn bind(&mut self, values: &[String]) -> Became {
        let mut addresses = Vec::new();
        for value in values.iter().filter(|value| !value.is_empty()) {
            let (text, optional) =
                value.strip_prefix('-').map_or((value.as_str(), false), |text| (text, true));
            let address = match text {
                "*" => Ipv4Addr::UNSPECIFIED.into(),
                "::*" => Ipv6Addr::UNSPECIFIED.into(),
                "localhost" => Ipv4Addr::LOCALHOST.into(),
                text => text
                    .parse::<IpAddr>()
                    .map_err(|_| format!("{text:?}: expected an address such as 127.0.0.1"))?,
            };
            if !optional || is_there(address) {
                addresses.push(address);
            }
        }
        self.addresses = addresses;
        Ok("addresses of --redis".into())
    }

    /// As `--redis` has it.
    fn text(&self) -> Result<String, String> {
        let at = |port: u16| self.addresses.iter().map(move |address| SocketAddr::new(*address, port));
        let plain = at(self.port).filter(|_| self.port != 0).map(|address| address.to_string());
        let tls = at(self.tls_port).filter(|_| self.tls_port != 0).map(|address| format!("tls:{address}"));
        let socket = match &self.socket {
            Some(path) if path.contains(',') => {
                return Err(format!("unixsocket {path}: a path with a comma can't be listened on"));
            }
            socket => socket.as_ref().map(|path| format!("unix:{}:{path}", self.mode)),
        };
        let all: Vec<String> = plain.chain(tls).chain(socket).collect();
        if all.is_empty() {
            return Err("with port 0, tls-port 0 and no unixsocket nobody could reach the server".into());
        }
        Ok(all.join(","))
    }
}

/// Whether this machine has an address.
fn is_there(address: IpAddr) -> bool {
    TcpListener::bind((address, 0)).is_ok()
}

fn checked(name: &str, value: &str) -> Result<(), String> {
    check_parameter(name, value)
}

fn is_no_one(word: &str) -> bool {
    word.eq_ignore_ascii_case("no") || word.eq_ignore_ascii_case("one")
}

fn one(values: &[String]) -> Result<&str, String> {
    match values {
        [value] => Ok(value),
        _ => Err(format!("expected one value, not {}", values.len())),
    }
}

fn number(values: &[String]) -> Result<u64, String> {
    one(values)?.parse().map_err(|_| "expected a whole number".into())
}

fn word<'a>(values: &[String], words: &[&'a str]) -> Result<&'a str, String> {
    let given = one(values)?;
    let found = words.iter().find(|word| given.eq_ignore_ascii_case(word));
    found.copied().ok_or_else(|| format!("expected {}", words.join(", ")))
}

fn yes_no(values: &[String]) -> Result<bool, String> {
    word(values, &["yes", "no"]).map(|word| word == "yes")
}

fn terrace_bytes(text: &str) -> Result<u64, String> {
    match text.parse()? {
        terrace::Size::Bytes(bytes) => Ok(bytes),
        terrace::Size::Percent(_) => Err("expected a size such as 100mb".into()),
    }
}
