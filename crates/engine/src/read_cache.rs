//! Which records that are read below DRAM are copied to it.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// How the read cache of engine `hetermm` takes records in (HeterMM section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadCache {
    /// All until DRAM is full, then those that were missed twice of late. Of the oldest page those stay that were read since they came.
    Gated,
    /// One of so many reads; the oldest page leaves with all that is in it (the paper's sampled FIFO).
    Sampled(NonZeroU32),
    /// There is none.
    Off,
}

impl fmt::Display for ReadCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gated => f.write_str("gated"),
            Self::Sampled(every) => write!(f, "sampled:{every}"),
            Self::Off => f.write_str("off"),
        }
    }
}

impl FromStr for ReadCache {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let sampled = |text: &str| text.strip_prefix("sampled:")?.parse().ok().map(Self::Sampled);
        match text {
            "gated" => Ok(Self::Gated),
            "off" => Ok(Self::Off),
            _ => sampled(text).ok_or_else(|| {
                format!("{text:?}: expected gated, off, or sampled:N for one of N reads, as in sampled:100")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_as_it_is_written() {
        for text in ["gated", "off", "sampled:1", "sampled:100"] {
            assert_eq!(text.parse::<ReadCache>().unwrap().to_string(), text);
        }
        for text in ["", "sampled", "sampled:0", "sampled:-1", "on"] {
            assert!(text.parse::<ReadCache>().unwrap_err().contains("sampled:100"), "{text}");
        }
    }
}
