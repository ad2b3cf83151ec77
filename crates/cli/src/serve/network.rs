//! Settings about clients: limits, protection, TLS. Where redis.conf has the setting, its name is used.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use terrace::Size;
use terrace_server::{ClientAuth, Endpoint, ServerOptions, TlsOptions, check_parameter};

use super::listen::Listeners;
use super::settings::Sources;
use super::watching::{self, WatchingArgs};

/// Flags about clients.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Clients")]
pub struct NetworkArgs {
    /// Connections at a time [default: 10000]
    #[arg(long, value_name = "N")]
    pub maxclients: Option<Count>,
    /// Connections that may wait to be accepted [default: 1024]
    #[arg(long, value_name = "N")]
    pub tcp_backlog: Option<Count>,
    /// Close a connection that has sent nothing for so many seconds; 0: never [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<Seconds>,
    /// Close a connection that must log in and has not for so many seconds; 0: never [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub login_timeout: Option<Seconds>,
    /// After so many silent seconds ask whether a client is still there; 0: never [default: 300]
    #[arg(long, value_name = "SECONDS")]
    pub tcp_keepalive: Option<Seconds>,
    /// Where clients need no password, let in only those of this machine: yes or no [default: yes]
    #[arg(long, value_name = "YES|NO")]
    pub protected_mode: Option<YesNo>,
    /// The password that Redis's clients must give; better in the environment or the file than here, where all can see it
    #[arg(long, value_name = "PASSWORD")]
    pub requirepass: Option<Secret>,
    /// File with the users of Redis's protocol, as ACL SAVE writes it [default: none]
    #[arg(long, value_name = "FILE")]
    pub aclfile: Option<PathBuf>,
    /// Allow Redis's DEBUG, for tests: yes or no [default: no]
    #[arg(long, value_name = "YES|NO")]
    pub enable_debug_command: Option<YesNo>,
    /// The file of memcached's users, lines of user:password, read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub memcached_auth_file: Option<PathBuf>,
    /// Longest argument of a Redis command [default: 512MiB]
    #[arg(long, value_name = "SIZE")]
    pub proto_max_bulk_len: Option<Size>,
    /// Longest value of a memcached command, at most 1GiB [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    pub max_item_size: Option<Size>,
    /// Close a connection whose unfinished command is longer, at most 1GiB [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub client_query_buffer_limit: Option<Size>,
    /// Close a connection with more unsent bytes; 0: never; or, as in redis.conf, "normal HARD SOFT SECONDS pubsub HARD SOFT SECONDS" [default: 1GiB; for subscribers 32MiB, or 8MiB for 60 seconds]
    #[arg(long, value_name = "SIZE")]
    pub client_output_buffer_limit: Option<OutputLimit>,
    /// Bound on the buffers of all clients, above which those that hold most are closed; a percentage is of --dram; 0: none [default: half of --dram, from 256MiB to 1GiB, or a twentieth if that is more]
    #[arg(long, value_name = "SIZE")]
    pub maxmemory_clients: Option<Size>,
    /// What is watched.
    #[command(flatten)]
    pub watching: WatchingArgs,
    /// Speak Redis's protocol in TLS on this port of each address of --redis, too
    #[arg(long, value_name = "PORT")]
    pub tls_port: Option<Count>,
    /// For addresses with tls: before them, our certificate and what vouches for it, in PEM
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,
    /// The certificate's key in PEM [default: in --tls-cert-file]
    #[arg(long, value_name = "FILE")]
    pub tls_key_file: Option<PathBuf>,
    /// Who vouches for clients' certificates, in PEM
    #[arg(long, value_name = "FILE")]
    pub tls_ca_cert_file: Option<PathBuf>,
    /// Whether clients must show certificates: yes, no or optional [default: yes]
    #[arg(long, value_name = "HOW")]
    pub tls_auth_clients: Option<ClientAuth>,
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $type:ty, $max:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub $type);
        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                let number = text.parse().ok().filter(|number| *number <= $max);
                number.map(Self).ok_or_else(|| format!("{text:?}: expected {}", $expected))
            }
        }
    };
}
number!(
    /// A number of things.
    Count, u32, 1 << 24, "a whole number such as 1000"
);
number!(
    /// A time.
    Seconds, u64, 1 << 31, "a whole number of seconds such as 300, or 0 for never"
);

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YesNo(pub bool);

impl FromStr for YesNo {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "yes" => Ok(Self(true)),
            "no" => Ok(Self(false)),
            _ => Err(format!("{text:?}: expected yes or no")),
        }
    }
}

impl Display for YesNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "yes" } else { "no" })
    }
}

/// Unsent bytes for which a connection is closed.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputLimit {
    /// So many, of one that subscribes to nothing.
    Size(Size),
    /// By class, in redis.conf's words.
    ByClass(String),
}

impl FromStr for OutputLimit {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(size) = text.parse() {
            return Ok(Self::Size(size));
        }
        check_parameter(OUTPUT_LIMIT, text).map(|()| Self::ByClass(text.to_owned())).map_err(|why| {
            format!("{text:?}: expected a size such as 64MiB, or normal 1gb 0 0 pubsub 32mb 8mb 60: {why}")
        })
    }
}

const OUTPUT_LIMIT: &str = "client-output-buffer-limit";

/// A password: logs don't show it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub String);

impl FromStr for Secret {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "(not shown)" })
    }
}

/// The settings in force.
#[derive(Debug, PartialEq)]
pub struct Network {
    maxclients: u32,
    tcp_backlog: u32,
    timeout: u64,
    login_timeout: u64,
    tcp_keepalive: u64,
    /// Whether strangers from elsewhere are kept out.
    pub protected_mode: bool,
    requirepass: Secret,
    aclfile: Option<PathBuf>,
    enable_debug_command: bool,
    /// memcached's users.
    pub memcached_auth_file: Option<PathBuf>,
    proto_max_bulk_len: u64,
    max_item_size: u64,
    client_query_buffer_limit: u64,
    client_output_buffer_limit: u64,
    maxmemory_clients: Option<Size>,
    parameters: Vec<(&'static str, String)>,
    tls_port: Option<u16>,
    tls_cert_file: Option<PathBuf>,
    tls_key_file: Option<PathBuf>,
    tls_ca_cert_file: Option<PathBuf>,
    tls_auth_clients: ClientAuth,
}

/// Sizes that are bounded because a batch holds 4 GiB.
const COMMAND_BYTES_MAX: u64 = 1 << 30;

impl Network {
    /// Gathers the settings.
    ///
    /// # Errors
    /// If one can't be read or is out of bounds.
    pub(super) fn gather(from: &Sources<'_>, args: NetworkArgs) -> anyhow::Result<Self> {
        use anyhow::ensure;
        let count = |flag, key, default| anyhow::Ok(from.get(flag, key)?.map_or(default, |Count(n)| n));
        let seconds = |flag, key, default| anyhow::Ok(from.get(flag, key)?.map_or(default, |Seconds(n)| n));
        let bytes = |size: Option<Size>, key: &str, default: u64, range: std::ops::RangeInclusive<u64>| {
            let bytes = match size {
                None => default,
                Some(Size::Bytes(bytes)) => bytes,
                Some(Size::Percent(_)) => {
                    anyhow::bail!("--{key} must be a size such as 64MiB, not a percentage")
                }
            };
            ensure!(range.contains(&bytes), "--{key} must be {} to {} bytes", range.start(), range.end());
            Ok(bytes)
        };
        let size = |flag, key: &str, default, range| bytes(from.get(flag, key)?, key, default, range);
        let mut parameters = watching::gather(from, args.watching)?;
        let output_limit = match from.get(args.client_output_buffer_limit, OUTPUT_LIMIT)? {
            Some(OutputLimit::Size(size)) => Some(size),
            Some(OutputLimit::ByClass(text)) => {
                parameters.push((OUTPUT_LIMIT, text));
                None
            }
            None => None,
        };
        let tls_port = match from.get(args.tls_port, "tls-port")? {
            None | Some(Count(0)) => None,
            Some(Count(port)) => {
                Some(u16::try_from(port).map_err(|_| anyhow::anyhow!("--tls-port must be 0 to 65535"))?)
            }
        };
        let network = Self {
            maxclients: count(args.maxclients, "maxclients", 10_000)?,
            tcp_backlog: count(args.tcp_backlog, "tcp-backlog", 1024)?,
            timeout: seconds(args.timeout, "timeout", 0)?,
            login_timeout: seconds(args.login_timeout, "login-timeout", 60)?,
            tcp_keepalive: seconds(args.tcp_keepalive, "tcp-keepalive", 300)?,
            protected_mode: from.get(args.protected_mode, "protected-mode")?.is_none_or(|YesNo(yes)| yes),
            requirepass: from.get(args.requirepass, "requirepass")?.unwrap_or_default(),
            aclfile: from.get(args.aclfile, "aclfile")?,
            enable_debug_command: from
                .get(args.enable_debug_command, "enable-debug-command")?
                .is_some_and(|YesNo(yes)| yes),
            memcached_auth_file: from.get(args.memcached_auth_file, "memcached-auth-file")?,
            proto_max_bulk_len: size(
                args.proto_max_bulk_len,
                "proto-max-bulk-len",
                512 << 20,
                1 << 10..=COMMAND_BYTES_MAX,
            )?,
            max_item_size: size(args.max_item_size, "max-item-size", 64 << 20, 1 << 10..=COMMAND_BYTES_MAX)?,
            client_query_buffer_limit: size(
                args.client_query_buffer_limit,
                "client-query-buffer-limit",
                COMMAND_BYTES_MAX,
                1 << 20..=COMMAND_BYTES_MAX,
            )?,
            client_output_buffer_limit: bytes(output_limit, OUTPUT_LIMIT, 1 << 30, 0..=u64::MAX)?,
            maxmemory_clients: from.get(args.maxmemory_clients, "maxmemory-clients")?,
            parameters,
            tls_port,
            tls_cert_file: from.get(args.tls_cert_file, "tls-cert-file")?,
            tls_key_file: from.get(args.tls_key_file, "tls-key-file")?,
            tls_ca_cert_file: from.get(args.tls_ca_cert_file, "tls-ca-cert-file")?,
            tls_auth_clients: from.get(args.tls_auth_clients, "tls-auth-clients")?.unwrap_or_default(),
        };
        ensure!(network.maxclients > 0, "--maxclients must be at least 1");
        ensure!(
            network.requirepass.0.is_empty() || network.aclfile.is_none(),
            "give --requirepass or --aclfile, not both: a password of the default user stands in that file"
        );
        ensure!(
            network.tls_port.is_none() || network.tls_cert_file.is_some(),
            "--tls-port needs a certificate: add --tls-cert-file FILE and --tls-key-file FILE"
        );
        ensure!(
            network.tls_cert_file.is_none()
                || network.tls_ca_cert_file.is_some()
                || network.tls_auth_clients == ClientAuth::No,
            "clients must show certificates unless --tls-auth-clients is no: say who vouches for them with \
             --tls-ca-cert-file FILE, or add --tls-auth-clients no"
        );
        Ok(network)
    }

    /// The addresses for Redis's protocol, those of `--tls-port` included.
    pub fn redis(&self, listeners: &Listeners) -> Vec<Endpoint> {
        let mut all = listeners.0.clone();
        if let Some(port) = self.tls_port {
            all.extend(listeners.0.iter().filter_map(|endpoint| match endpoint {
                Endpoint::Tcp(address) => Some(Endpoint::Tls(SocketAddr::new(address.ip(), port))),
                Endpoint::Tls(_) | Endpoint::Unix { .. } => None,
            }));
        }
        all
    }

    /// Whether there is a certificate.
    pub fn has_certificate(&self) -> bool {
        self.tls_cert_file.is_some()
    }

    /// Whether Redis's clients must say who they are.
    pub fn redis_asks(&self) -> bool {
        !self.requirepass.0.is_empty() || self.aclfile.is_some()
    }

    /// Whether every client of a TLS port shows a certificate.
    pub fn demands_certificates(&self) -> bool {
        self.tls_auth_clients == ClientAuth::Yes
    }

    /// The server's options about clients; `dram` is the budget.
    pub fn options(&self, dram: u64) -> ServerOptions {
        let clients_bytes_max = match self.maxmemory_clients {
            Some(size) => size.of(dram),
            None => clients_bytes_default(dram),
        };
        let owned = |(name, value): &(&str, String)| ((*name).to_owned(), value.clone());
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let tls = self.tls_cert_file.as_ref().map(|cert_file| TlsOptions {
            cert_file: cert_file.clone(),
            key_file: self.tls_key_file.clone(),
            ca_file: self.tls_ca_cert_file.clone(),
            client_auth: self.tls_auth_clients,
            only_tls13: false,
        });
        ServerOptions {
            backlog: self.tcp_backlog,
            tls,
            protected_mode: self.protected_mode,
            requirepass: self.requirepass.0.clone(),
            acl_file: self.aclfile.clone(),
            debug_commands: self.enable_debug_command,
            parameters: self.parameters.iter().map(owned).collect(),
            max_connections: self.maxclients as usize,
            argument_bytes_max: bytes(self.proto_max_bulk_len),
            memcached_value_bytes_max: bytes(self.max_item_size),
            command_bytes_max: bytes(self.client_query_buffer_limit),
            output_bytes_max: bytes(self.client_output_buffer_limit),
            clients_bytes_max: bytes(clients_bytes_max),
            idle_timeout: Duration::from_secs(self.timeout),
            login_timeout: Duration::from_secs(self.login_timeout),
            tcp_keepalive: Duration::from_secs(self.tcp_keepalive),
            ..ServerOptions::default()
        }
    }

    /// The settings as keys and values of a configuration file.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![
            ("maxclients", self.maxclients.to_string()),
            ("tcp-backlog", self.tcp_backlog.to_string()),
            ("timeout", self.timeout.to_string()),
            ("login-timeout", self.login_timeout.to_string()),
            ("tcp-keepalive", self.tcp_keepalive.to_string()),
            ("protected-mode", YesNo(self.protected_mode).to_string()),
            ("enable-debug-command", YesNo(self.enable_debug_command).to_string()),
            ("proto-max-bulk-len", self.proto_max_bulk_len.to_string()),
            ("max-item-size", self.max_item_size.to_string()),
            ("client-query-buffer-limit", self.client_query_buffer_limit.to_string()),
            ("tls-auth-clients", self.tls_auth_clients.to_string()),
        ];
        let files = [
            ("aclfile", &self.aclfile),
            ("tls-cert-file", &self.tls_cert_file),
            ("tls-key-file", &self.tls_key_file),
            ("tls-ca-cert-file", &self.tls_ca_cert_file),
            ("aclfile", &self.aclfile),
            ("memcached-auth-file", &self.memcached_auth_file),
        ];
        lines.extend(
            files.into_iter().filter_map(|(key, file)| Some((key, file.as_ref()?.display().to_string()))),
        );
        if !self.parameters.iter().any(|(name, _)| *name == OUTPUT_LIMIT) {
            lines.push((OUTPUT_LIMIT, self.client_output_buffer_limit.to_string()));
        }
        lines.extend(self.parameters.iter().cloned());
        let password = Some(&self.requirepass.0).filter(|password| !password.is_empty());
        lines.extend(password.map(|password| ("requirepass", password.clone())));
        lines.extend(self.tls_port.map(|port| ("tls-port", port.to_string())));
        lines.extend(self.maxmemory_clients.map(|size| ("maxmemory-clients", super::shown::size(&size))));
        lines
    }
}

/// What the buffers of all clients may hold in memory where nobody says: a quarter of a small budget of DRAM, and a small part of a
/// large one. (Long ones lie in files.)
fn clients_bytes_default(dram: u64) -> u64 {
    (dram / 20).max((dram / 4).clamp(8 << 20, 1 << 30))
}

#[cfg(test)]
mod tests {
    use super::super::args::ServeArgs;
    use super::super::settings::{Settings, gather_text};
    use super::*;

    fn gathered(text: &str) -> anyhow::Result<Settings> {
        gather_text(ServeArgs::default(), &|_| None, Some(text))
    }

    #[test]
    fn settings_reach_the_server() {
        let text = "redis = \"127.0.0.1:1,unix:/s\"\ntls-port = 2\ntls-cert-file = \"c\"\ntls-key-file = \"k\"\n\
                    tls-auth-clients = \"no\"\ntimeout = 7\nmaxclients = 9\nprotected-mode = \"no\"\n\
                    requirepass = \"secret\"\n\
                    maxmemory-clients = \"10%\"\nmax-item-size = \"1MiB\"\nproto-max-bulk-len = \"2MiB\"";
        let settings = gathered(text).unwrap();
        let redis: Vec<String> =
            settings.network.redis(&settings.redis).iter().map(ToString::to_string).collect();
        assert_eq!(redis, ["127.0.0.1:1", "unix:/s", "tls:127.0.0.1:2"]);
        let options = settings.network.options(1000);
        assert_eq!((options.idle_timeout.as_secs(), options.max_connections), (7, 9));
        assert_eq!((options.clients_bytes_max, options.protected_mode), (100, false));
        assert_eq!((options.memcached_value_bytes_max, options.argument_bytes_max), (1 << 20, 2 << 20));
        assert_eq!((options.requirepass.as_str(), options.acl_file), ("secret", None));
        let watched =
            gathered("slowlog-max-len = 7\nclient-output-buffer-limit = \"pubsub 1mb 0 0\"").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [pair("slowlog-max-len", "7"), pair("client-output-buffer-limit", "pubsub 1mb 0 0")];
        assert_eq!(watched.network.options(1000).parameters, expected);
        let with_users = gathered("aclfile = \"/acl\"").unwrap().network.options(1000);
        assert_eq!((with_users.requirepass.as_str(), with_users.acl_file), ("", Some("/acl".into())));
        assert!(!format!("{settings:?}").contains("secret"), "logs don't show it");
        let tls = options.tls.unwrap();
        assert_eq!((tls.key_file, tls.client_auth), (Some("k".into()), ClientAuth::No));
    }

    #[test]
    fn what_buffers_may_hold_follows_the_budget() {
        assert_eq!(clients_bytes_default(16 << 20), 8 << 20);
        assert_eq!(clients_bytes_default(64 << 20), 16 << 20);
        assert_eq!(clients_bytes_default(1 << 30), 256 << 20);
        assert_eq!(clients_bytes_default(100 << 30), 5 << 30);
    }

    #[test]
    fn mistakes_say_what_was_expected() {
        for (text, words) in [
            ("timeout = \"soon\"", "expected a whole number of seconds"),
            ("maxclients = 0", "at least 1"),
            ("maxclients = -1", "expected a whole number"),
            ("protected-mode = \"on\"", "expected yes or no"),
            ("max-item-size = \"2GiB\"", "--max-item-size must be 1024 to 1073741824"),
            ("max-item-size = \"2%\"", "not a percentage"),
            ("slowlog-max-len = -1", "--slowlog-max-len \"-1\": argument must be between 0"),
            ("slowlog-log-slower-than = \"soon\"", "integer"),
            ("notify-keyspace-events = \"KQ\"", "Use 'Ag$lshzxeKEtmdn'"),
            ("latency-tracking = \"on\"", "'yes' or 'no'"),
            ("client-output-buffer-limit = \"normal 1\"", "expected a size such as 64MiB"),
            ("tls-port = 7", "add --tls-cert-file"),
            ("tls-port = 70000", "0 to 65535"),
            ("tls-cert-file = \"a\"", "add --tls-auth-clients no"),
            ("tls-auth-clients = \"maybe\"", "expected yes, no or optional"),
            ("redis = \"tls:127.0.0.1:1\"", "add --tls-cert-file"),
        ] {
            let error = gathered(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
