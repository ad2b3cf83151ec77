//! memcached's `-o`: a list of names, some with values.

use std::path::PathBuf;

use terrace_server::ClientAuth;

use super::options::number;

/// What of it has a meaning here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extended {
    /// Seconds of silence after which a connection is closed; 0: never.
    pub idle_timeout: u64,
    /// Where items go that DRAM has no room for, and how many bytes of them.
    pub ext_path: Option<(PathBuf, u64)>,
    /// Threads that move items.
    pub ext_threads: Option<usize>,
    /// Megabytes in the buffers of all connections; 0 or nothing: a default.
    pub read_buf_mem_limit: u64,
    /// Certificate.
    pub ssl_chain_cert: Option<PathBuf>,
    /// Its key.
    pub ssl_key: Option<PathBuf>,
    /// Who vouches for clients.
    pub ssl_ca_cert: Option<PathBuf>,
    /// Whether clients show certificates.
    pub ssl_verify_mode: Option<ClientAuth>,
    /// Refuse TLS 1.2.
    pub only_tls13: bool,
}

/// Names that mean nothing here, and why.
const NOTHING: [(&str, &[&str]); 6] = [
    ("the index grows by itself", &["hashpower", "hash_algorithm", "no_hashexpand", "hashexpand"]),
    (
        "the engine decides what stays in DRAM by its own policy",
        &[
            "tail_repair_time",
            "lru_crawler",
            "no_lru_crawler",
            "lru_crawler_sleep",
            "lru_crawler_tocrawl",
            "lru_maintainer",
            "no_lru_maintainer",
            "hot_lru_pct",
            "warm_lru_pct",
            "hot_max_factor",
            "warm_max_factor",
            "temporary_ttl",
        ],
    ),
    (
        "there are no slabs",
        &[
            "slab_reassign",
            "no_slab_reassign",
            "slab_automove",
            "no_slab_automove",
            "slab_automove_ratio",
            "slab_automove_window",
            "slab_automove_freeratio",
            "slab_chunk_max",
            "slab_sizes",
            "track_sizes",
            "no_chunked_items",
        ],
    ),
    (
        "the engine has its own way with storage",
        &[
            "ext_page_size",
            "ext_wbuf_size",
            "ext_io_depth",
            "ext_item_size",
            "ext_item_age",
            "ext_low_ttl",
            "ext_drop_unread",
            "ext_recache_rate",
            "ext_compact_under",
            "ext_drop_under",
            "ext_max_frag",
            "ext_max_sleep",
        ],
    ),
    ("TLS is handled without it", &["ssl_wbuf_size", "ssl_session_cache", "ssl_kernel_tls"]),
    (
        "it is about memcached's insides",
        &[
            "watcher_logbuf_size",
            "worker_logbuf_size",
            "resp_obj_mem_limit",
            "inline_ascii_response",
            "inline_ascii_resp",
            "no_inline_ascii_resp",
            "drop_privileges",
            "no_drop_privileges",
            "relaxed_privileges",
            "sock_cookie_id",
            "no_maxconns_fast",
        ],
    ),
];

/// What is so anyhow.
const ANYHOW: [&str; 3] = ["modern", "no_modern", "maxconns_fast"];

/// Reads a list.
///
/// # Errors
/// If a name is unknown, or has no value that it needs, or asks for what can't be had.
pub fn read(text: &str, into: &mut Extended, notes: &mut Vec<String>) -> Result<(), String> {
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (part, None),
        };
        one(name, value, into, notes)?;
    }
    Ok(())
}

fn one(name: &str, value: Option<&str>, into: &mut Extended, notes: &mut Vec<String>) -> Result<(), String> {
    let needed = || value.filter(|value| !value.is_empty()).ok_or(format!("-o {name}: a value is missing"));
    let flag = || format!("-o {name}");
    let file = || needed().map(|value| Some(PathBuf::from(value)));
    match name {
        "idle_timeout" => into.idle_timeout = number(needed()?, &flag(), 0..=1 << 31, "seconds")? as u64,
        "ext_path" if into.ext_path.is_some() => {
            return Err(
                "-o ext_path: only one is possible; RAID or a larger device takes the place of several"
                    .into(),
            );
        }
        "ext_path" => {
            let text = needed()?;
            into.ext_path = ext_path(text)?;
            if into.ext_path.is_none() {
                notes.push(format!(
                    "-o ext_path={text}: its size is 0, as memcached reads it: all items stay in DRAM; a number with m, g, \
                     t or p behind it would be one"
                ));
            }
        }
        "ext_threads" => into.ext_threads = Some(number(needed()?, &flag(), 1..=128, "1 to 128")? as usize),
        "read_buf_mem_limit" => {
            into.read_buf_mem_limit = number(needed()?, &flag(), 0..=1 << 40, "megabytes")? as u64;
        }
        "ssl_chain_cert" => into.ssl_chain_cert = file()?,
        "ssl_key" => into.ssl_key = file()?,
        "ssl_ca_cert" => into.ssl_ca_cert = file()?,
        "ssl_verify_mode" => {
            into.ssl_verify_mode = Some(match needed()? {
                "0" => ClientAuth::No,
                "1" => ClientAuth::Optional,
                "2" | "3" => ClientAuth::Yes,
                other => return Err(format!("-o ssl_verify_mode {other:?}: expected 0, 1, 2 or 3")),
            });
        }
        "ssl_min_version" => match needed()? {
            "0" | "1" | "tlsv1.0" | "tlsv1.1" => {
                notes.push("-o ssl_min_version: TLS 1.2 is the least that is spoken".into());
            }
            "2" | "tlsv1.2" => {}
            "3" | "tlsv1.3" => into.only_tls13 = true,
            other => {
                return Err(format!("-o ssl_min_version {other:?}: expected 2 for TLS 1.2 or 3 for TLS 1.3"));
            }
        },
        "ssl_keyformat" if needed()?.eq_ignore_ascii_case("pem") => {}
        "ssl_keyformat" => {
            return Err("-o ssl_keyformat: keys are read in PEM only; openssl pkey converts them".into());
        }
        "ssl_ciphers" => {
            return Err("-o ssl_ciphers: the ciphers can't be chosen: all that are offered are held to be safe; leave it out"
                .into());
        }
        name if name.starts_with("proxy_") => {
            return Err(format!("-o {name}: terrace is no proxy; leave it out"));
        }
        name if ANYHOW.contains(&name) => {}
        name => match NOTHING.iter().find(|(_, names)| names.contains(&name)) {
            Some((why, _)) => notes.push(format!("-o {name}: {why}")),
            None => return Err(format!("Illegal suboption \"{name}\"")),
        },
    }
    Ok(())
}

/// What memcached calls the part of its storage that is used unless another is named; there are no such parts here.
const BUCKETS: [&str; 4] = [":compact", ":lowttl", ":chunked", ":default"];

/// `PATH:SIZE`, the size with m, g, t or p behind it; `None` if it comes to 0: without one of these it does.
fn ext_path(text: &str) -> Result<Option<(PathBuf, u64)>, String> {
    let expected = || format!("-o ext_path {text:?}: expected PATH:SIZE such as /mnt/ssd/cache:64G");
    let text = BUCKETS.iter().find_map(|bucket| text.strip_suffix(bucket)).unwrap_or(text);
    let (path, size) = text.rsplit_once(':').filter(|(path, _)| !path.is_empty()).ok_or_else(expected)?;
    let (at, unit) = size.char_indices().next_back().ok_or_else(expected)?;
    let shift = match unit.to_ascii_lowercase() {
        'm' => 20,
        'g' => 30,
        't' => 40,
        'p' => 50,
        _ => return Ok(None),
    };
    let number = if at == 0 { Some(0) } else { size[..at].parse::<u64>().ok() };
    let bytes = number.and_then(|number| number.checked_mul(1 << shift)).ok_or_else(expected)?;
    Ok((bytes > 0).then(|| (path.into(), bytes)))
}
