//! Commands that steer memcached's insides. Most of those insides are not there: such a command is checked as memcached
//! checks it, and answered.

use super::command::{Command, Crawl, Shutdown, Watch};
use super::line::Line;
use super::number::{digits32, signed_digits, unsigned};
use super::reply::{
    BAD_CLASS, BAD_LINE, BAD_WINDOW, ERROR, FACTORS_NOT_POSITIVE, LONG_SLEEP, OK, PERCENTS_TOO_HIGH,
    SAME_CLASS,
};
use super::words::{Args, Words};

/// memcached's slab classes are below this.
const CLASSES_END: u64 = 64;

/// The longest sleep of the crawler, in microseconds.
const SLEEP_MAX: u32 = 1_000_000;

/// The most that the hot and the warm part may take together.
const PERCENT_MAX: u32 = 80;

/// An error, which `noreply` silences.
fn silent_or<'a>(reply: &'static [u8], args: &Args<'a>) -> Line<'a> {
    Line::Refused { reply, noreply: args.noreply(), skip: 0 }
}

fn answered<'a>(reply: &'static [u8], noreply: bool) -> Line<'a> {
    Line::Command(Command::Answered { reply, noreply })
}

/// `lru_crawler`.
pub(super) fn lru_crawler(args: Args<'_>) -> Line<'_> {
    let crawl = |crawl| Line::Command(Command::LruCrawler(crawl));
    match (args.get(0), args.count()) {
        (b"enable", 1) => crawl(Crawl::Enable),
        (b"disable", 1) => crawl(Crawl::Disable),
        (b"crawl", 2) => crawl(Crawl::Crawl(args.get(1))),
        (b"metadump", 2) => crawl(Crawl::Metadump(args.get(1))),
        (b"mgdump", 2) => crawl(Crawl::Mgdump(args.get(1))),
        (b"tocrawl", 2) => {
            answered(if digits32(args.get(1)).is_some() { OK } else { BAD_LINE }, args.noreply())
        }
        (b"sleep", 2) => {
            let reply = match digits32(args.get(1)) {
                Some(0..=SLEEP_MAX) => OK,
                Some(_) => LONG_SLEEP,
                None => BAD_LINE,
            };
            answered(reply, args.noreply())
        }
        _ => silent_or(ERROR, &args),
    }
}

/// Which slab classes a crawl is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes {
    /// All.
    All,
    /// The whole hash table.
    Hash,
    /// A list; whether class 1 is in it.
    Listed {
        /// It is.
        first: bool,
    },
    /// An empty list.
    Nothing,
    /// One of the list is no class.
    Wrong,
}

impl Classes {
    /// Reads `all`, `hash` or numbers with commas between them.
    pub fn named(name: &[u8]) -> Self {
        match name {
            b"all" => return Self::All,
            b"hash" => return Self::Hash,
            _ => {}
        }
        let mut listed = Self::Nothing;
        for number in name.split(|&byte| byte == b',').filter(|number| !number.is_empty()) {
            let Some(class) = unsigned(number).filter(|class| (1..CLASSES_END).contains(class)) else {
                return Self::Wrong;
            };
            listed = Self::Listed { first: class == 1 || listed == Self::Listed { first: true } };
        }
        listed
    }
}

/// `lru tune`, `lru mode`, `lru temp_ttl`: there are no such lists here.
pub(super) fn lru(args: Args<'_>) -> Line<'_> {
    let reply = match (args.get(0), args.count()) {
        (b"tune", 5..) => lru_tune(&args),
        (b"mode", 2..) if matches!(args.get(1), b"flat" | b"segmented") => OK,
        (b"temp_ttl", 2..) if signed_digits(args.get(1)).is_some() => OK,
        _ => ERROR,
    };
    answered(reply, args.noreply())
}

fn lru_tune(args: &Args<'_>) -> &'static [u8] {
    let percents = digits32(args.get(1)).zip(digits32(args.get(2)));
    let Some(((hot, warm), factors)) = percents.zip(float(args.get(3)).zip(float(args.get(4)))) else {
        return ERROR;
    };
    if hot.saturating_add(warm) > PERCENT_MAX {
        PERCENTS_TOO_HIGH
    } else if factors.0 <= 0.0 || factors.1 <= 0.0 {
        FACTORS_NOT_POSITIVE
    } else {
        OK
    }
}

/// The shortest and the longest window of `slabs automove window`.
const WINDOW_MIN: u32 = 3;
const WINDOW_MAX: u32 = 1800;

fn float(token: &[u8]) -> Option<f64> {
    std::str::from_utf8(token).ok()?.parse().ok()
}

/// `slabs reassign` and `slabs automove`: there are no slab classes to move pages between.
pub(super) fn slabs(args: Args<'_>) -> Line<'_> {
    match (args.get(0), args.count()) {
        (b"reassign", 3) => silent_or(
            match signed_digits(args.get(1)).zip(signed_digits(args.get(2))) {
                None => BAD_LINE,
                Some((from, to)) if from == to => SAME_CLASS,
                Some(_) => BAD_CLASS,
            },
            &args,
        ),
        (b"automove", 2..) => answered(automove(&args), args.noreply()),
        _ => silent_or(ERROR, &args),
    }
}

fn automove(args: &Args<'_>) -> &'static [u8] {
    let third = (args.count() >= 3).then(|| args.get(2));
    match args.get(1) {
        b"ratio" | b"freeratio" => {
            if third.and_then(float).is_some() {
                OK
            } else {
                ERROR
            }
        }
        b"window" => match third.and_then(digits32) {
            None => BAD_LINE,
            Some(WINDOW_MIN..=WINDOW_MAX) => OK,
            Some(_) => BAD_WINDOW,
        },
        level => match digits32(level) {
            None => BAD_LINE,
            Some(0..=2) => OK,
            Some(_) => ERROR,
        },
    }
}

/// `extstore`: the lower tiers are not tuned so.
pub(super) fn extstore(args: Args<'_>) -> Line<'_> {
    let number = |i| digits32(args.get(i)).is_some();
    let valid = match (args.get(0), args.count()) {
        (b"free_memchunks", 3..) => {
            digits32(args.get(1)).is_some_and(|class| u64::from(class) < CLASSES_END) && number(2)
        }
        (b"max_frag", 2..) => float(args.get(1)).is_some(),
        (
            b"item_size" | b"item_age" | b"low_ttl" | b"recache_rate" | b"compact_under" | b"drop_under"
            | b"max_sleep" | b"drop_unread",
            2..,
        ) => number(1),
        _ => false,
    };
    answered(if valid { OK } else { ERROR }, args.noreply())
}

/// `shutdown [graceful]`.
pub(super) fn shutdown(args: &Args<'_>) -> Shutdown {
    match (args.get(0), args.count()) {
        (_, 0) => Shutdown::Now,
        (b"graceful", 1) => Shutdown::Graceful,
        _ => Shutdown::Unknown,
    }
}

/// `watch EVENTS*`; `None` if it names what is none.
pub(super) fn watch(words: Words<'_>) -> Option<Watch> {
    let mut watch = Watch::default();
    for word in words {
        match word {
            b"fetchers" => watch.fetchers = true,
            b"mutations" => watch.mutations = true,
            b"evictions" => watch.evictions = true,
            b"connevents" => watch.connections = true,
            b"deletions" => watch.deletions = true,
            b"rawcmds" | b"sysevents" | b"proxyreqs" | b"proxyevents" | b"proxyuser" => watch.others = true,
            _ => return None,
        }
    }
    Some(if watch == Watch::default() { Watch { fetchers: true, ..watch } } else { watch })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        for (name, expect) in [
            ("all", Classes::All),
            ("hash", Classes::Hash),
            ("1", Classes::Listed { first: true }),
            ("2,63", Classes::Listed { first: false }),
            ("2,1,", Classes::Listed { first: true }),
            ("1,2", Classes::Listed { first: true }),
            (",", Classes::Nothing),
            ("0", Classes::Wrong),
            ("64", Classes::Wrong),
            ("1,x", Classes::Wrong),
        ] {
            assert_eq!(Classes::named(name.as_bytes()), expect, "{name}");
        }
    }

    #[test]
    fn watchers() {
        assert_eq!(watch(Words::new(b"")), Some(Watch { fetchers: true, ..Watch::default() }));
        assert_eq!(
            watch(Words::new(b"mutations rawcmds")),
            Some(Watch { mutations: true, others: true, ..Watch::default() })
        );
        assert_eq!(watch(Words::new(b"fetchers nonsense")), None);
    }
}
