//! Sets of Redis's words about commands: flags and ACL categories.

/// Bytes compared when compiled.
const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// The set of the words in `text`, which are separated by spaces; `words` says which bit each is.
const fn parse(text: &str, words: &[&str]) -> u32 {
    let mut rest = text.as_bytes();
    let mut set = 0;
    while !rest.is_empty() {
        let mut len = 0;
        while len < rest.len() && rest[len] != b' ' {
            len += 1;
        }
        let (word, behind) = rest.split_at(len);
        let mut bit = 0;
        while !same(words[bit].as_bytes(), word) {
            // Beyond the last word this does not compile.
            bit += 1;
        }
        set |= 1 << bit;
        rest = if behind.is_empty() { behind } else { behind.split_at(1).1 };
    }
    set
}

/// Redis's command flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) struct Flags(u32);

const FLAGS: [&str; 21] = [
    "write",
    "readonly",
    "denyoom",
    "admin",
    "pubsub",
    "noscript",
    "blocking",
    "loading",
    "stale",
    "skip_monitor",
    "skip_slowlog",
    "asking",
    "fast",
    "no_auth",
    "may_replicate",
    "no_mandatory_keys",
    "no_async_loading",
    "no_multi",
    "movablekeys",
    "allow_busy",
    "module",
];

impl Flags {
    pub const NO_AUTH: Self = Self::parse("no_auth");
    pub const READONLY: Self = Self::parse("readonly");
    pub const WRITE: Self = Self::parse("write");
    pub const ADMIN: Self = Self::parse("admin");
    pub const SKIP_MONITOR: Self = Self::parse("skip_monitor");
    pub const SKIP_SLOWLOG: Self = Self::parse("skip_slowlog");
    pub const NO_MULTI: Self = Self::parse("no_multi");

    pub(super) const fn parse(text: &str) -> Self {
        Self(parse(text, &FLAGS))
    }

    /// Whether all of `flags` are set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// The names of the flags that are set.
pub(in crate::resp) fn names_of_flags(flags: Flags) -> impl Iterator<Item = &'static str> {
    FLAGS.into_iter().enumerate().filter(move |(bit, _)| flags.0 & 1 << bit != 0).map(|(_, name)| name)
}

/// Redis's ACL categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) struct Categories(u32);

/// All categories, in Redis's order.
pub(in crate::resp) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

impl Categories {
    pub(super) const fn parse(text: &str) -> Self {
        Self(parse(text, &CATEGORIES))
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that most commands of a group have.
    pub(super) const fn of_group(group: &str) -> Self {
        Self::parse(match group.as_bytes() {
            b"string" => "string",
            b"generic" => "keyspace",
            b"bitmap" => "bitmap",
            b"hyperloglog" => "hyperloglog",
            b"connection" => "connection",
            b"transactions" => "transaction",
            b"scripting" => "scripting",
            b"pubsub" => "pubsub",
            _ => "",
        })
    }

    /// Those that follow from flags, as Redis adds them.
    pub(super) const fn of_flags(flags: Flags) -> Self {
        let mut set = Self::parse(if flags.has(Flags::parse("fast")) { "fast" } else { "slow" });
        let implied = [
            ("write", "write"),
            ("readonly", "read"),
            ("admin", "admin dangerous"),
            ("pubsub", "pubsub"),
            ("blocking", "blocking"),
        ];
        let mut i = 0;
        while i < implied.len() {
            if flags.has(Flags::parse(implied[i].0)) {
                set = set.and(Self::parse(implied[i].1));
            }
            i += 1;
        }
        set
    }

    /// Whether any of `other` is in it.
    pub const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The category of this name, in any case.
pub(in crate::resp) fn category(name: &[u8]) -> Option<Categories> {
    let bit = CATEGORIES.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()))?;
    Some(Categories(1 << bit))
}

/// The names of a set's categories.
pub(in crate::resp) fn names_of_categories(set: Categories) -> impl Iterator<Item = &'static str> {
    CATEGORIES.into_iter().enumerate().filter(move |(bit, _)| set.0 & 1 << bit != 0).map(|(_, name)| name)
}
