//! Commands about connections.

use super::{Command, NONE, command, container, sub};
use crate::resp::{acl, client, connection, help, tracking};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    command("auth", -2, "noscript loading stale fast no_auth allow_busy", NONE, "connection", acl::auth, "Logs in.")
        .cost("O(N) where N is the number of passwords defined for the user").syntax("[username] password"),
    container(command("client", -2, "", NONE, "connection", connection::container, "Tells about and names connections.")
        .since("2.4.0").categories(""), CLIENT),
    command("echo", 2, "loading stale fast", NONE, "connection", connection::echo, "Answers with its argument.")
        .syntax("message"),
    command("hello", -1, "noscript loading stale fast no_auth allow_busy", NONE, "connection", connection::hello, "Chooses the protocol's version.")
        .since("6.0.0").syntax("[protover [AUTH (username password)] [SETNAME clientname]]"),
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
    sub("client|caching", 3, tracking::caching, "Chooses whether the next command's keys are tracked.").flags("noscript loading stale")
        .since("6.0.0").syntax("(YES|NO)"),
    sub("client|getname", 2, client::getname, "Tells the connection's name.").flags("noscript loading stale")
        .since("2.6.9"),
    sub("client|getredir", 2, tracking::getredir, "Tells the connection that hears of invalidations.").flags("noscript loading stale")
        .since("6.0.0"),
    sub("client|help", 2, help::help, "Tells the subcommands.")
        .since("5.0.0"),
    sub("client|id", 2, client::id, "Tells the connection's number.").flags("noscript loading stale")
        .since("5.0.0"),
    sub("client|info", 2, client::info, "Tells about this connection.").flags("noscript loading stale")
        .since("6.2.0").tips("nondeterministic_output"),
    sub("client|kill", -3, client::kill, "Ends connections.").flags("admin noscript loading stale")
        .since("2.4.0").cost("O(N) where N is the number of client connections").syntax("(ip:port|[ID client-id|TYPE (NORMAL|MASTER|SLAVE|REPLICA|PUBSUB)|USER username|ADDR ip:port|LADDR ip:port|SKIPME yes/no|MAXAGE maxage...])"),
    sub("client|list", -2, client::list, "Tells about connections.").flags("admin noscript loading stale")
        .since("2.4.0").cost("O(N) where N is the number of client connections").syntax("[TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [client-id...]").tips("nondeterministic_output"),
    sub("client|no-evict", 3, client::no_evict, "Accepted; no connection is evicted.").flags("admin noscript loading stale")
        .since("7.0.0").syntax("(ON|OFF)"),
    sub("client|no-touch", 3, client::no_touch, "Accepted; reads are counted all the same.").flags("noscript loading stale")
        .since("7.2.0").syntax("(ON|OFF)"),
    sub("client|pause", -3, client::pause, "Holds commands for a time.").flags("admin noscript loading stale")
        .since("2.9.50").syntax("timeout [WRITE|ALL]"),
    sub("client|reply", 3, client::reply, "Chooses whether commands are answered.").flags("noscript loading stale")
        .since("3.2.0").syntax("(ON|OFF|SKIP)"),
    sub("client|setinfo", 4, client::setinfo, "Names the client's library.").flags("noscript loading stale")
        .since("7.2.0").syntax("(LIB-NAME libname|LIB-VER libver)"),
    sub("client|setname", 3, client::setname, "Names the connection.").flags("noscript loading stale")
        .since("2.6.9").syntax("connection-name"),
    sub("client|tracking", -3, tracking::tracking, "Tells the client when keys that it has read are written.").flags("noscript loading stale")
        .since("6.0.0").cost("O(1). Some options may introduce additional complexity.").syntax("(ON|OFF) [REDIRECT client-id] [PREFIX prefix [PREFIX prefix...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]"),
    sub("client|trackinginfo", 2, tracking::trackinginfo, "Tells how the connection tracks.").flags("noscript loading stale")
        .since("6.2.0"),
    sub("client|unblock", -3, client::unblock, "Ends a wait; no command here waits.").flags("admin noscript loading stale")
        .since("5.0.0").cost("O(log N) where N is the number of client connections").syntax("client-id [TIMEOUT|ERROR]"),
    sub("client|unpause", 2, client::unpause, "Ends a pause.").flags("admin noscript loading stale")
        .since("6.2.0").cost("O(N) Where N is the number of paused clients"),
];
