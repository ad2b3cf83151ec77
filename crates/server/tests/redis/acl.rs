//! Users whose rules change while they are connected, the log of refusals, and what a client may claim that has not logged in.

use terrace_protocol::resp::Value;
use terrace_server::ServerOptions;

use crate::client::{Client, bulk, error, ok};
use crate::ours::Ours;

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
