//! Names of Redis's commands that are not in the table. Rules of the ACL on them are kept and told as they are in Redis, though
//! nothing is behind them: who moves a file of users here finds it read. Who calls one is told what the server lacks: it is no
//! slip of the keyboard.

/// In the order of bytes.
#[rustfmt::skip]
const NAMES: [&str; 175] = [
    "blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax", "bzpopmin",
    "cluster|addslots", "cluster|addslotsrange", "cluster|bumpepoch", "cluster|count-failure-reports",
    "cluster|delslots", "cluster|delslotsrange", "cluster|failover", "cluster|flushslots", "cluster|forget",
    "cluster|links", "cluster|meet", "cluster|myshardid", "cluster|replicas", "cluster|replicate",
    "cluster|reset", "cluster|saveconfig", "cluster|set-config-epoch", "cluster|setslot", "cluster|slaves",
    "eval", "eval_ro", "evalsha", "evalsha_ro", "failover", "fcall", "fcall_ro", "function|delete",
    "function|dump", "function|load", "function|restore", "function|stats", "geoadd", "geodist", "geohash",
    "geopos", "georadius", "georadius_ro", "georadiusbymember", "georadiusbymember_ro", "geosearch",
    "geosearchstore", "hdel", "hexists", "hexpire", "hexpireat", "hexpiretime", "hget", "hgetall",
    "hincrby", "hincrbyfloat", "hkeys", "hlen", "hmget", "hmset", "hpersist", "hpexpire", "hpexpireat",
    "hpexpiretime", "hpttl", "hrandfield", "hscan", "hset", "hsetnx", "hstrlen", "httl", "hvals", "lindex",
    "linsert", "llen", "lmove", "lmpop", "lpop", "lpos", "lpush", "lpushx", "lrange", "lrem", "lset",
    "ltrim", "migrate", "module|load", "module|loadex", "module|unload", "psync", "replconf",
    "restore-asking", "rpop", "rpoplpush", "rpush", "rpushx", "sadd", "scard", "script|debug",
    "script|load", "sdiff", "sdiffstore", "sinter", "sintercard", "sinterstore", "sismember", "smembers",
    "smismember", "smove", "spop", "srandmember", "srem", "sscan", "sunion", "sunionstore", "sync", "xack",
    "xadd", "xautoclaim", "xclaim", "xdel", "xgroup", "xgroup|create", "xgroup|createconsumer",
    "xgroup|delconsumer", "xgroup|destroy", "xgroup|help", "xgroup|setid", "xinfo", "xinfo|consumers",
    "xinfo|groups", "xinfo|help", "xinfo|stream", "xlen", "xpending", "xrange", "xread", "xreadgroup",
    "xrevrange", "xsetid", "xtrim", "zadd", "zcard", "zcount", "zdiff", "zdiffstore", "zincrby", "zinter",
    "zintercard", "zinterstore", "zlexcount", "zmpop", "zmscore", "zpopmax", "zpopmin", "zrandmember",
    "zrange", "zrangebylex", "zrangebyscore", "zrangestore", "zrank", "zrem", "zremrangebylex",
    "zremrangebyrank", "zremrangebyscore", "zrevrange", "zrevrangebylex", "zrevrangebyscore", "zrevrank",
    "zscan", "zscore", "zunion", "zunionstore",
];

/// Whether a command of this name, which is in lower case and may be `container|subcommand`, is Redis's and not in the table.
pub(in crate::resp) fn is_elsewhere(name: &[u8]) -> bool {
    NAMES.binary_search_by(|known| known.as_bytes().cmp(name)).is_ok()
}

/// Whether such a command has subcommands.
pub(in crate::resp) fn has_subs_elsewhere(name: &[u8]) -> bool {
    let is_of = |known: &&str| known.as_bytes().strip_prefix(name).is_some_and(|rest| rest.starts_with(b"|"));
    NAMES.iter().any(is_of)
}

/// What the server would have to have for such a command, or for the container of such commands; `None` for any other name. The
/// name may be in any case.
pub(in crate::resp) fn lacks(name: &[u8]) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    if !is_elsewhere(&name) && !has_subs_elsewhere(&name) {
        return None;
    }
    let begins = |with: &[&[u8]]| with.iter().any(|with| name.starts_with(with));
    Some(match name.as_slice() {
        b"migrate" | b"restore-asking" => "cluster",
        b"failover" | b"psync" | b"replconf" | b"sync" => "replication",
        _ if begins(&[b"cluster"]) => "cluster",
        _ if begins(&[b"module"]) => "modules",
        _ if begins(&[b"eval", b"fcall", b"function", b"script"]) => "scripts",
        _ if begins(&[b"geo"]) => "geospatial indexes",
        _ if begins(&[b"h"]) => "hashes",
        _ if begins(&[b"bz", b"z"]) => "sorted sets",
        _ if begins(&[b"x"]) => "streams",
        _ if begins(&[b"b", b"l", b"rpop", b"rpush"]) => "lists",
        _ => "sets",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_elsewhere_has_a_family() {
        // Lists and sets are told last, so that what belongs to no other family would be counted with them.
        let of = |family| NAMES.iter().filter(|name| lacks(name.as_bytes()) == Some(family)).count();
        assert_eq!((of("lists"), of("sets")), (22, 17));
        assert!(NAMES.iter().all(|name| lacks(name.as_bytes()).is_some()));
        for (name, family) in [
            ("LPUSH", "lists"),
            ("BLMOVE", "lists"),
            ("RPopLPush", "lists"),
            ("srandmember", "sets"),
            ("bzpopmin", "sorted sets"),
            ("HSET", "hashes"),
            ("xgroup", "streams"),
            ("script|load", "scripts"),
        ] {
            assert_eq!(lacks(name.as_bytes()), Some(family), "{name}");
        }
        assert!(
            ["get", "nonsense", "", "lpushs", "xgroup|nosuch"].iter().all(|n| lacks(n.as_bytes()).is_none())
        );
    }

    #[test]
    fn the_names_are_in_order_and_none_is_in_the_table() {
        assert!(NAMES.is_sorted_by(|a, b| a < b), "{NAMES:?}");
        for name in NAMES {
            assert!(is_elsewhere(name.as_bytes()), "{name}");
            assert!(super::super::named(name.as_bytes()).is_none(), "{name} is in the table");
        }
        assert!(!is_elsewhere(b"nosuch") && !is_elsewhere(b"get"));
        assert!(has_subs_elsewhere(b"xinfo") && !has_subs_elsewhere(b"eval") && !has_subs_elsewhere(b"xinf"));
    }
}
