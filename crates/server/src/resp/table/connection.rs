//! Commands about connections.

use super::{Command, NONE, command, container, sub};
use crate::resp::{client, connection};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    command("auth", -2, "noscript loading stale fast no_auth allow_busy", NONE, "connection", connection::auth, "Authenticates; this server has no passwords.")
        .cost("O(N) where N is the number of passwords defined for the user").syntax("[username] password"),
    container(command("client", -2, "", NONE, "connection", connection::container, "Tells about and names connections.")
        .since("2.4.0").categories(""), CLIENT),
    command("echo", 2, "loading stale fast", NONE, "connection", connection::echo, "Answers with its argument.")
        .syntax("message"),
    command("hello", -1, "noscript loading stale fast no_auth allow_busy", NONE, "connection", connection::hello, "Chooses the protocol's version.")
        .since("6.0.0").syntax("[protover [username password] [SETNAME clientname]]"),
    command("ping", -1, "fast", NONE, "connection", connection::ping, "Answers.")
        .syntax("[message]").tips("request_policy:all_shards response_policy:all_succeeded"),
    command("quit", -1, "noscript loading stale fast no_auth allow_busy", NONE, "connection", connection::quit, "Closes the connection."),
    command("reset", 1, "noscript loading stale fast no_auth allow_busy", NONE, "connection", connection::reset, "Makes the connection as good as new.")
        .since("6.2.0"),
    command("select", 2, "loading stale fast", NONE, "connection", connection::select, "Chooses the database.")
        .syntax("index"),
];

#[rustfmt::skip]
const CLIENT: &[Command] = &[
    sub("client|getname", 2, client::getname, "Tells the connection's name.").flags("noscript loading stale")
        .since("2.6.9"),
    sub("client|id", 2, client::id, "Tells the connection's number.").flags("noscript loading stale")
        .since("5.0.0"),
    sub("client|info", 2, client::info, "Tells about this connection.").flags("noscript loading stale")
        .since("6.2.0").tips("nondeterministic_output"),
    sub("client|list", -2, client::list, "Tells about this connection; others are not listed.").flags("admin noscript loading stale")
        .since("2.4.0").cost("O(N) where N is the number of client connections").syntax("[TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [client-id...]").tips("nondeterministic_output"),
    sub("client|no-evict", 3, client::no_evict, "Accepted; no connection is evicted.").flags("admin noscript loading stale")
        .since("7.0.0").syntax("(ON|OFF)"),
    sub("client|no-touch", 3, client::no_touch, "Accepted; reads are counted all the same.").flags("noscript loading stale")
        .since("7.2.0").syntax("(ON|OFF)"),
    sub("client|reply", 3, client::reply, "Accepts ON.").flags("noscript loading stale")
        .since("3.2.0").syntax("(ON|OFF|SKIP)"),
    sub("client|setinfo", 4, client::setinfo, "Names the client's library.").flags("noscript loading stale")
        .since("7.2.0").syntax("(LIB-NAME libname|LIB-VER libver)"),
    sub("client|setname", 3, client::setname, "Names the connection.").flags("noscript loading stale")
        .since("2.6.9").syntax("connection-name"),
];
