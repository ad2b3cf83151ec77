//! A command line as `getopt_long` reads it: clusters, values with and without a space, long names and their beginnings.

/// A flag: its letter, its long name, and whether a value follows.
pub type Known = (char, &'static str, bool);

/// memcached 1.6's flags. `-D` has no long name, `-N` one in memcached's usage and another in its program.
#[rustfmt::skip]
pub const FLAGS: [Known; 38] = [
    ('A', "enable-shutdown", false), ('B', "protocol", true), ('C', "disable-cas", false), ('D', "", true),
    ('F', "disable-flush-all", false), ('I', "max-item-size", true), ('L', "enable-largepages", false),
    ('M', "disable-evictions", false), ('N', "napi-ids", true), ('N', "napi_ids", true), ('P', "pidfile", true),
    ('R', "max-reqs-per-event", true), ('S', "enable-sasl", false), ('U', "udp-port", true), ('V', "version", false),
    ('W', "disable-watch", false), ('X', "disable-dumping", false), ('Y', "auth-file", true),
    ('Z', "enable-ssl", false), ('a', "unix-mask", true), ('b', "listen-backlog", true), ('c', "conn-limit", true),
    ('d', "daemon", false), ('e', "memory-file", true), ('f', "slab-growth-factor", true), ('h', "help", false),
    ('i', "license", false), ('k', "lock-memory", false), ('l', "listen", true), ('m', "memory-limit", true),
    ('n', "slab-min-size", true), ('o', "extended", true), ('p', "port", true), ('r', "enable-coredumps", false),
    ('s', "unix-socket", true), ('t', "threads", true), ('u', "user", true), ('v', "verbose", false),
];

/// Splits a command line into flags and their values, in order. What is no flag is passed over, as memcached does.
///
/// # Errors
/// The first flag that is unknown or lacks its value, in getopt's words.
pub fn split(arguments: &[String]) -> Result<Vec<(char, Option<String>)>, String> {
    let mut found = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            break;
        }
        if let Some(long) = argument.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let (letter, _, takes) = long_flag(name)?;
            let value = match (takes, value) {
                (false, Some(_)) => return Err(format!("option '--{name}' doesn't allow an argument")),
                (true, None) => {
                    Some(rest.next().cloned().ok_or(format!("option '--{name}' requires an argument"))?)
                }
                (_, value) => value,
            };
            found.push((letter, value));
        } else if let Some(cluster) = argument.strip_prefix('-') {
            let mut letters = cluster.chars();
            while let Some(letter) = letters.next() {
                let known = FLAGS.iter().find(|(known, ..)| *known == letter);
                let (_, _, takes) = known.ok_or(format!("invalid option -- '{letter}'"))?;
                if !takes {
                    found.push((letter, None));
                    continue;
                }
                let value = match letters.as_str() {
                    "" => rest.next().cloned().ok_or(format!("option requires an argument -- '{letter}'"))?,
                    attached => attached.to_owned(),
                };
                found.push((letter, Some(value)));
                break;
            }
        }
    }
    Ok(found)
}

/// A long name, or the beginning of just one.
fn long_flag(name: &str) -> Result<Known, String> {
    if let Some(known) = FLAGS.iter().find(|(_, long, _)| *long == name && !long.is_empty()) {
        return Ok(*known);
    }
    let mut matching = FLAGS.iter().filter(|(_, long, _)| !name.is_empty() && long.starts_with(name));
    match matching.next() {
        Some(known) if matching.all(|other| other.0 == known.0) => Ok(*known),
        Some(_) => Err(format!("option '--{name}' is ambiguous")),
        None => Err(format!("unrecognized option '--{name}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match split(&arguments) {
            Ok(found) => {
                let one = |(letter, value): &(char, Option<String>)| match value {
                    Some(value) => format!("{letter}={value}"),
                    None => letter.to_string(),
                };
                found.iter().map(one).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error,
        }
    }

    #[test]
    fn flags_are_split_as_getopt_splits_them() {
        for (line, expected) in [
            ("-m 64 -p11211 -vvv", "m=64 p=11211 v v v"),
            ("-dvm 64 extra -u root", "d v m=64 u=root"),
            ("--port=7 --memory-limit 5 --daemon", "p=7 m=5 d"),
            ("--enable-shut --listen=a,b --conn 5", "A l=a,b c=5"),
            ("--napi-ids=2 --napi_ids 3 --napi 4", "N=2 N=3 N=4"),
            ("-l a -l b -- -d", "l=a l=b"),
            ("-l -d", "l=-d"),
            ("-q", "invalid option -- 'q'"),
            ("-p", "option requires an argument -- 'p'"),
            ("--zork", "unrecognized option '--zork'"),
            ("--enable", "option '--enable' is ambiguous"),
            ("--daemon=yes", "option '--daemon' doesn't allow an argument"),
            ("--port", "option '--port' requires an argument"),
            ("--=", "unrecognized option '--'"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }
}
