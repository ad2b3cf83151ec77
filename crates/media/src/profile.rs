//! Device profiles: what an emulated device costs, as data.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// What a device costs. A region with a profile adds the *difference* to `dram` to what this machine's memory costs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name; everything printed about the region says *emulated* and this.
    #[serde(skip)]
    pub name: String,
    /// A read of the granule that follows the last one, in nanoseconds.
    pub read_sequential_ns: u64,
    /// A read anywhere, in nanoseconds.
    pub read_random_ns: u64,
    /// A store until it is durable, in nanoseconds; paid once a burst.
    pub store_ns: u64,
    /// Bytes that the device reads and writes at once; a power of two, 64 or more.
    pub granule_bytes: u64,
    /// Read bandwidth in 10^9 bytes a second; `None` is unlimited.
    pub read_gb_per_s: Option<f64>,
    /// Write bandwidth in 10^9 bytes a second; `None` is unlimited.
    pub write_gb_per_s: Option<f64>,
    /// What a burst, and a read of a granule that is not the next one, takes more from a processor of another NUMA node, in nanoseconds.
    #[serde(default)]
    pub far_ns: u64,
    /// Whether the device forgets when the machine loses power.
    pub volatile: bool,
}

/// Why a profile can't be had.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There is none of this name.
    #[error("no profile {name:?}; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The table is not one of profiles.
    #[error("{place}: {problem}")]
    Invalid {
        /// The table.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The table can't be read.
    #[error("{place}: {source}")]
    Io {
        /// The table.
        place: String,
        /// Why.
        source: std::io::Error,
    },
}

const BUILT_IN: &str = include_str!("profiles.toml");

impl Profile {
    /// A built-in profile: `dram`, `optane-100`, `optane-200` or `cxl-dram`.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`] with the names there are.
    pub fn built_in(name: &str) -> Result<Self, ProfileError> {
        pick(Self::parse("the built-in profiles", BUILT_IN)?, name)
    }

    /// A profile as `--profile` names it: a built-in name, or `FILE.toml:NAME` for one of a user's own table (see
    /// [`parse`](Self::parse)).
    ///
    /// # Errors
    /// If the file can't be read or isn't a table of profiles, or has none of this name.
    pub fn resolve(text: &str) -> Result<Self, ProfileError> {
        match text.rsplit_once(".toml:") {
            None => Self::built_in(text),
            Some((stem, name)) => Self::load(Path::new(&format!("{stem}.toml")), name),
        }
    }

    /// A profile from a user's table.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn load(path: &Path, name: &str) -> Result<Self, ProfileError> {
        let place = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => pick(Self::parse(&place, &text)?, name),
            Err(source) => Err(ProfileError::Io { place, source }),
        }
    }

    /// All profiles of a TOML text: one table a profile, with the fields of this struct. `place` names the text in
    /// errors.
    ///
    /// # Errors
    /// [`ProfileError::Invalid`] if a field is missing, unknown or out of range.
    pub fn parse(place: &str, text: &str) -> Result<Vec<Self>, ProfileError> {
        let invalid = |problem: String| ProfileError::Invalid { place: place.into(), problem };
        let table: BTreeMap<String, Profile> = toml::from_str(text).map_err(|e| invalid(e.to_string()))?;
        let mut profiles = Vec::new();
        for (name, mut profile) in table {
            profile.name = name;
            profile.check().map_err(|problem| invalid(format!("profile {:?}: {problem}", profile.name)))?;
            profiles.push(profile);
        }
        Ok(profiles)
    }

    fn check(&self) -> Result<(), String> {
        const LATENCY_NS_MAX: u64 = 1_000_000_000;
        if !self.granule_bytes.is_power_of_two() || !(64..=1 << 20).contains(&self.granule_bytes) {
            return Err(format!(
                "granule_bytes = {}: expected a power of two, 64 to 1 MiB",
                self.granule_bytes
            ));
        }
        for rate in [self.read_gb_per_s, self.write_gb_per_s].into_iter().flatten() {
            if !(0.001..=100_000.0).contains(&rate) {
                return Err(format!("bandwidth {rate}: expected 0.001 to 100000 GB/s"));
            }
        }
        for latency in [self.read_sequential_ns, self.read_random_ns, self.store_ns, self.far_ns] {
            if latency > LATENCY_NS_MAX {
                return Err(format!("latency {latency} ns: expected a second at most"));
            }
        }
        Ok(())
    }
}

fn pick(profiles: Vec<Profile>, name: &str) -> Result<Profile, ProfileError> {
    let known: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
    let known = known.join(", ");
    let found = profiles.into_iter().find(|profile| profile.name == name);
    found.ok_or_else(|| ProfileError::Unknown { name: name.into(), known })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table() {
        let optane = Profile::resolve("optane-200").unwrap();
        assert_eq!((optane.read_sequential_ns, optane.read_random_ns, optane.store_ns), (170, 300, 160));
        assert_eq!((optane.granule_bytes, optane.volatile), (256, false));
        assert_eq!((optane.read_gb_per_s, optane.write_gb_per_s), (Some(8.7), Some(3.0)));
        assert_eq!(Profile::built_in("optane-100").unwrap().read_random_ns, 318);
        assert!(Profile::built_in("cxl-dram").unwrap().volatile);
        assert_eq!(Profile::built_in("dram").unwrap().read_gb_per_s, None);
        let error = Profile::resolve("optane-300").unwrap_err().to_string();
        assert!(error.contains("\"optane-300\"") && error.contains("optane-100, optane-200"), "{error}");
    }

    #[test]
    fn a_table_of_ones_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        let text = "[slow]\nread_sequential_ns = 1\nread_random_ns = 2\nstore_ns = 3\ngranule_bytes = 128\nvolatile = false\n";
        std::fs::write(&path, text).unwrap();
        let slow = Profile::resolve(&format!("{}:slow", path.display())).unwrap();
        assert_eq!((slow.name.as_str(), slow.granule_bytes, slow.write_gb_per_s), ("slow", 128, None));
        for (from, to) in [("128", "100"), ("store_ns = 3\n", ""), ("store_ns", "stroe_ns"), ("= 2", "= -2")]
        {
            let error = Profile::parse("mine", &text.replace(from, to)).unwrap_err();
            assert!(matches!(error, ProfileError::Invalid { .. }), "{error}");
        }
        let missing = Profile::load(&dir.path().join("none.toml"), "slow").unwrap_err();
        assert!(matches!(missing, ProfileError::Io { .. }));
    }
}
