//! Commands on HyperLogLogs.

use super::{ALL, Command, KeySpec, NONE, ONE, command};
use crate::resp::hyperloglog::{commands, debug};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    command("pfadd", -2, "write denyoom fast", ONE, "hyperloglog", commands::pfadd, "Counts elements.")
        .since("2.8.9").cost("O(1) to add every element").syntax("key [element...]").access("RW insert"),
    command("pfcount", -2, "readonly", ALL, "hyperloglog", commands::pfcount, "Tells about how many different elements were counted.")
        .since("2.8.9").cost("O(1) for one key, O(N) for N keys").syntax("key...").access("RW access"),
    command("pfdebug", 3, "write denyoom admin", (2, 2, 1), "hyperloglog", debug::pfdebug, "Tells how a HyperLogLog is kept.")
        .since("2.8.9").cost("N/A").syntax("subcommand:string key").access("RW access"),
    command("pfmerge", -2, "write denyoom", ALL, "hyperloglog", commands::pfmerge, "Merges HyperLogLogs into one.")
        .since("2.8.9").cost("O(N) to merge N HyperLogLogs").syntax("destkey:key [sourcekey:key...]").specs(&[
            KeySpec::run(1, 0, 1, "RW access insert"),
            KeySpec::run(2, -1, 1, "RO access"),
        ]),
    command("pfselftest", 1, "admin", NONE, "hyperloglog", debug::pfselftest, "Checks that HyperLogLogs count as they should.")
        .since("2.8.9").cost("N/A"),
];
