//! Key specifications: which arguments of a command are keys, and what becomes of them.

use super::Command;

/// A run of arguments that are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) struct KeySpec {
    /// The first key.
    pub first: i16,
    /// The last one: counted from the first, or if negative from the end.
    pub last: i16,
    /// From key to key.
    pub step: i16,
    /// Redis's flags, separated by spaces: `RO`, `RW`, `OW` or `RM`, then `access`, `update`, `insert`, `delete` ...
    pub access: &'static str,
}

impl KeySpec {
    /// The places of its keys among `count` arguments, the name included.
    pub fn places(self, count: usize) -> impl Iterator<Item = usize> {
        let last = if self.last < 0 {
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
        let own = KeySpec { first, last, step, access: self.access };
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
    let count = args.len();
    specs.flat_map(move |spec| spec.places(count).map(move |at| (at, varies.unwrap_or(spec.access))))
}

/// How the commands use their key whose specification says that it varies.
fn varying(command: &Command, args: &[&[u8]]) -> &'static str {
    let given =
        |word: &str, from: usize| args.iter().skip(from).any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let reads_only = match command.name {
        "set" if given("GET", 3) => false,
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
            KeySpec { first, last, step, access: "" }.places(count).collect::<Vec<_>>()
        };
        assert_eq!(places(1, 0, 1, 3), [1]);
        assert_eq!(places(1, -1, 1, 4), [1, 2, 3]);
        assert_eq!(places(1, -1, 2, 5), [1, 3]);
        assert_eq!(places(2, 1, 1, 4), [2, 3]);
        assert_eq!(places(2, 0, 1, 2), [0; 0], "an argument that is not there is no key");
    }
}
