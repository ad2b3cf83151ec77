//! `CONFIG REWRITE`: what was changed while the server ran goes into the file that it was started with.
//!
//! Lines of other keys, comments included, stay as they are.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::parameters::find;
use crate::resp::call::{Call, Outcome};
use crate::shared::Shared;

/// Parameters that the file has, and whether the value is a text there. Of those that are missing `pmem-size` and `ssd-size` are the
/// store's own, and others change nothing.
const KEYS: [(&str, bool); 20] = [
    ("acllog-max-len", false),
    ("client-output-buffer-limit", true),
    ("latency-monitor-threshold", false),
    ("latency-tracking", true),
    ("maxclients", false),
    ("maxmemory", false),
    ("maxmemory-clients", false),
    ("notify-keyspace-events", true),
    ("protected-mode", true),
    ("read-cache", true),
    ("requirepass", true),
    ("slowlog-log-slower-than", false),
    ("slowlog-max-len", false),
    ("tcp-keepalive", false),
    ("timeout", false),
    ("tls-auth-clients", true),
    ("tls-ca-cert-file", true),
    ("tls-cert-file", true),
    ("tls-key-file", true),
    ("tracking-table-max-keys", false),
];

/// `CONFIG REWRITE`.
pub(in crate::resp) fn rewrite(call: &mut Call<'_>) -> Outcome {
    let shared = call.ctx.shared;
    let Some(path) = &shared.options.config_file else {
        return Err("ERR The server is running without a config file".into());
    };
    rewrite_file(shared, path).map_err(|error| format!("ERR Rewriting config file: {error}"))?;
    if shared.redis.acl.are_users_lost() {
        return Err("ERR the config file is written, but has no place for users: ACL SAVE keeps them where the server is \
                    started with --aclfile"
            .into());
    }
    call.ok()
}

fn rewrite_file(shared: &Shared, path: &Path) -> std::io::Result<()> {
    let changed = shared.redis.settings.changed();
    let mut text = std::fs::read_to_string(path)?;
    for (name, is_text) in KEYS {
        if let Some(parameter) = find(name.as_bytes()).filter(|_| changed.contains(name)) {
            let key = match name {
                // The budget of DRAM has two keys, of which a file has one.
                "maxmemory" if has(&text, "dram-records") => "dram-records",
                "maxmemory" => "dram",
                _ => name,
            };
            text = with(&text, key, &(parameter.get)(shared), is_text);
        }
    }
    let beside = path.with_extension(format!("tmp-{}", std::process::id()));
    let mut file = File::create(&beside)?;
    file.set_permissions(std::fs::metadata(path)?.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

fn is_of(line: &str, key: &str) -> bool {
    line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
}

fn has(text: &str, key: &str) -> bool {
    text.lines().any(|line| is_of(line, key))
}

/// The text with this value at the key.
fn with(text: &str, key: &str, value: &str, is_text: bool) -> String {
    let value = if is_text { format!("\"{}\"", escaped(value)) } else { value.to_owned() };
    let line = format!("{key} = {value}");
    let mut lines: Vec<&str> = text.lines().collect();
    match lines.iter().position(|old| is_of(old, key)) {
        Some(at) => lines[at] = &line,
        None => lines.push(&line),
    }
    lines.join("\n") + "\n"
}

/// As it stands between quotes.
fn escaped(value: &str) -> String {
    let each = value.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_replaced_or_added() {
        let text = "# mine\nthreads = 2\n timeout=5 # short\nmaxclients-x = 1\n";
        assert_eq!(with(text, "timeout", "7", false), "# mine\nthreads = 2\ntimeout = 7\nmaxclients-x = 1\n");
        assert_eq!(with("", "requirepass", "a\"b\\c\u{1}", true), "requirepass = \"a\\\"b\\\\c\\u0001\"\n");
        assert!(!has(text, "maxclients") && has(text, "threads"));
    }
}
