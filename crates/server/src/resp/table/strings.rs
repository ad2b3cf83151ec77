//! Commands on values.

use super::{ALL, Command, KeySpec, NONE, ONE, PAIRS, command};
use crate::resp::text::{compare, float, increx, lcs, msetex, msetnx, part};
use crate::resp::{counters, strings};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    command("append", 3, "write denyoom fast", ONE, "string", part::append, "Puts bytes at the end of a value.")
        .since("2.0.0").syntax("key value").access("RW insert"),
    command("decr", 2, "write denyoom fast", ONE, "string", counters::decr, "Subtracts one from a number.")
        .syntax("key"),
    command("decrby", 3, "write denyoom fast", ONE, "string", counters::decrby, "Subtracts from a number.")
        .syntax("key decrement"),
    command("delex", -2, "write fast", ONE, "string", compare::delex, "Deletes a key if its value is, or is not, a known one.")
        .since("8.4.0").cost("O(1) for IFEQ/IFNE, O(N) for IFDEQ/IFDNE where N is the length of the string value.").syntax("key [IFEQ ifeq-value:string|IFNE ifne-value:string|IFDEQ ifdeq-digest:string|IFDNE ifdne-digest:string]").access("RW delete variable_flags"),
    command("delifeq", 3, "write fast", ONE, "string", compare::delifeq, "Deletes a key if its value is a known one. Valkey's.")
        .since("9.0.0").syntax("key value").access("RW access delete"),
    command("digest", 2, "readonly fast", ONE, "string", compare::tell, "Tells the digest of a value.")
        .since("8.4.0").cost("O(N) where N is the length of the string value.").syntax("key"),
    command("get", 2, "readonly fast", ONE, "string", strings::get, "Reads a value.")
        .syntax("key"),
    command("getdel", 2, "write fast", ONE, "string", strings::getdel, "Reads a value and deletes its key.")
        .since("6.2.0").syntax("key").access("RW access delete"),
    command("getex", -2, "write fast", ONE, "string", strings::getex, "Reads a value and changes its expiry.")
        .since("6.2.0").syntax("key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]"),
    command("getrange", 4, "readonly", ONE, "string", part::getrange, "Reads a part of a value.")
        .since("2.4.0").cost("O(N) where N is the length of the returned string").syntax("key start:integer end:integer"),
    command("getset", 3, "write denyoom fast", ONE, "string", strings::getset, "Sets a value and reads the old one.")
        .syntax("key value").deprecated("6.2.0", "SET with the GET argument"),
    command("incr", 2, "write denyoom fast", ONE, "string", counters::incr, "Adds one to a number.")
        .syntax("key"),
    command("incrby", 3, "write denyoom fast", ONE, "string", counters::incrby, "Adds to a number.")
        .syntax("key increment"),
    command("incrbyfloat", 3, "write denyoom fast", ONE, "string", float::incrbyfloat, "Adds to a floating-point number.")
        .since("2.6.0").syntax("key increment:double"),
    command("increx", -2, "write denyoom fast", ONE, "string", increx::increx, "Adds to a number within bounds, and changes its expiry.")
        .since("8.8.0").syntax("key [BYFLOAT float:double|BYINT integer] [LBOUND lowerbound:string] [UBOUND upperbound:string] [SATURATE] [EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST] [ENX]"),
    command("lcs", -3, "readonly", (1, 2, 1), "string", lcs::lcs, "Tells the longest common subsequence of two values.")
        .since("7.0.0").cost("O(N*M) where N and M are the lengths of the values").syntax("key1:key key2:key [LEN] [IDX] [MINMATCHLEN min-match-len:integer] [WITHMATCHLEN]"),
    command("mget", -2, "readonly fast", ALL, "string", strings::mget, "Reads several values, each as it is then; large ones in several turns.")
        .cost("O(N) where N is the number of keys to retrieve").syntax("key...").tips("request_policy:multi_shard"),
    command("mset", -3, "write denyoom", PAIRS, "string", strings::mset, "Sets several values in one step.")
        .since("1.0.1").cost("O(N) where N is the number of keys to set").syntax("(key value)...").access("OW update").tips("request_policy:multi_shard response_policy:all_succeeded"),
    command("msetex", -4, "write denyoom movablekeys", NONE, "string", msetex::msetex, "Sets several values and their expiry in one step, if all keys are there or none.")
        .since("8.4.0").cost("O(N) where N is the number of keys to set.").syntax("numkeys:integer (key value)... [NX|XX] [EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]").specs(&[
            KeySpec::counted(2, 2, "OW update"),
        ]),
    command("msetnx", -3, "write denyoom", PAIRS, "string", msetnx::msetnx, "Sets several values in one step if no key is there.")
        .since("1.0.1").cost("O(N) where N is the number of keys to set").syntax("(key value)...").access("OW insert").tips("request_policy:multi_shard response_policy:agg_min"),
    command("psetex", 4, "write denyoom", ONE, "string", strings::psetex, "Sets a value and its time to live in milliseconds.")
        .since("2.6.0").syntax("key milliseconds value").access("OW update"),
    command("set", -3, "write denyoom", ONE, "string", strings::set, "Sets a value.")
        .syntax("key value [NX|XX|IFEQ ifeq-value:string|IFNE ifne-value:string|IFDEQ ifdeq-digest:string|IFDNE ifdne-digest:string] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]").access("RW access update variable_flags"),
    command("setex", 4, "write denyoom", ONE, "string", strings::setex, "Sets a value and its time to live in seconds.")
        .since("2.0.0").syntax("key seconds value").access("OW update"),
    command("setnx", 3, "write denyoom fast", ONE, "string", strings::setnx, "Sets a value if the key is absent.")
        .syntax("key value").access("OW insert"),
    command("setrange", 4, "write denyoom", ONE, "string", part::setrange, "Overwrites a part of a value.")
        .since("2.2.0").cost("O(M) where M is the length of the value").syntax("key offset:integer value").access("RW update"),
    command("strlen", 2, "readonly fast", ONE, "string", strings::strlen, "Tells the length of a value.")
        .since("2.2.0").syntax("key").access("RO"),
    command("substr", 4, "readonly", ONE, "string", part::getrange, "Reads a part of a value.")
        .cost("O(N) where N is the length of the returned string").syntax("key start:integer end:integer").deprecated("2.0.0", "GETRANGE"),
];
