//! Users whose rules change while they are connected, the log of refusals, and what a client may claim that has not logged in.

use std::net::SocketAddr;
use std::sync::Barrier;

use terrace_protocol::resp::Value;
use terrace_server::ServerOptions;

use crate::client::{Client, bulk, error, ok};
use crate::original::ask_original;
use crate::ours::{Ours, ask_ours};

#[test]
fn who_has_not_logged_in_may_claim_little() {
    let ours = Ours::start_with(ServerOptions { requirepass: "secret".into(), ..ServerOptions::default() });
    for (claim, answer) in [
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*2\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ] {
        let mut client = Client::connect(ours.address);
        client.send(claim.as_bytes());
        assert_eq!(String::from_utf8(client.rest()).unwrap(), answer);
    }
    let mut client = Client::connect(ours.address);
    let long = "x".repeat(20_000);
    // All at once: who logs in may claim more from the next command on.
    client.send(format!("AUTH secret\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$20000\r\n{long}\r\n").as_bytes());
    assert_eq!((client.answer(), client.answer()), (ok(), ok()));
    ours.stop();
}

#[test]
fn changes_reach_connections_that_are_there() {
    let ours = Ours::start();
    let (mut admin, mut bob) = (Client::connect(ours.address), Client::connect(ours.address));
    admin.ask(&["ACL", "SETUSER", "bob", "on", ">pw", "~*", "+get"]);
    assert_eq!(bob.ask(&["AUTH", "bob", "pw"]), ok());
    assert_eq!(bob.ask(&["GET", "a"]), Value::Null);
    let refused = error("NOPERM this user has no permissions to run the 'get' command");
    admin.ask(&["ACL", "SETUSER", "bob", "-get"]);
    assert_eq!(bob.ask(&["GET", "a"]), refused);
    admin.ask(&["ACL", "SETUSER", "bob", "+@all", "&*"]);
    assert_eq!(bob.ask(&["SET", "a", "1"]), ok());
    assert_eq!(bob.ask(&["ACL", "WHOAMI"]), bulk("bob"));
    admin.ask(&["ACL", "SETUSER", "bob", "off"]);
    assert_eq!(bob.ask(&["GET", "a"]), bulk("1"), "who is there stays there");
    // A password for the others does not send away who was let in before.
    assert_eq!(admin.ask(&["CONFIG", "SET", "requirepass", "secret"]), ok());
    assert_eq!(admin.ask(&["PING"]), Value::Simple(b"PONG".to_vec()));
    let mut late = Client::connect(ours.address);
    assert_eq!(late.ask(&["PING"]), error("NOAUTH Authentication required."));
    // A user of the same name is another user.
    admin.ask(&["ACL", "DELUSER", "bob"]);
    admin.ask(&["ACL", "SETUSER", "bob", "on", "nopass", "+@all", "~*"]);
    bob.command(&["GET", "a"]);
    assert!(!String::from_utf8(bob.rest()).unwrap().contains("$1"));
    ours.stop();
}

#[test]
fn refusals_are_logged() {
    let ours = Ours::start();
    let (mut admin, mut bob) = (Client::connect(ours.address), Client::connect(ours.address));
    admin
        .ask(&["ACL", "SETUSER", "bob", "on", ">pw", "~x", "+get", "+client", "+multi", "+exec", "+discard"]);
    bob.ask(&["AUTH", "bob", "wrong"]);
    bob.ask(&["AUTH", "bob", "pw"]);
    bob.ask(&["GET", "y"]);
    bob.ask(&["GET", "y"]);
    bob.ask(&["CLIENT", "SETNAME", &"n".repeat(5000)]);
    bob.ask(&["CONFIG", "GET", "*"]);
    bob.ask(&["MULTI"]);
    bob.ask(&["GET", "y"]);
    bob.ask(&["DISCARD"]);
    bob.ask(&["MULTI"]);
    bob.ask(&["GET", "x"]);
    admin.ask(&["ACL", "SETUSER", "bob", "-get"]);
    bob.ask(&["EXEC"]);
    admin.ask(&["HELLO", "3"]);
    let Value::Array(entries) = admin.ask(&["ACL", "LOG"]) else { panic!("no log") };
    let told: Vec<Vec<(Value, Value)>> = entries
        .into_iter()
        .map(|entry| match entry {
            Value::Map(fields) => fields,
            other => panic!("{other:?}"),
        })
        .collect();
    let field = |entry: usize, name: &str| {
        told[entry].iter().find(|(key, _)| *key == bulk(name)).map(|(_, value)| value.clone()).unwrap()
    };
    assert_eq!(told.len(), 5);
    for (entry, reason, object, count, context, command) in [
        (0, "command", "get", 1, "multi", "exec"),
        (1, "key", "y", 1, "multi", "get"),
        (2, "command", "config|get", 1, "toplevel", "config|get"),
        (3, "key", "y", 2, "toplevel", "get"),
        (4, "auth", "AUTH", 1, "toplevel", "auth"),
    ] {
        assert_eq!(field(entry, "reason"), bulk(reason));
        assert_eq!(field(entry, "object"), bulk(object));
        assert_eq!(field(entry, "count"), Value::Integer(count));
        assert_eq!(field(entry, "context"), bulk(context));
        assert_eq!(field(entry, "username"), bulk("bob"));
        let Value::Bulk(client) = field(entry, "client-info") else { panic!("no client") };
        let client = String::from_utf8(client).unwrap();
        assert!(client.starts_with("id=") && client.contains(&format!(" cmd={command} user=")), "{client}");
        assert!(client.len() < 1000, "a name's length is the client's choice");
    }
    ours.stop();
}

#[test]
fn passwords_are_made_up() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let mut make = |bits: &str| match client.ask(&["ACL", "GENPASS", bits]) {
        Value::Bulk(password) => String::from_utf8(password).unwrap(),
        other => panic!("{other:?}"),
    };
    let (one, two) = (make("256"), make("256"));
    assert!(one.len() == 64 && one != two && one.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!((make("1").len(), make("5").len(), make("4096").len()), (1, 2, 1024));
    ours.stop();
}

#[test]
fn users_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("users.acl");
    std::fs::write(&path, "user default off\nuser bob on >pw +@all ~* &*\n").unwrap();
    let options = || ServerOptions { acl_file: Some(path.clone()), ..ServerOptions::default() };
    let ours = Ours::start_with(options());
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["PING"]), error("NOAUTH Authentication required."));
    assert_eq!(client.ask(&["AUTH", "bob", "pw"]), ok());
    assert_eq!(client.ask(&["ACL", "SETUSER", "eve", "on", "nopass"]), ok());
    assert_eq!(client.ask(&["ACL", "SAVE"]), ok());
    ours.stop();
    let ours = Ours::start_with(options());
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["AUTH", "eve", "x"]), ok());
    client.ask(&["AUTH", "bob", "pw"]);
    std::fs::write(&path, "user default off\nuser bob on >pw +@all ~* &*\nuser nonsense x\n").unwrap();
    let Value::Error(refused) = client.ask(&["ACL", "LOAD"]) else { panic!("loaded") };
    assert!(String::from_utf8(refused).unwrap().contains("users.acl:3: Error in applying operation 'x'"));
    std::fs::write(&path, "user default off\nuser bob on >pw +@all ~* &*\n").unwrap();
    assert_eq!(client.ask(&["ACL", "LOAD"]), ok());
    assert_eq!(client.ask(&["ACL", "USERS"]), Value::Array(vec![bulk("bob"), bulk("default")]));
    ours.stop();
}

#[test]
fn who_may_listen_no_more_is_sent_away_at_once() {
    ask_ours(listeners_lose_rights);
}

/// As in the conformance table: without the original nothing is checked.
#[test]
fn the_original_sends_listeners_away_too() {
    ask_original(listeners_lose_rights);
}

fn listeners_lose_rights(address: SocketAddr) {
    let mut admin = Client::connect(address);
    for (before, listen, change, stays) in [
        ("&a*", ["SUBSCRIBE", "a1"], &["resetchannels"][..], false),
        ("&a*", ["SUBSCRIBE", "a1"], &["resetchannels", "&a1"], true),
        ("&a*", ["SUBSCRIBE", "a1"], &["reset"], false),
        ("&a*", ["PSUBSCRIBE", "a*"], &["resetchannels", "&a1"], false),
        ("&a*", ["PSUBSCRIBE", "a*"], &["resetchannels", "&b", "&a*"], true),
        ("&a*", ["SSUBSCRIBE", "a1"], &["resetchannels", "&b"], false),
        ("(+@all &a*)", ["SUBSCRIBE", "a1"], &["clearselectors"], false),
        ("allchannels", ["PSUBSCRIBE", "a*"], &["resetchannels", "&a*"], true),
        ("allchannels", ["PSUBSCRIBE", "a*"], &["resetchannels", "&*a*"], false),
        ("allchannels", ["SUBSCRIBE", "a1"], &["-@all", "off", "resetpass"], true),
    ] {
        let name = format!("{before} {listen:?} {change:?}");
        assert_eq!(admin.ask(&["ACL", "SETUSER", "bob", "reset", "on", "nopass", "+@all", before]), ok());
        let (mut listener, mut silent) = (Client::connect(address), Client::connect(address));
        assert_eq!(silent.ask(&["AUTH", "bob", "x"]), ok());
        assert_eq!(listener.ask(&["AUTH", "bob", "x"]), ok());
        let Value::Array(_) = listener.ask(&listen) else { panic!("{name}") };
        assert_eq!(admin.ask(&[&["ACL", "SETUSER", "bob"], change].concat()), ok(), "{name}");
        let publish = if listen[0] == "SSUBSCRIBE" { "SPUBLISH" } else { "PUBLISH" };
        admin.ask(&[publish, "a1", "secret"]);
        if stays {
            let heard = listener.answer();
            let Value::Array(parts) = &heard else { panic!("{name}: {heard:?}") };
            assert_eq!(parts.last(), Some(&bulk("secret")), "{name}");
        } else {
            assert_eq!(listener.rest(), b"", "{name}");
        }
        // Who has begun nothing that goes on is asked at the next command.
        silent.ask(&["PING"]);
        admin.ask(&["ACL", "DELUSER", "bob"]);
        assert_eq!(silent.rest(), b"", "{name}");
    }
}

/// Redis closes it without a word.
#[test]
fn who_takes_its_own_rights_away_is_answered_first() {
    let ours = Ours::start();
    let (mut admin, mut bob) = (Client::connect(ours.address), Client::connect(ours.address));
    admin.ask(&["ACL", "SETUSER", "bob", "on", "nopass", "+@all", "&a*"]);
    bob.ask(&["HELLO", "3", "AUTH", "bob", "x"]);
    bob.ask(&["SUBSCRIBE", "a1"]);
    assert_eq!(bob.ask(&["ACL", "SETUSER", "bob", "resetchannels"]), ok());
    assert_eq!(bob.rest(), b"");
    ours.stop();
}

#[test]
fn who_may_monitor_no_more_sees_no_more() {
    let ours = Ours::start();
    let (mut admin, mut bob) = (Client::connect(ours.address), Client::connect(ours.address));
    admin.ask(&["ACL", "SETUSER", "bob", "on", "nopass", "+@all", "~*"]);
    assert_eq!((bob.ask(&["AUTH", "bob", "x"]), bob.ask(&["MONITOR"])), (ok(), ok()));
    admin.ask(&["ACL", "SETUSER", "bob", "-get"]);
    admin.ask(&["GET", "seen"]);
    bob.until(b"\"seen\"\r\n");
    admin.ask(&["ACL", "SETUSER", "bob", "-monitor"]);
    admin.ask(&["GET", "unseen"]);
    assert_eq!(String::from_utf8(bob.rest()).unwrap(), "");
    ours.stop();
}

#[test]
fn a_file_without_the_channel_ends_listening_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("users.acl");
    let write = |bob: &str, default: &str| {
        let text =
            format!("user default on nopass +@all {default}\nuser bob {bob}\nuser eve on nopass +@all &*\n");
        std::fs::write(&path, text).unwrap();
    };
    write("on nopass +@all &a", "&*");
    let options = ServerOptions { acl_file: Some(path.clone()), ..ServerOptions::default() };
    let ours = Ours::start_with(options);
    let connect = |name: &str| {
        let mut client = Client::connect(ours.address);
        assert_eq!(client.ask(&["AUTH", name, "x"]), ok());
        client.ask(&["SUBSCRIBE", "a"]);
        client
    };
    let (mut bob, mut eve, mut nobody) = (connect("bob"), connect("eve"), Client::connect(ours.address));
    nobody.ask(&["SUBSCRIBE", "a"]);
    let mut admin = Client::connect(ours.address);
    write("on nopass +@all", "&b");
    assert_eq!(admin.ask(&["ACL", "LOAD"]), ok());
    eve.command(&["UNSUBSCRIBE"]);
    eve.answer();
    eve.ask(&["PUBLISH", "a", "secret"]);
    assert_eq!((bob.rest(), nobody.rest()), (vec![], vec![]));
    assert_eq!(admin.ask(&["PING"]), Value::Simple(b"PONG".to_vec()), "the default user is who it was");
    assert_eq!(
        eve.ask(&["GET", "x"]),
        error("NOPERM this user has no permissions to access one of the keys used as arguments")
    );
    ours.stop();
}

/// A subscription is looked up before it is there, and the change looks at what is there.
#[test]
fn no_subscription_slips_past_a_change() {
    let ours = Ours::start();
    let mut admin = Client::connect(ours.address);
    for round in 0..300 {
        admin.ask(&["ACL", "SETUSER", "bob", "reset", "on", "nopass", "+@all", "&a"]);
        let mut bob = Client::connect(ours.address);
        assert_eq!(bob.ask(&["AUTH", "bob", "x"]), ok());
        let together = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                bob.command(&["SUBSCRIBE", "a"]);
            });
            together.wait();
            admin.ask(&["ACL", "SETUSER", "bob", "resetchannels"]);
        });
        admin.ask(&["PUBLISH", "a", "secret"]);
        bob.command(&["QUIT"]);
        let heard = String::from_utf8(bob.rest()).unwrap();
        assert!(!heard.contains("secret"), "round {round}: {heard}");
    }
    ours.stop();
}

#[test]
fn rules_that_change_nothing_are_not_told() {
    ask_ours(rules_told);
}

/// As in the conformance table: without the original nothing is checked.
#[test]
fn the_original_tells_rules_so_too() {
    ask_original(rules_told);
}

fn rules_told(address: SocketAddr) {
    let mut admin = Client::connect(address);
    for (rules, told) in [
        ("+get -get", "-@all"),
        ("+get +get", "-@all +get"),
        ("+get +set -get", "-@all +set"),
        ("+get -@all +set", "-@all +set"),
        ("+@all -get +get", "+@all"),
        ("+@all -@read +get", "+@all -@read +get"),
        ("+@all -@dangerous +config|get", "+@all -@dangerous +config|get"),
        ("+@read -@read", "-@all"),
        ("+@read +get", "-@all +@read"),
        ("+@read +get -get", "-@all +@read -get"),
        ("+@string -get", "-@all +@string -get"),
        ("+@string -get +get", "-@all +@string"),
        ("+@string -get +@string", "-@all +@string"),
        ("+@pubsub +get -@pubsub", "-@all +get"),
        ("+@hash -@hash", "-@all"),
        ("+config|get -config|get", "-@all"),
        ("+config|get +config", "-@all +config"),
        ("+config -config|set", "-@all +config -config|set"),
        ("+config -config|set -config", "-@all"),
        ("+config|get +config|set -config|get", "-@all +config|set"),
        ("+@all -config|get +config|get", "+@all"),
        ("+select|0", "-@all +select|0"),
        ("+lpush -lpush", "-@all"),
        ("+@all -lpush", "+@all -lpush"),
        ("+@all -lpush +lpush", "+@all"),
    ] {
        admin.ask(&["ACL", "DELUSER", "told"]);
        let words = ["ACL", "SETUSER", "told"].into_iter().chain(rules.split(' '));
        assert_eq!(admin.ask(&words.collect::<Vec<_>>()), ok(), "{rules}");
        let Value::Array(user) = admin.ask(&["ACL", "GETUSER", "told"]) else { panic!("{rules}") };
        let at = user.iter().position(|word| *word == bulk("commands")).unwrap();
        assert_eq!(user[at + 1], bulk(told), "{rules}");
    }
    admin.ask(&["ACL", "DELUSER", "told"]);
}
