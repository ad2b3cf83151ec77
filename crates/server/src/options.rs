//! How a server is started.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::memcached::{MemcachedProtocols, MemcachedUsers};
use crate::stop::OnStop;
use crate::tls::TlsOptions;

/// Unsent bytes that a connection may have for a while (the soft part of Redis's `client-output-buffer-limit`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftLimit {
    /// More than so many; 0: any number.
    pub bytes: usize,
    /// For so long.
    pub time: Duration,
}

/// What to listen on, and the bounds on what clients may take.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to speak Redis's protocol.
    pub redis: Vec<Endpoint>,
    /// Where to speak memcached's text protocol.
    pub memcached: Vec<Endpoint>,
    /// Where to answer `GET /metrics` and `GET /health`; port 0 takes a free one.
    pub admin: Option<SocketAddr>,
    /// Connections that may wait to be accepted, for each listener (Redis's `tcp-backlog`). The kernel has a bound of its own.
    pub backlog: u32,
    /// Certificates, for [`Endpoint::Tls`].
    pub tls: Option<TlsOptions>,
    /// Where no password is needed, only clients of this machine are let in.
    pub protected_mode: bool,
    /// Worker threads, each with an event loop and a session of its own; 0 counts as 1.
    pub threads: usize,
    /// Connections at a time, both protocols together; more are told so and closed.
    pub max_connections: usize,
    /// Longest argument of a Redis command, in bytes (Redis's `proto-max-bulk-len`).
    pub argument_bytes_max: usize,
    /// Longest value of a memcached command, in bytes (memcached's `-I`). Longer ones are refused and not kept.
    pub memcached_value_bytes_max: usize,
    /// Whether that is the longest item, key and head counted as memcached counts them.
    pub memcached_counts_items: bool,
    /// Who may use memcached's protocol; with `None` everybody may (memcached's `-Y`).
    pub memcached_users: Option<MemcachedUsers>,
    /// Which of memcached's protocols are spoken (memcached's `-B`).
    pub memcached_protocols: MemcachedProtocols,
    /// What `stats settings` tells as memcached's `memory_file`.
    pub memcached_memory_file: Option<PathBuf>,
    /// Whether memcached's clients may forget everything (not so with memcached's `-F`).
    pub memcached_flush: bool,
    /// Whether memcached's clients may list keys (not so with memcached's `-X`).
    pub memcached_dump: bool,
    /// Whether memcached's clients may watch others (not so with memcached's `-W`).
    pub memcached_watch: bool,
    /// What ends the prefix of a key (memcached's `-D`).
    pub memcached_prefix_delimiter: u8,
    /// Whether operations are counted by prefix from the start, as memcached's `-D` has it.
    pub memcached_detail: bool,
    /// Whether memcached's clients may shut the server down (memcached's `-A`); [`on_stop`](Self::on_stop) then must do it.
    pub shutdown_command: bool,
    /// What a client's command to shut down calls.
    pub on_stop: Option<OnStop>,
    /// Most bytes of one unfinished command that are kept for a connection; more closes it (Redis's
    /// `client-query-buffer-limit`). At most 1 GiB is useful: a batch holds 4 GiB.
    pub command_bytes_max: usize,
    /// A connection with more unsent bytes than this is not read.
    pub output_bytes_pause: usize,
    /// A connection with more unsent bytes than this is closed; 0: never.
    pub output_bytes_max: usize,
    /// The same for one that subscribes to channels, whose messages come whether it reads or not.
    pub subscriber_output_bytes_max: usize,
    /// A connection that has had more unsent bytes for too long is closed.
    pub output_soft_max: SoftLimit,
    /// The same for one that subscribes to channels.
    pub subscriber_output_soft_max: SoftLimit,
    /// Bytes in the buffers of all connections, and in what is kept for them (queued commands, watched keys, subscriptions): above
    /// it those that hold most are closed. 0: never.
    pub clients_bytes_max: usize,
    /// A connection is closed when it has sent nothing for so long; zero: never.
    pub idle_timeout: Duration,
    /// A connection that must log in is closed when it has not done so for so long; zero: never.
    pub login_timeout: Duration,
    /// A TLS handshake may take so long; zero: for ever.
    pub handshake_timeout: Duration,
    /// After so long a silence the kernel asks whether the peer is still there; zero: never.
    pub tcp_keepalive: Duration,
    /// Operations in one turn's batch, after which the next connection waits for the next turn.
    pub turn_operations: usize,
    /// Of them, those of one connection (memcached's `-R`).
    pub connection_operations: usize,
    /// Bytes of keys and values in one turn's batch, likewise.
    pub turn_bytes: usize,
    /// Bytes of answers in one turn's batch: what is beyond is executed in turns of its own, once these are sent.
    pub turn_answer_bytes: usize,
    /// Most bytes of values that one transaction of Redis's protocol may read, and answer with: it is one step, and so it is
    /// held as a whole. Beyond it is refused, and nothing of it is done.
    pub transaction_bytes_max: usize,
    /// Batches that a worker keeps in flight while devices and commits are slow.
    pub batches_in_flight: usize,
    /// How long a shutdown waits for what was received to be answered and sent.
    pub drain: Duration,
    /// The password that Redis's clients must give; empty for none (Redis's `requirepass`).
    pub requirepass: String,
    /// The file that keeps the users of Redis's protocol (Redis's `aclfile`); without one they live as long as the server.
    pub acl_file: Option<PathBuf>,
    /// Whether Redis's `DEBUG` is allowed (Redis's `enable-debug-command`): for tests.
    pub debug_commands: bool,
    /// Values of parameters of `CONFIG SET`, which hold from the start; [`check_parameter`](crate::check_parameter) checks one.
    pub parameters: Vec<(String, String)>,
    /// The file that `CONFIG REWRITE` writes changes into.
    pub config_file: Option<PathBuf>,
    /// Users in the words of an ACL file, `user NAME RULE ...` each; only without such a file.
    pub users: Vec<String>,
    /// Budget of DRAM in bytes, as `INFO` and `CONFIG GET maxmemory` tell it; 0 for none.
    pub dram_budget_bytes: u64,
    /// Gives memory that the allocator keeps back to the system: what `MEMORY PURGE` calls.
    pub give_back: Option<fn()>,
    /// Whether a full store evicts: told as `maxmemory-policy`.
    pub evicts: bool,
    /// What an operator does for more room, where the options of `terrace serve` are not those of this server.
    pub more_room: Option<MoreRoomBy>,
    /// Where the store lies, told as `CONFIG GET dir`, and snapshots are written; empty if nowhere.
    pub dir: String,
    /// The name of the file that `SAVE` and `BGSAVE` write there (Redis's `dbfilename`).
    pub dbfilename: String,
    /// The durability mode in words, told by `INFO`.
    pub durability: String,
    /// What the store found when it opened, a line each, told by `INFO`.
    pub description: Vec<String>,
}

/// What an operator does for more room.
#[derive(Clone, Debug)]
pub struct MoreRoomBy {
    /// Of DRAM.
    pub dram: String,
    /// Of the tier below it.
    pub below: String,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            redis: Vec::new(),
            memcached: Vec::new(),
            admin: None,
            backlog: 1024,
            tls: None,
            protected_mode: true,
            threads: 1,
            max_connections: 10_000,
            argument_bytes_max: 512 << 20,
            memcached_value_bytes_max: 64 << 20,
            memcached_counts_items: false,
            memcached_users: None,
            memcached_protocols: MemcachedProtocols::Both,
            memcached_memory_file: None,
            memcached_flush: true,
            memcached_dump: true,
            memcached_watch: true,
            memcached_prefix_delimiter: b':',
            memcached_detail: false,
            shutdown_command: false,
            on_stop: None,
            command_bytes_max: 1 << 30,
            output_bytes_pause: 256 << 10,
            output_bytes_max: 1 << 30,
            subscriber_output_bytes_max: 32 << 20,
            output_soft_max: SoftLimit::default(),
            subscriber_output_soft_max: SoftLimit { bytes: 8 << 20, time: Duration::from_secs(60) },
            clients_bytes_max: 1 << 30,
            idle_timeout: Duration::ZERO,
            login_timeout: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
            tcp_keepalive: Duration::from_secs(300),
            turn_operations: 4096,
            connection_operations: 4096,
            turn_bytes: 8 << 20,
            turn_answer_bytes: 4 << 20,
            transaction_bytes_max: 256 << 20,
            batches_in_flight: 16,
            drain: Duration::from_secs(5),
            requirepass: String::new(),
            acl_file: None,
            debug_commands: false,
            parameters: Vec::new(),
            config_file: None,
            users: Vec::new(),
            dram_budget_bytes: 0,
            give_back: None,
            evicts: false,
            more_room: None,
            dir: String::new(),
            dbfilename: "dump.rdb".into(),
            durability: String::new(),
            description: Vec::new(),
        }
    }
}
