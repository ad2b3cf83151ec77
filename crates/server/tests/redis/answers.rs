//! Answers that differ from server to server: version 3, `HELLO`, `COMMAND`, `INFO`, `CONFIG`, `CLIENT`, iteration, the admin
//! port.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use terrace_protocol::resp::Value;

use crate::client::{Client, bulk, error, ok};
use crate::ours::Ours;

fn map(value: Value) -> Vec<(Value, Value)> {
    match value {
        Value::Map(pairs) => pairs,
        other => panic!("{other:?} is no map"),
    }
}

fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        other => panic!("{other:?} is no array"),
    }
}

fn text(value: Value) -> String {
    match value {
        Value::Bulk(text) | Value::Verbatim(text) | Value::Simple(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?} is no text"),
    }
}

#[test]
fn hello_changes_the_version_from_its_own_answer_on() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    // All at once: what stands before HELLO is answered in the old version although it is sent later.
    client.send(
        b"GET none\r\nHELLO 3 SETNAME me\r\nGET none\r\nCLIENT GETNAME\r\nHELLO 2\r\nGET none\r\nHELLO\r\n",
    );
    client.expect(b"$-1\r\n");
    let hello = map(client.answer());
    assert!(hello.contains(&(bulk("proto"), Value::Integer(3))));
    assert!(hello.contains(&(bulk("server"), bulk("redis"))));
    assert!(hello.iter().any(|(key, value)| *key == bulk("id") && matches!(value, Value::Integer(1..))));
    client.expect(b"_\r\n");
    assert_eq!(client.answer(), bulk("me"));
    assert_eq!(array(client.answer()).len(), 14, "a map is a flat array in version 2");
    client.expect(b"$-1\r\n");
    assert!(array(client.answer()).contains(&Value::Integer(2)));
    ours.stop();
}

#[test]
fn reset_makes_a_connection_new() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.send(b"HELLO 3\r\nSELECT 4\r\nCLIENT SETNAME me\r\nRESET\r\nCLIENT GETNAME\r\nSET a 1\r\nSELECT 0\r\nGET a\r\n");
    client.answer();
    for expected in [ok(), ok(), Value::Simple(b"RESET".to_vec()), Value::Null, ok(), ok(), bulk("1")] {
        assert_eq!(client.answer(), expected);
    }
    ours.stop();
}

#[test]
fn command_tells_the_table() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let Value::Integer(count) = client.ask(&["COMMAND", "COUNT"]) else { panic!("no count") };
    assert_eq!(array(client.ask(&["COMMAND"])).len() as i64, count);
    let listed = array(client.ask(&["COMMAND", "LIST"]));
    assert!(listed.len() as i64 > count && listed.contains(&bulk("client|id")), "subcommands are listed too");
    assert_eq!(array(client.ask(&["COMMAND", "DOCS"])).len() as i64, count * 2);
    let info = array(client.ask(&["COMMAND", "INFO", "GET", "mset", "nonsense", "client|id"]));
    assert_eq!(info.len(), 4);
    let get = array(info[0].clone());
    assert_eq!(get[..2], [bulk("get"), Value::Integer(2)]);
    assert_eq!(get[3..6], [Value::Integer(1), Value::Integer(1), Value::Integer(1)]);
    assert_eq!(array(info[1].clone())[3..6], [Value::Integer(1), Value::Integer(-1), Value::Integer(2)]);
    assert_eq!(info[2], Value::Null);
    assert_eq!(array(info[3].clone())[0], bulk("client|id"));
    client.ask(&["HELLO", "3"]);
    let docs = map(client.ask(&["COMMAND", "DOCS", "set"]));
    assert!(map(docs[0].1.clone()).iter().any(|(key, _)| *key == bulk("summary")));
    ours.stop();
}

#[test]
fn info_and_config_tell_what_clients_ask() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.ask(&["SET", "a", "1"]);
    let all = text(client.ask(&["INFO"]));
    for line in [
        "# Server\r\n",
        "redis_version:7.",
        "engine:dram\r\n",
        "role:master\r\n",
        "# Tiers\r\n",
        "db0:keys=1,",
    ] {
        assert!(all.contains(line), "{line:?} is missing in {all}");
    }
    let some = text(client.ask(&["INFO", "keyspace", "CLIENTS"]));
    assert!(some.contains("# Clients\r\n") && some.contains("# Keyspace\r\n") && !some.contains("# Server"));
    assert!(some.contains("connected_clients:1\r\n"));

    let names: Vec<_> =
        array(client.ask(&["CONFIG", "GET", "max*", "port", "nonsense"])).into_iter().map(text).collect();
    assert_eq!(
        names.iter().step_by(2).collect::<Vec<_>>(),
        [
            "maxclients",
            "maxmemory",
            "maxmemory-clients",
            "maxmemory-policy",
            "port",
            "maxmemory-eviction-tenacity",
            "maxmemory-samples"
        ]
    );
    assert_eq!(names[9], ours.address.port().to_string());
    assert_eq!(text(client.ask(&["CONFIG", "SET", "maxmemory", "100mb"])), "OK");
    let budget: Vec<_> = array(client.ask(&["CONFIG", "GET", "maxmemory"])).into_iter().map(text).collect();
    assert_eq!(budget, ["maxmemory", "104857600"]);
    let refused = text_of_error(client.ask(&["CONFIG", "SET", "maxmemory", "1kb"]));
    assert!(refused.contains("'maxmemory'") && refused.contains("at least"), "{refused}");
    // The engine of this server keeps everything in DRAM.
    let refused = text_of_error(client.ask(&["CONFIG", "SET", "maxmemory", "much"]));
    assert!(refused.contains("memory value"), "{refused}");
    let refused = text_of_error(client.ask(&["CONFIG", "SET", "ssd-size", "64MiB"]));
    assert!(refused.contains("'ssd-size'") && refused.contains("no tier on an SSD"), "{refused}");
    let refused = text_of_error(client.ask(&["CONFIG", "SET", "pmem-size", "64MiB"]));
    assert!(refused.contains("'pmem-size'") && refused.contains("no tier in byte"), "{refused}");
    for tier in ["ssd-size", "pmem-size"] {
        assert_eq!(text(client.ask(&["CONFIG", "SET", tier, "0"])), "OK", "as it is");
    }
    for other in ["maxmemory", "pmem-size"] {
        let both = ["CONFIG", "SET", other, "104857600", "ssd-size", "64MiB"];
        assert!(text_of_error(client.ask(&both)).contains("one at a time"));
    }
    let sizes = array(client.ask(&["CONFIG", "GET", "pmem-size", "ssd-size"]))
        .into_iter()
        .map(text)
        .collect::<Vec<_>>();
    assert_eq!(sizes, ["pmem-size", "0", "ssd-size", "0"], "there are no such tiers");
    let refused = text_of_error(client.ask(&["CONFIG", "SET", "port", "1"]));
    assert!(refused.contains("'port'") && refused.contains("chosen with --redis"), "{refused}");
    ours.stop();
}

fn text_of_error(value: Value) -> String {
    match value {
        Value::Error(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?} is no error"),
    }
}

#[test]
fn client_tells_about_itself() {
    let ours = Ours::start();
    let (mut first, mut second) = (Client::connect(ours.address), Client::connect(ours.address));
    assert_ne!(first.ask(&["CLIENT", "ID"]), second.ask(&["CLIENT", "ID"]));
    for args in [["LIB-NAME", "lib"], ["lib-ver", "1.2"]] {
        assert_eq!(first.ask(&["CLIENT", "SETINFO", args[0], args[1]]), ok());
    }
    assert_eq!(
        first.ask(&["CLIENT", "SETINFO", "lib-name", "a b"]),
        error("ERR lib-name cannot contain spaces, newlines or special characters.")
    );
    assert_eq!(first.ask(&["CLIENT", "SETINFO", "x", "y"]), error("ERR Unrecognized option 'x'"));
    first.ask(&["CLIENT", "SETNAME", "me"]);
    first.ask(&["SELECT", "3"]);
    for command in ["INFO", "LIST"] {
        let line = text(first.ask(&["CLIENT", command]));
        assert!(line.ends_with('\n') && line.starts_with("id="), "{line}");
        for field in [" name=me ", " db=3 ", " lib-name=lib ", " lib-ver=1.2", " resp=2 "] {
            assert!(line.contains(field), "{field:?} is missing in {line}");
        }
    }
    ours.stop();
}

#[test]
fn scan_sees_every_key_once() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let keys: BTreeSet<String> = (0..1000).map(|i| format!("key:{i}")).collect();
    for key in &keys {
        client.command(&["SET", key, "x"]);
    }
    keys.iter().for_each(|_| assert_eq!(client.answer(), ok()));
    client.ask(&["SELECT", "1"]);
    client.ask(&["SET", "other", "x"]);
    client.ask(&["SELECT", "0"]);
    let mut scan = |extra: &[&str]| {
        let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
        loop {
            let mut answer = array(client.ask(&[&["SCAN", &cursor], extra].concat()));
            seen.extend(array(answer.remove(1)).into_iter().map(text));
            cursor = text(answer.remove(0));
            if cursor == "0" {
                return seen;
            }
        }
    };
    let seen = scan(&["COUNT", "100"]);
    assert_eq!(seen.len(), 1000, "once each, with nobody writing");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), keys);
    assert_eq!(scan(&["MATCH", "key:9?", "COUNT", "7"]).len(), 10);
    assert_eq!(scan(&["TYPE", "hash", "COUNT", "1000"]).len(), 0);
    ours.stop();
}

#[test]
fn the_admin_port_answers() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.ask(&["SET", "a", "1"]);
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(ours.admin).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let metrics = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(metrics.starts_with("HTTP/1.0 200 OK\r\n"), "{metrics}");
    for line in [
        "\nterrace_keys 1\n",
        "\nterrace_connections 1\n",
        "terrace_tier_records{tier=\"dram\"} 1\n",
        "\n# EOF\n",
    ] {
        assert!(metrics.contains(line), "{line:?} is missing in {metrics}");
    }
    assert!(ask("GET /health HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nok\n"));
    assert!(ask("GET /x HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404 "));
    assert!(ask("POST /health HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 405 "));
    ours.stop();
}
