//! Key specifications: which arguments of a command are keys, and what becomes of them.

use terrace_protocol::resp::parse_integer;

use super::Command;

/// Arguments that are keys: a run of them, or as many as another argument says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) struct KeySpec {
    /// The first key.
    pub first: i16,
    /// The last one: counted from the first, or if negative from the end.
    pub last: i16,
    /// The argument in front of the first says how many there are, and `last` nothing.
    pub counted: bool,
    /// From key to key.
    pub step: i16,
    /// Redis's flags, separated by spaces: `RO`, `RW`, `OW` or `RM`, then `access`, `update`, `insert`, `delete` ...
    pub access: &'static str,
}

impl KeySpec {
    /// Keys from `first` to `last`.
    pub const fn run(first: i16, last: i16, step: i16, access: &'static str) -> Self {
        Self { first, last, counted: false, step, access }
    }

    /// Keys from `first` on, as many as the argument in front of it says.
    pub const fn counted(first: i16, step: i16, access: &'static str) -> Self {
        Self { first, last: 0, counted: true, step, access }
    }

    /// The places of its keys among arguments, the name included.
    pub fn places(self, args: &[&[u8]]) -> impl Iterator<Item = usize> + use<> {
        let count = args.len();
        let said = || args.get(self.first as usize - 1).and_then(|number| parse_integer(number));
        let keys = if self.counted { said().unwrap_or(0).clamp(0, count as i64) as usize } else { count };
        self.run_places(count).take(keys)
    }

    fn run_places(self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let last = if self.counted {
            count as i64 - 1
        } else if self.last < 0 {
            count as i64 + i64::from(self.last)
        } else {
            i64::from(self.first + self.last)
        };
        let end = (last + 1).clamp(0, count as i64) as usize;
        (self.first as usize..end).step_by(self.step.max(1) as usize)
    }

    /// Whether its flags name this one.
    pub fn has(self, flag: &str) -> bool {
        self.access.split(' ').any(|word| word == flag)
    }
}

impl Command {
    /// Its key specifications.
    pub fn key_specs(&'static self) -> impl Iterator<Item = KeySpec> {
        let (first, last, step) = self.keys;
        let last = if last < 0 { last } else { last - first };
        let own = KeySpec::run(first, last, step, self.access);
        let own = (self.specs.is_empty() && self.keys != super::NONE).then_some(own);
        own.into_iter().chain(self.specs.iter().copied())
    }
}

/// The places of a command's keys in its arguments, each with how it is used; where that depends on the arguments, as it is
/// with these.
pub(in crate::resp) fn keys_of(
    command: &'static Command,
    args: &[&[u8]],
) -> impl Iterator<Item = (usize, &'static str)> {
    let varies = command.key_specs().any(|spec| spec.has("variable_flags")).then(|| varying(command, args));
    let specs = command.key_specs().filter(|spec| !spec.has("not_key"));
    specs
        .flat_map(move |spec| spec.places(args).map(move |at| (at, varies.unwrap_or(spec.access))))
        .chain(stored(command, args).map(|at| (at, "OW update")))
}

/// Where `SORT … STORE key` has its key: of several the last.
fn stored(command: &Command, args: &[&[u8]]) -> Option<usize> {
    if command.name != "sort" {
        return None;
    }
    let (mut at, mut found) = (2, None);
    while let Some(word) = args.get(at) {
        let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
        at += match () {
            () if is("LIMIT") => 2,
            () if is("GET") || is("BY") => 1,
            () if is("STORE") && at + 1 < args.len() => {
                found = Some(at + 1);
                0
            }
            () => 0,
        } + 1;
    }
    found
}

/// How the commands use their key whose specification says that it varies.
fn varying(command: &Command, args: &[&[u8]]) -> &'static str {
    let given =
        |word: &str, from: usize| args.iter().skip(from).any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let reads_only = match command.name {
        "set" if given("GET", 3) => false,
        "set" if ["IFEQ", "IFNE", "IFDEQ", "IFDNE"].iter().any(|word| given(word, 3)) => false,
        "delex" if args.len() > 2 => return "RW access delete",
        "delex" => return "RM delete",
        "set" => return "OW update",
        "bitfield" => !given("SET", 2) && !given("INCRBY", 2),
        _ => false,
    };
    if reads_only { "RO access" } else { "RW access update" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_keys() {
        let places = |first, last, step, count| {
            KeySpec::run(first, last, step, "").places(&vec![&b"x"[..]; count]).collect::<Vec<_>>()
        };
        assert_eq!(places(1, 0, 1, 3), [1]);
        assert_eq!(places(1, -1, 1, 4), [1, 2, 3]);
        assert_eq!(places(1, -1, 2, 5), [1, 3]);
        assert_eq!(places(2, 1, 1, 4), [2, 3]);
        assert_eq!(places(2, 0, 1, 2), [0; 0], "an argument that is not there is no key");
        let counted = |args: &[&str]| {
            let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
            KeySpec::counted(2, 2, "").places(&args).collect::<Vec<_>>()
        };
        assert_eq!(counted(&["msetex", "2", "a", "1", "b", "2", "NX"]), [2, 4]);
        assert_eq!(counted(&["msetex", "9", "a", "1"]), [2], "those that are there");
        assert_eq!(counted(&["msetex", "-1", "a", "1"]), [0; 0]);
        assert_eq!(counted(&["msetex"]), [0; 0]);
    }
}
