//! Commands of transactions.

use super::{ALL, Command, NONE, command};
use crate::resp::transaction;

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    command("discard", 1, "noscript loading stale fast allow_busy", NONE, "transactions", transaction::discard, "Forgets the commands kept since MULTI, and what is watched.")
        .since("2.0.0").cost("O(N), when N is the number of queued commands"),
    command("exec", 1, "noscript loading stale skip_slowlog", NONE, "transactions", transaction::exec, "Executes the commands kept since MULTI as one step, which may read 256 MiB.")
        .since("1.2.0").cost("Depends on commands in the transaction"),
    command("multi", 1, "noscript loading stale fast allow_busy", NONE, "transactions", transaction::multi, "Begins a transaction.")
        .since("1.2.0"),
    command("unwatch", 1, "noscript loading stale fast allow_busy", NONE, "transactions", transaction::unwatch, "Forgets what is watched.")
        .since("2.2.0"),
    command("watch", -2, "noscript loading stale fast allow_busy", ALL, "transactions", transaction::watch, "Makes the next EXEC do nothing if one of the keys is changed before.")
        .access("RO").since("2.2.0").cost("O(1) for every key.").syntax("key..."),
];
