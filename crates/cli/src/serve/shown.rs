//! Settings as the configuration file that would give them.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use terrace::{Place, Size, TierSpec, WhenFull};

use super::settings::Settings;

impl Display for Settings {
    /// A configuration file. It reads back as these settings, if all paths are Unicode.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut line = |key: &str, value: &str| writeln!(f, "{key} = {}", quoted(value));
        line("dir", &self.dir.display().to_string())?;
        line("redis", &self.redis.to_string())?;
        line("memcached", &self.memcached.to_string())?;
        line("admin", &self.admin.to_string())?;
        line("threads", &self.threads.to_string())?;
        line("background-threads", &self.background_threads.to_string())?;
        line("engine", &self.engine)?;
        line("index", &self.index)?;
        if let Some(placement) = self.placement {
            line("placement", placement.name())?;
        }
        if let Some(policy) = self.policy {
            line("policy", &policy.to_string())?;
        }
        if let Some(swap) = self.swap {
            line("swap", swap.name())?;
        }
        if let Some(cache) = self.read_cache {
            line("read-cache", &cache.to_string())?;
        }
        if let Some(heap) = self.heap {
            line("heap", &heap.to_string())?;
        }
        let tiers = [("pmem", &self.pmem), ("ssd", &self.ssd)];
        let sizes = [("dram", self.dram), ("dram-records", self.dram_records)];
        let sizes = sizes.iter().filter_map(|(key, value)| Some((*key, size(value.as_ref()?))));
        let tiers = tiers.iter().filter_map(|(key, value)| Some((*key, tier(value.as_ref()?))));
        let profile = self.profile.iter().map(|name| ("profile", name.clone()));
        let expected = self.expected_records.iter().map(|count| ("expected-records", count.to_string()));
        let nodes = self.nodes.0.iter().map(|nodes| ("nodes", nodes.to_string()));
        for (key, value) in sizes.chain(tiers).chain(profile).chain(nodes).chain(expected) {
            line(key, &value)?;
        }
        line("durability", &self.durability.to_string())?;
        line(
            "when-full",
            match self.when_full {
                WhenFull::Refuse => "refuse",
                WhenFull::Evict => "evict",
            },
        )?;
        self.network.lines().iter().try_for_each(|(key, value)| line(key, value))
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            char if char.is_control() => quoted.push_str(&format!("\\U{:08x}", u32::from(char))),
            char => quoted.push(char),
        }
    }
    quoted + "\""
}

/// A size as it is read.
pub(super) fn size(size: &Size) -> String {
    match size {
        Size::Bytes(bytes) => bytes.to_string(),
        Size::Percent(percent) => format!("{percent}%"),
    }
}

pub(super) fn tier(tier: &TierSpec) -> String {
    let size = size(&tier.size);
    match &tier.place {
        None => size,
        Some(Place::Path(path)) => format!("{size}@{}", path.display()),
        Some(Place::Node(node)) => format!("{size}@node:{node}"),
        Some(Place::Striped(paths)) => {
            let each: Vec<_> = paths.iter().map(|path| format!("{size}@{}", path.display())).collect();
            each.join(",")
        }
    }
}

/// Places for people.
pub(super) fn places(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::settings::gather_text;

    #[test]
    fn settings_read_back_as_they_were() {
        let text = "dir = \"/a \\\"b\\\" \\\\ \\u0001\"\nredis = \"[::1]:7\"\nmemcached = \"off\"\nthreads = 3\n\
                    background-threads = 2\nengine = \"tac\"\nplacement = \"anti-2\"\npolicy = \"lazy-lru/all\"\nswap = \"buf\"\nssd = \"2GiB\"\n\
                    dram-records = \"12.5%\"\npmem = \"1GiB@node:2\"\nprofile = \"optane-200\"\n\
                    durability = \"batch:7\"\nwhen-full = \"evict\"\ntls-port = 8\ntls-cert-file = \"/c\"\n\
                    tls-ca-cert-file = \"/ca\"\nmaxmemory-clients = \"1.5%\"\nprotected-mode = \"no\"\n\
                    slowlog-log-slower-than = -1\nclient-output-buffer-limit = \"normal 1gb 0 0\"";
        let settings = gather_text(Default::default(), &|_| None, Some(text)).unwrap();
        let shown = settings.to_string();
        assert!(shown.contains("12.5%") && shown.contains("1073741824@node:2"), "{shown}");
        assert_eq!(gather_text(Default::default(), &|_| None, Some(&shown)).unwrap(), settings, "{shown}");
    }

    #[test]
    fn places_that_memory_is_striped_over_read_back() {
        let text = "engine = \"bonsai\"\ndir = \"/nowhere\"\npmem = \"1GiB@/dev/dax0.0,/dev/dax1.0\"";
        let settings = gather_text(Default::default(), &|_| None, Some(text)).unwrap();
        let shown = settings.to_string();
        assert!(shown.contains("\"1073741824@/dev/dax0.0,1073741824@/dev/dax1.0\""), "{shown}");
        assert_eq!(gather_text(Default::default(), &|_| None, Some(&shown)).unwrap(), settings);
        // The environment takes the same text.
        let environment = |name: &str| (name == "TERRACE_PMEM").then(|| "1GiB@/a,2GiB@/b".to_owned());
        let refused = gather_text(Default::default(), &environment, None).unwrap_err();
        assert!(format!("{refused:#}").contains("places of one size"), "{refused:#}");
    }
}
