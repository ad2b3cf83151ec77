//! Arguments that nobody else may see: `MONITOR` and the slow log have a word in their place.

use terrace_protocol::resp::Args;

use super::options::is;

const REDACTED: &[u8] = b"(redacted)";
/// Parameters of `CONFIG SET` whose values are secrets.
const PARAMETERS: [&str; 4] = ["requirepass", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"];

/// The arguments of the command with this full name, its own included, as others may see them.
pub(super) fn shown<'a>(command: &'static str, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    // So many arguments from here on are secret.
    let mut secrets = 0;
    args.from(0).enumerate().map(move |(at, arg)| {
        if secrets > 0 {
            secrets -= 1;
            return REDACTED;
        }
        match command {
            "auth" if at > 0 => return REDACTED,
            "acl|setuser" if at > 1 => return REDACTED,
            "hello" if at > 0 && is(arg, "AUTH") => secrets = 2,
            "config|set" if at > 1 && at % 2 == 0 && PARAMETERS.iter().any(|name| is(arg, name)) => {
                secrets = 1
            }
            _ => {}
        }
        arg
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        for (command, line, expected) in [
            ("auth", "AUTH pw", "AUTH (redacted)"),
            ("auth", "auth me pw", "auth (redacted) (redacted)"),
            ("hello", "HELLO 3 setname x auth me pw", "HELLO 3 setname x auth (redacted) (redacted)"),
            ("hello", "HELLO 3 AUTH AUTH pw SETNAME x", "HELLO 3 AUTH (redacted) (redacted) SETNAME x"),
            ("acl|setuser", "ACL SETUSER me >pw", "ACL SETUSER (redacted) (redacted)"),
            (
                "config|set",
                "CONFIG SET maxclients requirepass RequirePass pw hz 10",
                "CONFIG SET maxclients requirepass RequirePass (redacted) hz 10",
            ),
            ("set", "SET auth requirepass", "SET auth requirepass"),
        ] {
            let mut ranges = Vec::new();
            for word in line.split(' ') {
                let start = word.as_ptr() as usize - line.as_ptr() as usize;
                ranges.push((start, start + word.len()));
            }
            let words: Vec<_> = shown(command, Args::new(line.as_bytes(), &ranges)).collect();
            assert_eq!(String::from_utf8(words.join(&b' ')).unwrap(), expected);
        }
    }
}
