//! Connections that tell about each other, end each other and hold each other up. The original is asked the same where it is.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use terrace_protocol::resp::Value;

use crate::client::{Client, bulk, ok};
use crate::original::ask_original;
use crate::ours::ask_ours;

#[test]
fn connections_are_told_ended_and_held() {
    ask_ours(all);
}

/// As in the conformance table: without the original nothing is checked.
#[test]
fn the_original_does_so_too() {
    ask_original(all);
}

fn all(address: SocketAddr) {
    all_are_listed(address);
    some_are_ended(address);
    writes_are_held(address);
    mistakes_are_answered_at_once(address);
    nothing_expires_meanwhile(address);
    all_is_held_until_the_end(address);
}

fn number(number: i64) -> Value {
    Value::Integer(number)
}

fn id(client: &mut Client) -> String {
    match client.ask(&["CLIENT", "ID"]) {
        Value::Integer(id) => id.to_string(),
        other => panic!("{other:?}"),
    }
}

fn text(value: Value) -> String {
    match value {
        Value::Bulk(text) | Value::Verbatim(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?} is no text"),
    }
}

/// The value of a field in a line of CLIENT LIST.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let value = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name} in {line}")).trim_end()
}

fn all_are_listed(address: SocketAddr) {
    let mut clients: [Client; 4] = std::array::from_fn(|_| Client::connect(address));
    let [one, two, listener, tracker] = &mut clients;
    assert_eq!(two.ask(&["CLIENT", "SETNAME", "two"]), ok());
    assert_eq!(two.ask(&["SELECT", "5"]), ok());
    assert_eq!(two.ask(&["MULTI"]), ok());
    assert!(matches!(two.ask(&["GET", "x"]), Value::Simple(_)));
    let ids = [id(one), id(tracker), id(listener)];
    (0..2).for_each(|i| {
        let command = if i == 0 { "SUBSCRIBE" } else { "PSUBSCRIBE" };
        assert!(matches!(listener.ask(&[command, "c"]), Value::Array(_)));
    });
    assert!(matches!(tracker.ask(&["HELLO", "3"]), Value::Map(_)));
    assert_eq!(tracker.ask(&["CLIENT", "TRACKING", "ON", "BCAST"]), ok());
    let list = text(one.ask(&["CLIENT", "LIST"]));
    let line = |id: &str| list.lines().find(|line| field(line, "id") == id).unwrap();
    let mine = line(&ids[0]);
    assert_eq!((field(mine, "cmd"), field(mine, "flags"), field(mine, "db")), ("client|list", "N", "0"));
    assert_eq!((field(mine, "multi"), field(mine, "redir"), field(mine, "resp")), ("-1", "-1", "2"));
    assert_eq!((field(mine, "laddr"), field(mine, "user")), (address.to_string().as_str(), "default"));
    let named = list.lines().find(|line| field(line, "name") == "two").unwrap();
    assert_eq!((field(named, "db"), field(named, "flags"), field(named, "multi")), ("5", "x", "1"));
    let listening = line(&ids[2]);
    assert_eq!(
        (field(listening, "sub"), field(listening, "psub"), field(listening, "flags")),
        ("1", "1", "P")
    );
    let tracking = line(&ids[1]);
    assert_eq!(
        (field(tracking, "flags"), field(tracking, "redir"), field(tracking, "resp")),
        ("tB", "0", "3")
    );
    assert_eq!(text(one.ask(&["CLIENT", "LIST", "TYPE", "pubsub"])).lines().count(), 1);
    assert_eq!(text(one.ask(&["CLIENT", "LIST", "ID", &ids[0], &ids[1], "999999999"])).lines().count(), 2);
    let info = text(one.ask(&["CLIENT", "INFO"]));
    assert_eq!((field(&info, "id"), field(&info, "cmd")), (ids[0].as_str(), "client|info"));
}

fn some_are_ended(address: SocketAddr) {
    let mut clients: [Client; 6] = std::array::from_fn(|_| Client::connect(address));
    let [one, two, three, four, five, me] = &mut clients;
    assert_eq!(me.ask(&["CLIENT", "KILL", "ID", &id(one)]), number(1));
    assert_eq!(one.rest(), b"");
    let two_id = id(two);
    let line = text(me.ask(&["CLIENT", "LIST", "ID", &two_id]));
    assert_eq!(me.ask(&["CLIENT", "KILL", field(&line, "addr")]), ok());
    assert_eq!(two.rest(), b"");
    let line = text(three.ask(&["CLIENT", "INFO"]));
    let filters =
        ["ADDR", field(&line, "addr"), "LADDR", field(&line, "laddr"), "USER", "default", "TYPE", "normal"];
    assert_eq!(me.ask(&[&["CLIENT", "KILL"][..], &filters, &["ID", "999999999"]].concat()), number(0));
    assert_eq!(me.ask(&[&["CLIENT", "KILL"], &filters[..]].concat()), number(1));
    assert_eq!(three.rest(), b"");
    assert!(matches!(four.ask(&["SUBSCRIBE", "killed"]), Value::Array(_)));
    assert_eq!(five.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]), number(1));
    assert_eq!(four.rest(), b"");
    let my_id = id(me);
    assert_eq!(me.ask(&["CLIENT", "KILL", "ID", &my_id]), number(0));
    assert_eq!(me.ask(&["CLIENT", "KILL", "ID", &my_id, "SKIPME", "no"]), number(1));
    assert_eq!(me.rest(), b"", "closed behind the answer");
    assert_eq!(five.ask(&["PING"]), Value::Simple(b"PONG".to_vec()));
}

fn writes_are_held(address: SocketAddr) {
    let (mut one, mut two) = (Client::connect(address), Client::connect(address));
    assert_eq!(two.ask(&["CLIENT", "PAUSE", "100000", "WRITE"]), ok());
    assert_eq!(one.ask(&["GET", "held"]), Value::Null);
    one.send(b"GET held\r\nSET held 1\r\nGET held\r\n");
    assert_eq!(one.answer(), Value::Null);
    a_held_one_is_told(&mut two);
    let mut three = Client::connect(address);
    three.command(&["PUBLISH", "x", "1"]);
    let mut four = Client::connect(address);
    four.command(&["PFCOUNT", "x"]);
    // A transaction is held if it writes.
    for command in ["MULTI", "GET held", "EXEC"] {
        two.send(format!("{command}\r\n").as_bytes());
    }
    assert_eq!((two.answer(), two.answer()), (ok(), Value::Simple(b"QUEUED".to_vec())));
    assert_eq!(two.answer(), Value::Array(vec![Value::Null]));
    assert_eq!(two.ask(&["GET", "held"]), Value::Null);
    assert_eq!(two.ask(&["CLIENT", "UNPAUSE"]), ok());
    assert_eq!(one.answer(), ok());
    assert_eq!(one.answer(), bulk("1"));
    assert_eq!((three.answer(), four.answer()), (number(0), number(0)));
    assert_eq!(one.ask(&["DEL", "held"]), number(1));
}

/// While one other connection holds a SET.
fn a_held_one_is_told(client: &mut Client) {
    let began = Instant::now();
    let told = loop {
        let list = text(client.ask(&["CLIENT", "LIST"]));
        let held = list.lines().find(|line| field(line, "flags") == "b").map(str::to_owned);
        match held {
            Some(line) => break line,
            None => assert!(began.elapsed() < Duration::from_secs(10), "nobody is held:\n{list}"),
        }
    };
    assert_eq!(field(&told, "cmd"), "set");
    let clients = text(client.ask(&["INFO", "clients"]));
    assert!(clients.contains("\r\nblocked_clients:1\r\n"), "{clients}");
}

/// What can be refused without a look at what it is to do waits for nothing.
fn mistakes_are_answered_at_once(address: SocketAddr) {
    let (mut one, mut two, mut bob) =
        (Client::connect(address), Client::connect(address), Client::connect(address));
    assert_eq!(two.ask(&["ACL", "SETUSER", "bob", "on", "nopass", "+@all", "-set", "~mine"]), ok());
    assert_eq!(bob.ask(&["AUTH", "bob", "x"]), ok());
    for kind in ["WRITE", "ALL"] {
        assert_eq!(two.ask(&["CLIENT", "PAUSE", "2000", kind]), ok());
        let began = Instant::now();
        for mistake in
            [&["SET", "x"][..], &["SET"], &["nonsense"], &["CONFIG", "nonsense"], &["INCR", "x", "y"]]
        {
            assert!(matches!(one.ask(mistake), Value::Error(_)), "{mistake:?}");
        }
        for denied in [&["SET", "mine", "1"][..], &["INCR", "yours"]] {
            assert!(matches!(bob.ask(denied), Value::Error(_)), "{denied:?}");
        }
        assert!(began.elapsed() < Duration::from_millis(1900), "{:?}", began.elapsed());
        if kind == "WRITE" {
            assert_eq!(two.ask(&["CLIENT", "UNPAUSE"]), ok());
        }
    }
    // It is held itself until all that is held goes on.
    assert_eq!(two.ask(&["CLIENT", "UNPAUSE"]), ok());
    assert_eq!(two.ask(&["ACL", "DELUSER", "bob"]), number(1));
}

/// A pause keeps keys as they are, those whose time is over too.
fn nothing_expires_meanwhile(address: SocketAddr) {
    let mut client = Client::connect(address);
    assert_eq!(client.ask(&["FLUSHALL"]), ok());
    let expired = |client: &mut Client| {
        let stats = text(client.ask(&["INFO", "stats"]));
        let line = stats.lines().find_map(|line| line.strip_prefix("expired_keys:")).map(str::to_owned);
        line.unwrap().parse::<u64>().unwrap()
    };
    let before = expired(&mut client);
    client.send(b"MULTI\r\nSET a 1 PX 10\r\nSET b 1 PX 10\r\nCLIENT PAUSE 50000 WRITE\r\nEXEC\r\n");
    (0..4).for_each(|_| assert!(matches!(client.answer(), Value::Simple(_))));
    assert_eq!(client.answer(), Value::Array(vec![ok(), ok(), ok()]));
    let began = Instant::now();
    while client.ask(&["MGET", "a", "b"]) != Value::Array(vec![Value::Null, Value::Null]) {
        assert!(began.elapsed() < Duration::from_secs(10), "their time is not over");
    }
    // Long enough for whoever looks for such keys ten times a second.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!((client.ask(&["DBSIZE"]), expired(&mut client)), (number(2), before));
    assert_eq!(client.ask(&["CLIENT", "UNPAUSE"]), ok());
    let began = Instant::now();
    while (client.ask(&["DBSIZE"]), expired(&mut client)) != (number(0), before + 2) {
        // Redis deletes what is asked for.
        assert_eq!(client.ask(&["MGET", "a", "b"]), Value::Array(vec![Value::Null, Value::Null]));
        assert!(began.elapsed() < Duration::from_secs(10), "they never go");
    }
}

fn all_is_held_until_the_end(address: SocketAddr) {
    let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        assert_eq!(client.ask(&["SET", "x", "1"]), ok());
    }
    let began = Instant::now();
    assert_eq!(clients[0].ask(&["CLIENT", "PAUSE", "200"]), ok());
    for client in &mut clients {
        client.send(b"PING\r\nnonsense\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.answer(), Value::Simple(b"PONG".to_vec()));
        assert!(began.elapsed() >= Duration::from_millis(199), "{:?}", began.elapsed());
        assert!(matches!(client.answer(), Value::Error(_)));
    }
}
