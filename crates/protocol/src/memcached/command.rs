//! What a client asked for.

use super::meta::{Key, Meta, SetMode};
use super::words::Words;

/// A whole, well-formed request. Keys have 1 to [`KEY_BYTES_MAX`](super::KEY_BYTES_MAX) bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `get` and `gets`.
    Get {
        /// The keys, at least one.
        keys: Words<'a>,
        /// Answer with the cas token (`gets`).
        cas: bool,
    },
    /// `gat` and `gats`: get and touch.
    GetAndTouch {
        /// The new exptime; see [`expire_at_ms`](super::expire_at_ms).
        exptime: i64,
        /// The keys, at least one.
        keys: Words<'a>,
        /// Answer with the cas token (`gats`).
        cas: bool,
    },
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`, with its data block.
    Store(Store<'a>),
    /// `incr` and `decr`.
    Arithmetic {
        /// The key.
        key: &'a [u8],
        /// How much.
        delta: u64,
        /// `decr`.
        down: bool,
        /// Answer nothing.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// The key.
        key: &'a [u8],
        /// The new exptime; see [`expire_at_ms`](super::expire_at_ms).
        exptime: i64,
        /// Answer nothing.
        noreply: bool,
    },
    /// `delete`.
    Delete {
        /// The key.
        key: &'a [u8],
        /// Answer nothing.
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// When, in the terms of an exptime; 0 or less is now.
        delay: i64,
        /// Answer nothing.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `stats` with what follows it.
    Stats {
        /// The arguments.
        args: Words<'a>,
    },
    /// `mg`.
    MetaGet(Meta<'a>),
    /// `ms`, with its data block.
    MetaSet {
        /// Key and flags.
        meta: Meta<'a>,
        /// What it does.
        mode: SetMode,
        /// The data block without its line end.
        value: &'a [u8],
    },
    /// `md`.
    MetaDelete(Meta<'a>),
    /// `ma`.
    MetaNumber {
        /// Key and flags.
        meta: Meta<'a>,
        /// Subtract.
        down: bool,
    },
    /// `me`.
    MetaDebug {
        /// The key.
        key: Key<'a>,
    },
    /// A command that changes nothing here, and its answer.
    Answered {
        /// The whole answer.
        reply: &'static [u8],
        /// Answer nothing.
        noreply: bool,
    },
    /// `lru_crawler`.
    LruCrawler(Crawl<'a>),
    /// `watch` with the events; `None` if it names what is none.
    Watch(Option<Watch>),
    /// `shutdown`.
    Shutdown(Shutdown),
    /// `refresh_certs`.
    RefreshCerts {
        /// Answer nothing.
        noreply: bool,
    },
    /// `verbosity` with a valid level.
    Verbosity {
        /// It.
        level: u64,
        /// Answer nothing.
        noreply: bool,
    },
    /// `cache_memlimit`.
    CacheMemlimit {
        /// DRAM, in MiB.
        megabytes: u64,
        /// Answer nothing.
        noreply: bool,
    },
    /// `quit`: send what is due, then close.
    Quit,
}

/// A storage command with its data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// Which one.
    pub verb: StoreVerb,
    /// The key.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// The exptime; see [`expire_at_ms`](super::expire_at_ms).
    pub exptime: i64,
    /// The data block without its line end.
    pub value: &'a [u8],
    /// Answer nothing.
    pub noreply: bool,
}

/// The storage commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerb {
    /// Store.
    Set,
    /// Store if absent.
    Add,
    /// Store if present.
    Replace,
    /// Put behind the value; flags and exptime are ignored.
    Append,
    /// Put before the value; flags and exptime are ignored.
    Prepend,
    /// Store if the record still has this cas token.
    Cas(u64),
}

/// What the crawler is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crawl<'a> {
    /// `enable`.
    Enable,
    /// `disable`.
    Disable,
    /// `crawl`, with the classes; see [`Classes`](super::Classes).
    Crawl(&'a [u8]),
    /// `metadump`, with the classes.
    Metadump(&'a [u8]),
    /// `mgdump`, with the classes.
    Mgdump(&'a [u8]),
}

/// How to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// At once.
    Now,
    /// Keep the data.
    Graceful,
    /// The client said something else.
    Unknown,
}

/// What a watcher wants to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Reads.
    pub fetchers: bool,
    /// Writes.
    pub mutations: bool,
    /// Evictions.
    pub evictions: bool,
    /// Connections that come and go.
    pub connections: bool,
    /// Deletes that found something.
    pub deletions: bool,
    /// Others, of which there never are any.
    pub others: bool,
}
