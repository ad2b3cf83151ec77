//! Sizes as people write them: `512MiB`, `1.5GiB`, `100mb`, `25%`, `8GiB@/mnt/pmem0`, `8GiB@/mnt/pmem0,8GiB@/mnt/pmem1`.
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

/// A tier's size and, after an `@`, its place; or several of these with commas between them.
#[derive(Clone, Debug, PartialEq)]
pub struct TierSpec {
    /// How big; of several places, each.
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
    /// Files, directories or devices, over which memory is striped: each has the same share.
    Striped(Vec<PathBuf>),
}

impl Place {
    /// The files, directories or devices that it consists of.
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Self::Path(path) => std::slice::from_ref(path),
            Self::Node(_) => &[],
            Self::Striped(paths) => paths,
        }
    }

    /// How many devices it has.
    pub fn devices(&self) -> usize {
        if let Self::Striped(paths) = self { paths.len() } else { 1 }
    }
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

/// Several places apart: a comma ends one where a size and its `@` follow, or a path from the root. Another comma is the path's.
fn places(text: &str) -> impl Iterator<Item = &str> {
    let begins_a_place = |rest: &str| {
        let size = rest.split(',').next().and_then(|part| part.split_once('@'));
        rest.starts_with('/') || size.is_some_and(|(size, _)| size.parse::<Size>().is_ok())
    };
    let ends = text.match_indices(',').map(|(at, _)| at).filter(move |at| begins_a_place(&text[at + 1..]));
    let mut from = 0;
    ends.chain([text.len()]).map(move |end| &text[std::mem::replace(&mut from, end + 1)..end])
}

impl FromStr for TierSpec {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = places(text);
        let mut spec = one_place(parts.next().unwrap_or_default())?;
        let mut paths = spec.place.as_ref().map(|place| place.paths().to_vec()).unwrap_or_default();
        for part in parts {
            let path = if part.starts_with('/') {
                part.into()
            } else {
                let other = one_place(part)?;
                if other.size != spec.size {
                    return Err(format!(
                        "{text:?}: memory is striped over places of one size: give all the same, or the first one's alone, as in \
                         8GiB@/mnt/pmem0,/mnt/pmem1"
                    ));
                }
                match other.place {
                    Some(Place::Path(path)) => path,
                    _ => return Err(several_nodes(text)),
                }
            };
            if paths.is_empty() {
                return Err(several_nodes(text));
            }
            paths.push(path);
        }
        if paths.len() > 1 {
            spec.place = Some(Place::Striped(paths));
        }
        Ok(spec)
    }
}

fn several_nodes(text: &str) -> String {
    format!("{text:?}: each of several places needs a path, as in 8GiB@/mnt/pmem0,8GiB@/mnt/pmem1")
}

/// A size and its place.
fn one_place(text: &str) -> Result<TierSpec, String> {
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
    Ok(TierSpec { size: size.parse()?, place })
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
