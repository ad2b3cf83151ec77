//! Options of `terrace serve`, as flags.

use std::path::PathBuf;

use clap::Args;
use terrace::engine::Durability;
use terrace::{Eviction, Granularity, Placement, ReadCache, Size, Swap, TierSpec, WhenFull};

use super::listen::{Listen, Listeners};
use super::network::NetworkArgs;
use super::numa::NumaNodes;
use super::settings::{Engine, Index};

/// Options of `terrace serve`. All are optional: what no flag gives, the environment, the file or a default does.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Each option can also be set in the environment (--dram-records as TERRACE_DRAM_RECORDS) and in the TOML file that \
--config or TERRACE_CONFIG names (dram-records = \"1GiB\"). A flag comes before the environment, the environment before \
the file. Percentages are of the memory that may be used (--dram, --dram-records) or of the free space at the tier's place.

Examples:
  terrace serve
  terrace serve --dir /srv/terrace --dram 8GiB --ssd 200GiB --durability sync
  terrace serve --pmem 64GiB@/mnt/pmem0 --redis 10.0.0.5:6379,unix:770:/run/terrace.sock --memcached off
  terrace serve --redis tls:0.0.0.0:6379 --tls-cert-file a.pem --tls-key-file a.key --tls-ca-cert-file ca.pem
  terrace serve --engine bonsai --pmem 64GiB@/dev/dax0.0,64GiB@/dev/dax1.0      striped over both, or a half on each NUMA node
  terrace serve --pmem 1GiB --profile optane-200         on an emulated device, for trying out
  terrace serve --engine dram --when-full evict --dram 2GiB
  terrace serve /etc/redis/redis.conf --ssd 200GiB       as redis-server with this file, and more room
  TERRACE_THREADS=4 terrace serve --config terrace.toml")]
pub struct ServeArgs {
    /// Where the store lies; created if there is none [default: ./terrace-data]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Where to speak Redis's protocol: ADDR:PORT, tls:ADDR:PORT, unix:PATH or unix:MODE:PATH, several with commas; or off [default: 127.0.0.1:6379]
    #[arg(long, value_name = "ADDR:PORT,…")]
    pub redis: Option<Listeners>,
    /// Where to speak memcached's text protocol, likewise [default: 127.0.0.1:11211]
    #[arg(long, value_name = "ADDR:PORT,…")]
    pub memcached: Option<Listeners>,
    /// Where to answer /metrics and /health, or off [default: off]
    #[arg(long, value_name = "ADDR:PORT")]
    pub admin: Option<Listen>,
    /// Worker threads, each with an event loop and a session [default: the processors]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Threads that move records between tiers; with engine tac each makes room in a share of DRAM [default: one for four workers, at most 8]
    #[arg(long, value_name = "N")]
    pub background_threads: Option<usize>,
    /// The engine: tac, hetermm, heap-hybrid, heap-persistent, scmkv, bonsai or dram [default: the store's; of a new one tac]
    #[arg(long, value_name = "E")]
    pub engine: Option<Engine>,
    /// The index [default: clht]
    #[arg(long, value_name = "I")]
    pub index: Option<Index>,
    /// Of --engine tac with --pmem and --ssd, which tier records lie in: tac, or, to compare it with, anti-2, anti-nvm or anti-tuple [default: tac]
    #[arg(long, value_name = "P")]
    pub placement: Option<Placement>,
    /// Of --engine tac, which record leaves DRAM next: clock, or, to compare it with, lazy-lru, lazy-lru-paper, lru, alru, sampled-lru, s3-fifo or sieve; and which may enter, as in lru/hot: all, hot (above a threshold) or beats (read half as often again as the next one to leave) [default: clock/beats]
    #[arg(long, value_name = "P[/GATE]")]
    pub policy: Option<Eviction>,
    /// Of --engine tac with --ssd, what a read of the SSD brings up: tuple (the record that was asked for), or, to compare it with, buf (what is worth it of the 16 KiB around it) [default: tuple]
    #[arg(long, value_name = "S")]
    pub swap: Option<Swap>,
    /// Of --engine hetermm, which records that are read below DRAM are copied to it: gated (all until DRAM is full, then those missed twice of late), sampled:N (one of N reads) or off [default: gated with --ssd, off with --pmem]
    #[arg(long, value_name = "HOW")]
    pub read_cache: Option<ReadCache>,
    /// Of --engine heap-hybrid, how long the chunks of a new store are: slab (one of some lengths, those of a page of the same) or object (as long as the record needs) [default: slab]
    #[arg(long, value_name = "HOW")]
    pub heap: Option<Granularity>,
    /// Bound on the process's memory, index and buffers counted [default: half of the memory that may be used]
    #[arg(long, value_name = "SIZE")]
    pub dram: Option<Size>,
    /// Bound on the records in DRAM alone, instead of --dram
    #[arg(long, value_name = "SIZE")]
    pub dram_records: Option<Size>,
    /// Byte-addressable lower tier: DAX, device DAX, a NUMA or CXL node; of a store that is there CONFIG SET pmem-size changes it, if it is a file, engines scmkv and bonsai grow when started with more, and hetermm keeps it. Several of one size, with commas, are striped
    #[arg(long, value_name = "SIZE[@PATH|@node:N],…")]
    pub pmem: Option<TierSpec>,
    /// Block lower tier; of a store of engine tac that is there CONFIG SET ssd-size changes it [default, without --pmem: 75% of the free space at --dir, at most 16 times --dram]
    #[arg(long, value_name = "SIZE[@PATH]")]
    pub ssd: Option<TierSpec>,
    /// Emulate this device at --pmem
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// NUMA nodes that the places of --pmem of a new store of --engine bonsai are on, as many on each, those of the first node first: each node then reads hot entries from copies at home. A number, or auto [default: auto, as the machine says]
    #[arg(long, value_name = "N")]
    pub nodes: Option<NumaNodes>,
    /// How many records a new store of --engine scmkv is made for: its hash table keeps its size [default: as many as short ones fit --pmem]
    #[arg(long, value_name = "N")]
    pub expected_records: Option<u64>,
    /// When writes are answered: none, batch:MS or sync [default: batch:100; none for --engine dram]
    #[arg(long, value_name = "MODE")]
    pub durability: Option<Durability>,
    /// What to do when every tier is full: refuse or evict [default: refuse]
    #[arg(long, value_name = "HOW")]
    pub when_full: Option<WhenFull>,
    /// Clients.
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Read options from this TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A redis.conf, whose lines stand for options; what each becomes is told
    #[arg(value_name = "REDIS.CONF")]
    pub redis_conf: Option<PathBuf>,
}
