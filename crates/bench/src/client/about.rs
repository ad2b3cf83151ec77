//! What a server says of itself: a report of numbers without their circumstances would be worth little.

use std::collections::BTreeMap;

use super::Endpoint;
use super::wire::{BODY_MAX, Wire, number};

/// Lines of `INFO` that a report repeats, and under which names.
const FOUND: &str = "found";

/// What a server told; empty fields are what it didn't.
#[derive(Clone, Debug, Default)]
pub struct About {
    fields: BTreeMap<String, String>,
    /// What the server's store found when it opened, a line each.
    pub found: Vec<String>,
}

impl About {
    /// Asks a server. memcached's protocol has no place for it.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn ask(endpoint: Endpoint) -> anyhow::Result<Self> {
        let Endpoint::Redis(address) = endpoint else { return Ok(Self::default()) };
        let mut wire = Wire::connect(address)?;
        wire.request.extend_from_slice(b"*1\r\n$4\r\nINFO\r\n");
        wire.send()?;
        let len = match wire.line()?.split_first() {
            Some((b'$', len)) => number(len)?,
            _ => return Ok(Self::default()),
        };
        anyhow::ensure!((0..=BODY_MAX).contains(&len), "INFO was answered by a value of {len} bytes");
        Ok(Self::parse(&String::from_utf8_lossy(wire.body(len as usize)?)))
    }

    fn parse(text: &str) -> Self {
        let mut about = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            if name == FOUND {
                about.found.push(value.to_owned());
            } else {
                about.fields.insert(name.to_owned(), value.to_owned());
            }
        }
        about
    }

    /// A field's text, if it was told.
    pub fn get(&self, name: &str) -> Option<String> {
        self.fields.get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_findings_are_told_apart() {
        let about = About::parse("# Server\r\nengine:dram\r\n\r\n# Tiers\r\nfound:a: b\r\nfound:c\r\n");
        assert_eq!(about.get("engine").as_deref(), Some("dram"));
        assert_eq!(about.get("durability"), None);
        assert_eq!(about.found, ["a: b", "c"]);
    }
}
