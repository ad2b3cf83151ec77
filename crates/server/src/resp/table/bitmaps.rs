//! Commands on bits.

use super::{Command, KeySpec, ONE, command};
use crate::resp::bits::{fields, merge, reads, single};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    command("bitcount", -2, "readonly", ONE, "bitmap", reads::bitcount, "Counts the bits that are set.")
        .since("2.6.0").cost("O(N)").syntax("key [start:integer end:integer [BYTE|BIT]]"),
    command("bitfield", -2, "write denyoom", ONE, "bitmap", fields::bitfield, "Reads and writes numbers of any width within a value.")
        .since("3.2.0").cost("O(1) for each subcommand specified").syntax("key [(GET encoding:string offset:integer)|([OVERFLOW WRAP|SAT|FAIL] (SET encoding:string offset:integer value:integer)|(INCRBY encoding:string offset:integer increment:integer))]...").access("RW access update variable_flags"),
    command("bitfield_ro", -2, "readonly fast", ONE, "bitmap", fields::bitfield_ro, "Reads numbers of any width within a value.")
        .since("6.0.0").cost("O(1) for each subcommand specified").syntax("key [(GET encoding:string offset:integer)...]"),
    command("bitop", -4, "write denyoom", (2, -1, 1), "bitmap", merge::bitop, "Combines values bit by bit.")
        .since("2.6.0").cost("O(N)").syntax("operation:string destkey:key key...").specs(&[
            KeySpec::run(2, 0, 1, "OW update"),
            KeySpec::run(3, -1, 1, "RO access"),
        ]),
    command("bitpos", -3, "readonly", ONE, "bitmap", reads::bitpos, "Finds the first bit that is set, or not.")
        .since("2.8.7").cost("O(N)").syntax("key bit:integer [start:integer [end:integer [BYTE|BIT]]]"),
    command("getbit", 3, "readonly fast", ONE, "bitmap", single::getbit, "Reads a bit.")
        .since("2.2.0").syntax("key offset:integer"),
    command("setbit", 4, "write denyoom", ONE, "bitmap", single::setbit, "Sets or clears a bit.")
        .since("2.2.0").syntax("key offset:integer value:integer"),
];
