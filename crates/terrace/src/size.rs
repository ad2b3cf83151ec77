//! Sizes as people write them: `512MiB`, `1.5GiB`, `100mb`, `25%`, `8GiB@/mnt/pmem0`.
//!
//! Units are those of redis.conf, in any case, and those that say what they mean: a configuration that comes from Redis, an option
//! and `CONFIG SET` mean the same bytes by the same text.

use std::path::PathBuf;
use std::str::FromStr;

/// An absolute or relative size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// A percentage of something that the caller knows.
    Percent(f64),
}

/// A tier's size and, after an `@`, its place.
#[derive(Clone, Debug, PartialEq)]
pub struct TierSpec {
    /// How big.
    pub size: Size,
    /// Where; the default depends on the tier.
    pub place: Option<Place>,
}

/// Where a tier is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file, directory or device.
    Path(PathBuf),
    /// A NUMA node.
    Node(u32),
}

/// As in redis.conf, `kb` is 1024 bytes and `k` is 1000. Longer names come before those that they end in.
const UNITS: [(&str, u64); 13] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1 << 10),
    ("mb", 1 << 20),
    ("gb", 1 << 30),
    ("tb", 1 << 40),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("b", 1),
];

/// Memory that this process may use: what a percentage of `--dram` is of.
pub fn usable_memory_bytes() -> u64 {
    terrace_media::Machine::detect().usable_bytes()
}

impl FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?}: expected a size such as 512MiB, 8GiB, 1.5GiB or 25%");
        let number = |digits: &str| digits.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        if let Some(percent) = text.strip_suffix('%') {
            return number(percent).map(Self::Percent).ok_or_else(expected);
        }
        let lower = text.to_ascii_lowercase();
        for (unit, factor) in UNITS {
            if let Some(digits) = lower.strip_suffix(unit) {
                let bytes = number(digits).ok_or_else(expected)? * factor as f64;
                return if bytes < u64::MAX as f64 { Ok(Self::Bytes(bytes as u64)) } else { Err(expected()) };
            }
        }
        text.parse::<u64>().map(Self::Bytes).map_err(|_| expected())
    }
}

impl FromStr for TierSpec {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (size, place) = match text.split_once('@') {
            None => (text, None),
            Some((size, place)) => (size, Some(place)),
        };
        let place = match place {
            None => None,
            Some("") => return Err(format!("{text:?}: expected a path or node:N after the @")),
            Some(place) => Some(match place.strip_prefix("node:") {
                Some(node) => {
                    Place::Node(node.parse().map_err(|_| format!("{text:?}: expected a number after node:"))?)
                }
                None => Place::Path(place.into()),
            }),
        };
        Ok(Self { size: size.parse()?, place })
    }
}

/// A size for people, in binary units.
pub fn human_bytes(bytes: u64) -> String {
    const NAMES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < NAMES.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value.fract() == 0.0 {
        format!("{value:.0} {}", NAMES[unit])
    } else {
        format!("{value:.1} {}", NAMES[unit])
    }
}
