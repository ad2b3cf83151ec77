//! Commands on keys of any type.

use super::{ALL, Command, NONE, ONE, command};
use crate::resp::{expiry, keys, scan};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    command("del", -2, "write", ALL, "generic", keys::del, "Deletes keys.")
        .cost("O(N) where N is the number of keys that will be removed").syntax("key...").access("RM delete").tips("request_policy:multi_shard response_policy:agg_sum"),
    command("exists", -2, "readonly fast", ALL, "generic", keys::exists, "Counts the keys that are there.")
        .cost("O(N) where N is the number of keys to check").syntax("key...").access("RO").tips("request_policy:multi_shard response_policy:agg_sum"),
    command("expire", -3, "write fast", ONE, "generic", expiry::expire, "Sets a time to live in seconds.")
        .syntax("key seconds [NX|XX|GT|LT]").access("RW update"),
    command("expireat", -3, "write fast", ONE, "generic", expiry::expireat, "Sets the second of expiry.")
        .since("1.2.0").syntax("key unix-time-seconds [NX|XX|GT|LT]").access("RW update"),
    command("expiretime", 2, "readonly fast", ONE, "generic", expiry::expiretime, "Tells the second of expiry.")
        .since("7.0.0").syntax("key"),
    command("persist", 2, "write fast", ONE, "generic", expiry::persist, "Removes the expiry.")
        .since("2.2.0").syntax("key").access("RW update"),
    command("pexpire", -3, "write fast", ONE, "generic", expiry::pexpire, "Sets a time to live in milliseconds.")
        .since("2.6.0").syntax("key milliseconds [NX|XX|GT|LT]").access("RW update"),
    command("pexpireat", -3, "write fast", ONE, "generic", expiry::pexpireat, "Sets the millisecond of expiry.")
        .since("2.6.0").syntax("key unix-time-milliseconds [NX|XX|GT|LT]").access("RW update"),
    command("pexpiretime", 2, "readonly fast", ONE, "generic", expiry::pexpiretime, "Tells the millisecond of expiry.")
        .since("7.0.0").syntax("key"),
    command("pttl", 2, "readonly fast", ONE, "generic", expiry::pttl, "Tells the time to live in milliseconds.")
        .since("2.6.0").syntax("key").tips("nondeterministic_output"),
    command("scan", -2, "readonly", NONE, "generic", scan::scan, "Iterates over the keys of the database.")
        .since("2.8.0").cost("O(1) for every call").syntax("cursor [MATCH pattern] [COUNT count] [TYPE type]").tips("nondeterministic_output request_policy:special"),
    command("touch", -2, "readonly fast", ALL, "generic", keys::exists, "Counts the keys that are there.")
        .since("3.2.1").cost("O(N) where N is the number of keys that will be touched").syntax("key...").access("RO").tips("request_policy:multi_shard response_policy:agg_sum"),
    command("ttl", 2, "readonly fast", ONE, "generic", expiry::ttl, "Tells the time to live in seconds.")
        .syntax("key").tips("nondeterministic_output"),
    command("type", 2, "readonly fast", ONE, "generic", keys::type_of, "Tells a value's type.")
        .syntax("key").access("RO"),
    command("unlink", -2, "write fast", ALL, "generic", keys::del, "Deletes keys.")
        .since("4.0.0").cost("O(1) for each key removed regardless of its size").syntax("key...").access("RM delete").tips("request_policy:multi_shard response_policy:agg_sum"),
];
