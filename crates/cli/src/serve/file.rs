//! The configuration file: TOML whose keys are the names of the options.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use toml::de::{DeTable, DeValue};

use crate::names::closest;

/// A file's settings as text, each with where it stands.
#[derive(Debug, Default)]
pub struct File(BTreeMap<String, (String, String)>);

impl File {
    /// Reads a file, which may hold these keys and no others.
    ///
    /// # Errors
    /// If it can't be read, is not TOML, or holds a key that is not an option or a value that is no string or number. The text
    /// says where, and what was probably meant.
    pub fn read(path: &Path, keys: &[&str]) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        Self::parse(&path.display().to_string(), &text, keys)
    }

    /// As [`File::read`] for text that came from `place`.
    pub fn parse(place: &str, text: &str, keys: &[&str]) -> anyhow::Result<Self> {
        let table = DeTable::parse(text).map_err(|error| anyhow::anyhow!("{place}: {error}"))?;
        let mut values = BTreeMap::new();
        for (key, value) in table.get_ref() {
            let line = 1 + text[..key.span().start].matches('\n').count();
            let name: &str = key.get_ref();
            // Options have dashes; people write underscores too.
            let dashed = name.replace('_', "-");
            if !keys.contains(&dashed.as_str()) {
                let hint = closest(&dashed, keys.iter().copied());
                let hint = hint.map(|key| format!("; did you mean {key}?")).unwrap_or_default();
                anyhow::bail!(
                    "{place}, line {line}: unknown key {name:?}{hint} There are {}",
                    keys.join(", ")
                );
            }
            let value = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                _ => anyhow::bail!("{place}, line {line}: {name} must be a string or a whole number"),
            };
            let stands = format!("{place}, line {line}: {dashed}");
            if values.insert(dashed, (value, stands)).is_some() {
                anyhow::bail!(
                    "{place}, line {line}: {name} is there twice, with a dash and with an underscore"
                );
            }
        }
        Ok(Self(values))
    }

    /// Settings that another kind of file stands for, each with where.
    pub fn of(settings: &[(&'static str, String, String)]) -> Self {
        let one = |(key, value, place): &(&str, String, String)| {
            ((*key).to_owned(), (value.clone(), place.clone()))
        };
        Self(settings.iter().map(one).collect())
    }

    /// The text of a key, and where it stands.
    pub fn get(&self, key: &str) -> Option<(&str, String)> {
        let (text, place) = self.0.get(key)?;
        Some((text, place.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 3] = ["dram", "dram-records", "threads"];

    #[test]
    fn strings_and_numbers_are_read() {
        let file = File::parse("f", "dram = \"1GiB\"\nthreads = 4\n", &KEYS).unwrap();
        assert_eq!(file.get("dram").unwrap(), ("1GiB", "f, line 1: dram".to_owned()));
        assert_eq!(file.get("threads").unwrap().0, "4");
        assert!(file.get("dram-records").is_none());
        assert_eq!(File::parse("f", "dram_records = 7", &KEYS).unwrap().get("dram-records").unwrap().0, "7");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, words) in [
            ("dram = 1\n\ndarm-records = 2", ["line 3", "did you mean dram-records?"]),
            ("zebra = 1", ["line 1", "There are dram"]),
            ("dram = [1]", ["line 1", "must be a string"]),
            ("[serve]\ndram = 1", ["line 1", "unknown key"]),
            ("dram-records = 1\ndram_records = 2", ["line 2", "twice"]),
            ("dram = ", ["f:", "line 1"]),
        ] {
            let error = File::parse("f", text, &KEYS).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text:?}: {error}");
        }
    }
}
