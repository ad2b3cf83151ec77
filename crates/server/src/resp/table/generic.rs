//! Commands on keys of any type.

use super::{ALL, Command, KeySpec, NONE, ONE, command, container, sub};
use crate::resp::generic::{every, moving, object, random, refused, restore};
use crate::resp::{admin, connection, expiry, help, keys, scan};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    command("copy", -3, "write denyoom", (1, 2, 1), "generic", moving::copy, "Copies a value to another key.")
        .since("6.2.0").cost("O(1)").syntax("source:key destination:key [DB destination-db:integer] [REPLACE]").specs(&[
            KeySpec::run(1, 0, 1, "RO access"),
            KeySpec::run(2, 0, 1, "OW update"),
        ]),
    command("del", -2, "write", ALL, "generic", keys::del, "Deletes keys.")
        .cost("O(N) where N is the number of keys that will be removed").syntax("key...").access("RM delete").tips("request_policy:multi_shard response_policy:agg_sum"),
    command("dump", 2, "readonly", ONE, "generic", restore::dump, "Tells a value in a form that RESTORE takes.")
        .since("2.6.0").syntax("key").tips("nondeterministic_output"),
    command("exists", -2, "readonly fast", ALL, "generic", keys::exists, "Counts the keys that are there.")
        .cost("O(N) where N is the number of keys to check").syntax("key...").access("RO").tips("request_policy:multi_shard response_policy:agg_sum"),
    command("expire", -3, "write fast", ONE, "generic", expiry::expire, "Sets a time to live in seconds.")
        .syntax("key seconds [NX|XX|GT|LT]").access("RW update"),
    command("expireat", -3, "write fast", ONE, "generic", expiry::expireat, "Sets the second of expiry.")
        .since("1.2.0").syntax("key unix-time-seconds [NX|XX|GT|LT]").access("RW update"),
    command("expiretime", 2, "readonly fast", ONE, "generic", expiry::expiretime, "Tells the second of expiry.")
        .since("7.0.0").syntax("key"),
    command("keys", 2, "readonly", NONE, "generic", every::keys, "Tells the keys that fit a pattern.")
        .categories("keyspace dangerous").cost("O(N) with N being the number of keys in all databases").syntax("pattern").tips("request_policy:all_shards nondeterministic_output_order"),
    command("move", 3, "write fast", ONE, "generic", moving::move_to, "Moves a key to another database.")
        .syntax("key db:integer").access("RW access update"),
    container(command("object", -2, "", NONE, "generic", connection::container, "Tells how a value is kept.")
        .categories("").since("2.2.3").cost("Depends on subcommand."), OBJECT),
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
    command("randomkey", 1, "readonly", NONE, "generic", random::randomkey, "Tells any key.")
        .tips("request_policy:all_shards nondeterministic_output"),
    command("rename", 3, "write", (1, 2, 1), "generic", moving::rename, "Gives a value another key.")
        .syntax("key newkey:key").specs(&[
            KeySpec::run(1, 0, 1, "RW access delete"),
            KeySpec::run(2, 0, 1, "OW update"),
        ]),
    command("renamenx", 3, "write fast", (1, 2, 1), "generic", moving::renamenx, "Gives a value another key if that is absent.")
        .syntax("key newkey:key").specs(&[
            KeySpec::run(1, 0, 1, "RW access delete"),
            KeySpec::run(2, 0, 1, "OW insert"),
        ]),
    command("restore", -4, "write denyoom", ONE, "generic", restore::restore, "Makes a value of what DUMP told.")
        .categories("keyspace dangerous").since("2.6.0").syntax("key ttl:integer serialized-value:string [REPLACE] [ABSTTL] [IDLETIME seconds:integer] [FREQ frequency:integer]").access("OW update"),
    command("scan", -2, "readonly", NONE, "generic", scan::scan, "Iterates over the keys of the database.")
        .since("2.8.0").cost("O(1) for every call").syntax("cursor [MATCH pattern] [COUNT count] [TYPE type]").tips("nondeterministic_output request_policy:special"),
    command("sort", -2, "write denyoom movablekeys", ONE, "generic", refused::sort, "Refused: there are no lists and sets.")
        .categories("set sortedset list dangerous").cost("N/A").syntax("key [BY pattern] [LIMIT offset count] [GET pattern...] [ASC|DESC] [ALPHA] [STORE destination:key]").access("RO access"),
    command("sort_ro", -2, "readonly movablekeys", ONE, "generic", refused::sort, "Refused: there are no lists and sets.")
        .categories("set sortedset list dangerous").since("7.0.0").cost("N/A").syntax("key [BY pattern] [LIMIT offset count] [GET pattern...] [ASC|DESC] [ALPHA]"),
    command("touch", -2, "readonly fast", ALL, "generic", keys::exists, "Counts the keys that are there.")
        .since("3.2.1").cost("O(N) where N is the number of keys that will be touched").syntax("key...").access("RO").tips("request_policy:multi_shard response_policy:agg_sum"),
    command("ttl", 2, "readonly fast", ONE, "generic", expiry::ttl, "Tells the time to live in seconds.")
        .syntax("key").tips("nondeterministic_output"),
    command("type", 2, "readonly fast", ONE, "generic", keys::type_of, "Tells a value's type.")
        .syntax("key").access("RO"),
    command("unlink", -2, "write fast", ALL, "generic", keys::del, "Deletes keys.")
        .since("4.0.0").cost("O(1) for each key removed regardless of its size").syntax("key...").access("RM delete").tips("request_policy:multi_shard response_policy:agg_sum"),
    command("wait", 3, "noscript", NONE, "generic", admin::wait, "Tells how many replicas have what was written: none.")
        .since("3.0.0").syntax("numreplicas timeout").categories("connection").tips("request_policy:all_shards response_policy:agg_min"),
    command("waitaof", 4, "noscript", NONE, "generic", admin::waitaof, "Tells that what was written is durable here.")
        .since("7.2.0").syntax("numlocal:integer numreplicas timeout").categories("connection").tips("request_policy:all_shards response_policy:agg_min"),
];

#[rustfmt::skip]
const OBJECT: &[Command] = &[
    sub("object|encoding", 3, object::encoding, "Tells how Redis would keep the value.")
        .flags("readonly").keys((2, 2, 1)).access("RO").since("2.2.3").syntax("key").tips("nondeterministic_output"),
    sub("object|freq", 3, object::freq, "Refused: the frequency of access is not tracked.")
        .flags("readonly").keys((2, 2, 1)).access("RO").since("4.0.0").syntax("key").tips("nondeterministic_output"),
    sub("object|help", 2, help::help, "Tells the subcommands.")
        .since("6.2.0"),
    sub("object|idletime", 3, object::idletime, "Tells for how many seconds a key was not used, since somebody first asked.")
        .flags("readonly").keys((2, 2, 1)).access("RO").since("2.2.3").syntax("key").tips("nondeterministic_output"),
    sub("object|refcount", 3, object::refcount, "Tells that the value is referred to once.")
        .flags("readonly").keys((2, 2, 1)).access("RO").since("2.2.3").syntax("key").tips("nondeterministic_output"),
];
