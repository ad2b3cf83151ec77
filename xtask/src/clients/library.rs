//! The libraries, and where their programs are.

/// What a library speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Redis's, RESP2 and RESP3.
    Redis,
    /// memcached's text protocols.
    Memcached,
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Redis => "redis",
            Self::Memcached => "memcached",
        })
    }
}

/// What a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Installed by pip.
    Python,
    /// Installed by npm.
    Node,
    /// Installed and built by go.
    Go,
    /// Installed by Maven, built by javac.
    Java,
    /// Installed and built by cargo.
    Rust,
}

impl Language {
    /// Its folder in `xtask/clients`.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Go => "go",
            Self::Java => "java",
            Self::Rust => "rust",
        }
    }
}

/// A client library.
#[derive(Debug)]
pub struct Library {
    /// As its users call it.
    pub name: &'static str,
    /// As its manifest pins it.
    pub version: &'static str,
    /// What it speaks.
    pub protocol: Protocol,
    /// What its program is written in.
    pub language: Language,
    /// Its manifest, in the folder of the language.
    pub manifest: &'static str,
    /// Its program there: a file, a package, a class or a binary, as the language has it.
    pub program: &'static str,
}

const fn library(
    (name, version): (&'static str, &'static str),
    protocol: Protocol,
    language: Language,
    (manifest, program): (&'static str, &'static str),
) -> Library {
    Library { name, version, protocol, language, manifest, program }
}

/// All of them.
pub const LIBRARIES: [Library; 14] = {
    use Language::{Go, Java, Node, Python, Rust};
    use Protocol::{Memcached, Redis};
    [
        library(("redis-py", "8.1.0"), Redis, Python, ("redis-py/requirements.txt", "redis-py/main.py")),
        library(("node-redis", "6.3.1"), Redis, Node, ("node-redis/package.json", "node-redis/main.mjs")),
        library(("ioredis", "6.0.0"), Redis, Node, ("ioredis/package.json", "ioredis/main.mjs")),
        library(("go-redis", "v9.23.0"), Redis, Go, ("go.mod", "goredis")),
        library(("jedis", "8.0.2"), Redis, Java, ("pom.xml", "JedisExamples")),
        library(("lettuce", "7.2.0.RELEASE"), Redis, Java, ("pom.xml", "LettuceExamples")),
        library(("redis-rs", "1.8.1"), Redis, Rust, ("Cargo.toml", "redis-rs")),
        library(
            ("pymemcache", "4.0.0"),
            Memcached,
            Python,
            ("pymemcache/requirements.txt", "pymemcache/main.py"),
        ),
        library(
            ("python-memcached", "1.62"),
            Memcached,
            Python,
            ("python-memcached/requirements.txt", "python-memcached/main.py"),
        ),
        library(("pylibmc", "1.6.3"), Memcached, Python, ("pylibmc/requirements.txt", "pylibmc/main.py")),
        library(
            ("node-memcached", "2.2.2"),
            Memcached,
            Node,
            ("memcached/package.json", "memcached/main.mjs"),
        ),
        library(
            ("gomemcache", "v0.0.0-20260422231931-4d751bb6e37c"),
            Memcached,
            Go,
            ("go.mod", "gomemcache"),
        ),
        library(("spymemcached", "2.12.3"), Memcached, Java, ("pom.xml", "SpymemcachedExamples")),
        library(("rust-memcache", "0.21.0"), Memcached, Rust, ("Cargo.toml", "rust-memcache")),
    ]
};

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn folder() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn manifests_pin_the_versions_of_the_table() {
        for library in &LIBRARIES {
            let path = folder().join("clients").join(library.language.folder()).join(library.manifest);
            let manifest = std::fs::read_to_string(&path).unwrap();
            assert!(
                manifest.contains(library.version),
                "{} does not name {}",
                path.display(),
                library.version
            );
        }
    }

    #[test]
    fn the_page_names_every_library_with_its_version() {
        let page = std::fs::read_to_string(folder().join("../docs/clients.md")).unwrap();
        for library in &LIBRARIES {
            let row = page.lines().find(|line| line.starts_with(&format!("| {} ", library.name)));
            assert!(
                row.is_some_and(|row| row.contains(library.version)),
                "docs/clients.md: {}",
                library.name
            );
        }
    }
}
