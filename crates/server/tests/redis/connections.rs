//! Pipelines, slow readers, large values, limits on connections, half-closed ones, shutdown.

use std::time::Duration;

use terrace_protocol::resp::{Value, write_request};
use terrace_server::ServerOptions;

use crate::client::{Client, bulk, ok};
use crate::ours::Ours;

#[test]
fn pipelines_are_answered_in_order() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    const ROUNDS: i64 = 20_000;
    let mut request = Vec::new();
    for i in 0..ROUNDS {
        // More than one turn takes.
        let (key, number) = (format!("k{i}"), i.to_string());
        write_request(&["SET", &key, &number], &mut request);
        write_request(&["GET", &key], &mut request);
        request.extend_from_slice(b"PING\r\nnonsense\r\nINCR n\r\n");
    }
    let mut sender = client.try_clone();
    let sending = std::thread::spawn(move || sender.send(&request));
    for i in 0..ROUNDS {
        assert_eq!(client.answer(), ok());
        assert_eq!(client.answer(), bulk(&i.to_string()));
        assert_eq!(client.answer(), Value::Simple(b"PONG".to_vec()));
        assert!(matches!(client.answer(), Value::Error(_)));
        assert_eq!(client.answer(), Value::Integer(i + 1));
    }
    sending.join().unwrap();
    assert_eq!(ours.store.len(0), ROUNDS as u64 + 1);
    ours.stop();
}

#[test]
fn many_clients_share_the_workers() {
    let ours = Ours::start();
    let address = ours.address;
    let clients: Vec<_> = (0..32)
        .map(|i| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                let own = format!("own:{i}");
                for round in 1..=100 {
                    client.command(&["INCR", &own]);
                    client.command(&["INCR", "shared"]);
                    client.command(&["MGET", &own, "none"]);
                    assert_eq!(client.answer(), Value::Integer(round));
                    assert!(matches!(client.answer(), Value::Integer(1..)));
                    assert_eq!(client.answer(), Value::Array(vec![bulk(&round.to_string()), Value::Null]));
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(Client::connect(address).ask(&["GET", "shared"]), bulk("3200"));
    ours.stop();
}

#[test]
fn a_command_of_many_keys_is_one_turn() {
    let ours = Ours::start_with(ServerOptions { turn_operations: 8, ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    let keys: Vec<String> = (0..1000).map(|i| format!("k{i}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let pairs: Vec<&str> = keys.iter().flat_map(|key| [*key, *key]).collect();
    assert_eq!(client.ask(&[&["MSET"], &pairs[..]].concat()), ok());
    let values = client.ask(&[&["MGET"], &keys[..]].concat());
    assert_eq!(values, Value::Array(keys.iter().map(|key| bulk(key)).collect()));
    assert_eq!(client.ask(&[&["EXISTS"], &keys[..]].concat()), Value::Integer(1000));
    assert_eq!(client.ask(&[&["DEL", "none"], &keys[..]].concat()), Value::Integer(1000));
    assert_eq!(ours.store.len(0), 0);
    ours.stop();
}

#[test]
fn large_values_pass_in_both_directions() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let value = "0123456789abcdef".repeat(512 << 10);
    let mut request = Vec::new();
    write_request(&["SET", "big", &value], &mut request);
    // Ends in the middle, so that the rest comes when the beginning has been kept.
    let (beginning, rest) = request.split_at(request.len() / 2 + 1);
    client.send(beginning);
    assert_eq!(Client::connect(ours.address).ask(&["GET", "big"]), Value::Null);
    client.send(rest);
    assert_eq!(client.answer(), ok());
    assert!(client.ask(&["GET", "big"]) == bulk(&value));
    assert_eq!(client.ask(&["STRLEN", "big"]), Value::Integer(value.len() as i64));
    ours.stop();
}

#[test]
fn a_client_that_does_not_read_is_not_read_either() {
    let ours = Ours::start_with(ServerOptions { threads: 1, ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    let value = "v".repeat(1 << 20);
    assert_eq!(client.ask(&["SET", "big", &value]), ok());
    const GETS: usize = 200;
    for _ in 0..GETS {
        client.command(&["GET", "big"]);
    }
    client.command(&["INCR", "reached"]);
    // The same worker serves another connection meanwhile, and has not come to the end of the pipeline: that would have
    // taken 200 MiB of buffers.
    let mut other = Client::connect(ours.address);
    for _ in 0..50 {
        assert_eq!(other.ask(&["GET", "reached"]), Value::Null);
    }
    for _ in 0..GETS {
        assert!(client.answer() == bulk(&value));
    }
    assert_eq!(client.answer(), Value::Integer(1));
    ours.stop();
}

#[test]
fn too_many_connections_are_told_so() {
    let ours = Ours::start_with(ServerOptions { max_connections: 2, ..ServerOptions::default() });
    let mut clients = [Client::connect(ours.address), Client::connect(ours.address)];
    clients.iter_mut().for_each(|client| assert_eq!(client.ask(&["SET", "a", "1"]), ok()));
    assert_eq!(Client::connect(ours.address).rest(), b"-ERR max number of clients reached\r\n");
    let [mut first, mut second] = clients;
    assert_eq!(first.ask(&["QUIT"]), ok());
    assert_eq!(first.rest(), b"");
    // The place is free once the worker has closed the connection, which is after the client saw its end.
    let mut alone = || match second.ask(&["INFO", "clients"]) {
        Value::Bulk(text) => text.starts_with(b"# Clients\r\nconnected_clients:1\r\n"),
        other => panic!("{other:?} is no text"),
    };
    assert!((0..100_000).any(|_| alone()), "the place never became free");
    assert_eq!(Client::connect(ours.address).ask(&["GET", "a"]), bulk("1"));
    ours.stop();
}

#[test]
fn a_half_closed_connection_gets_its_answers() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.send(b"SET a 1\r\nGET a\r\nGET a");
    client.finish();
    assert_eq!(client.rest(), b"+OK\r\n$1\r\n1\r\n", "the unfinished command is forgotten");
    ours.stop();
}

#[test]
fn nothing_behind_quit_is_done() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.send(b"SET a 1\r\nQUIT\r\nSET a 2\r\n");
    assert_eq!(client.rest(), b"+OK\r\n+OK\r\n");
    assert_eq!(Client::connect(ours.address).ask(&["GET", "a"]), bulk("1"));
    ours.stop();
}

#[test]
fn a_shutdown_answers_what_was_received() {
    let ours = Ours::start();
    let mut clients: Vec<Client> = (0..10).map(|_| Client::connect(ours.address)).collect();
    for client in &mut clients {
        assert_eq!(client.ask(&["PING"]), Value::Simple(b"PONG".to_vec()));
        // Loopback: it is in the server's socket when this returns.
        client.send(&b"INCR n\r\n".repeat(1000));
    }
    let store = ours.store.clone();
    let address = ours.address;
    let mut session_store = Some(ours);
    let stopping = std::thread::spawn(move || session_store.take().map(Ours::stop));
    for client in &mut clients {
        let answers = client.rest();
        assert_eq!(answers.iter().filter(|byte| **byte == b':').count(), 1000, "all are answered");
    }
    stopping.join().unwrap();
    drop(store);
    assert!(
        std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err(),
        "nobody listens"
    );
}
