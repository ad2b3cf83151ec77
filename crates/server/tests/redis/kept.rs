//! What a server keeps for its clients beside their buffers is told, and bounded.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use terrace_protocol::resp::{Value, write_request};
use terrace_server::ServerOptions;

use crate::client::{Client, error, ok};
use crate::ours::Ours;

/// A number of a client's own line.
fn told(client: &mut Client, field: &str) -> usize {
    let Value::Bulk(line) = client.ask(&["CLIENT", "INFO"]) else { panic!() };
    number(&line, field)
}

fn number(line: &[u8], field: &str) -> usize {
    let line = String::from_utf8_lossy(line).into_owned();
    let word = line.split(' ').find_map(|word| word.strip_prefix(field));
    word.unwrap().trim_end().parse().unwrap()
}

#[test]
fn what_is_kept_is_told() {
    let ours = Ours::start();
    let (mut client, mut other) = (Client::connect(ours.address), Client::connect(ours.address));
    let id = client.ask(&["CLIENT", "ID"]);
    let Value::Integer(id) = id else { panic!() };
    let before = told(&mut client, "tot-mem=");
    assert_eq!(told(&mut client, "multi-mem="), 0);
    let long = "x".repeat(10_000);
    assert_eq!(client.ask(&["WATCH", &long, "k"]), ok());
    assert_eq!(told(&mut client, "watch="), 2);
    let watched = told(&mut client, "multi-mem=");
    assert!((10_000..11_000).contains(&watched), "{watched}");
    assert_eq!(client.ask(&["MULTI"]), ok());
    client.ask(&["SET", "k", &long]);
    let Value::Bulk(line) = other.ask(&["CLIENT", "LIST", "ID", &id.to_string()]) else { panic!() };
    assert!((20_000..22_000).contains(&number(&line, "multi-mem=")), "{}", line.escape_ascii());
    assert!(number(&line, "tot-mem=") >= before + 20_000);
    client.ask(&["EXEC"]);
    assert_eq!(told(&mut client, "multi-mem="), 0);
    client.ask(&["HELLO", "3"]);
    client.ask(&["SUBSCRIBE", &long]);
    assert_eq!(client.ask(&["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", &long]), ok());
    let Value::Bulk(line) = other.ask(&["CLIENT", "LIST", "ID", &id.to_string()]) else { panic!() };
    assert!(number(&line, "tot-mem=") >= before + 20_000, "{}", line.escape_ascii());
    client.ask(&["RESET"]);
    assert!(told(&mut client, "tot-mem=") < before + 10_000);
    ours.stop();
}

#[test]
fn names_are_bounded_and_told() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let before = told(&mut client, "tot-mem=");
    let (longest, longer) = ("n".repeat(64 << 10), "n".repeat((64 << 10) + 1));
    assert_eq!(client.ask(&["CLIENT", "SETNAME", &longest]), ok());
    assert_eq!(client.ask(&["CLIENT", "SETINFO", "lib-name", &longest]), ok());
    assert_eq!(client.ask(&["CLIENT", "SETINFO", "LIB-VER", &longest]), ok());
    assert!(told(&mut client, "tot-mem=") >= before + 3 * longest.len());
    let refused = |what: &str| error(&format!("ERR {what} cannot be longer than 65536 bytes"));
    assert_eq!(client.ask(&["CLIENT", "SETNAME", &longer]), refused("Client names"));
    assert_eq!(client.ask(&["HELLO", "3", "SETNAME", &longer]), refused("Client names"));
    assert_eq!(client.ask(&["CLIENT", "SETINFO", "lib-name", &longer]), refused("lib-name"));
    assert_eq!(client.ask(&["CLIENT", "SETNAME", ""]), ok());
    assert!(told(&mut client, "tot-mem=") < before + 3 * longest.len());
    ours.stop();
}

#[test]
fn a_large_command_fits_a_bound_that_is_little_larger() {
    const LARGE: usize = 16 << 20;
    let ours =
        Ours::start_with(ServerOptions { clients_bytes_max: LARGE / 10 * 13, ..ServerOptions::default() });
    let mut other = Client::connect(ours.address);
    // A buffer that doubles is as large as the first bytes times a power of two: of one of these it would pass the bound.
    for first in [10_000, 11_200, 12_600, 14_100, 15_900, 17_800] {
        let mut client = Client::connect(ours.address);
        let Value::Integer(id) = client.ask(&["CLIENT", "ID"]) else { panic!() };
        client.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${LARGE}\r\n").as_bytes());
        let mut sent = 0;
        while sent < LARGE {
            let more = if sent == 0 { first } else { (LARGE - sent).min(1 << 20) };
            client.send(&vec![b'x'; more]);
            sent += more;
            // The whole value is not consumed before the line end that follows it.
            loop {
                let told = other.ask(&["CLIENT", "LIST", "ID", &id.to_string()]);
                let Value::Bulk(line) = told else { panic!("{told:?}") };
                assert!(!line.is_empty(), "closed after {sent} of {LARGE} bytes, the first {first}");
                if number(&line, "qbuf=") >= sent {
                    break;
                }
            }
        }
        client.send(b"\r\n");
        assert_eq!(client.answer(), ok());
    }
    ours.stop();
}

#[test]
fn what_is_kept_counts_as_memory_of_clients() {
    let ours = Ours::start_with(ServerOptions { clients_bytes_max: 4 << 20, ..ServerOptions::default() });
    let mut witness = Client::connect(ours.address);
    let (long, pattern) = ("x".repeat(300_000), "x".repeat(4000));
    // Patterns are kept as they are compared, too, which takes eight times their bytes.
    let hoards: [(&[&str], &[&str], &str, usize); 4] = [
        (&["MULTI"], &["SET", "k", &long], &long, 3 << 20),
        (&["PING"], &["WATCH"], &long, 3 << 20),
        (&["PING"], &["SUBSCRIBE"], &long, 3 << 20),
        (&["PING"], &["PSUBSCRIBE"], &pattern, 300_000),
    ];
    for (first, more, long, least) in hoards {
        let mut hoarder = TcpStream::connect(ours.address).unwrap();
        hoarder.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert!(is_answered(&mut hoarder, first));
        let mut sent = 0;
        loop {
            let name = format!("{sent}{long}");
            let mut command = more.to_vec();
            if more.len() == 1 {
                command.push(&name);
            }
            if !is_answered(&mut hoarder, &command) {
                break;
            }
            sent += name.len();
            assert!(sent < 8 << 20, "{more:?} is not counted");
        }
        assert!(sent > least, "{more:?} was closed for {sent} bytes");
        assert_eq!(witness.ask(&["PING"]), Value::Simple(b"PONG".to_vec()));
    }
    ours.stop();
}

/// Whether a command is answered, or the connection closed.
fn is_answered(stream: &mut TcpStream, command: &[&str]) -> bool {
    let (mut request, mut received) = (Vec::new(), Vec::new());
    write_request(command, &mut request);
    if stream.write_all(&request).is_err() {
        return false;
    }
    let mut buffer = vec![0; 1 << 20];
    while Value::decode(&received).unwrap().is_none() {
        match stream.read(&mut buffer) {
            Ok(n @ 1..) => received.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("neither answered nor closed"),
            Ok(_) | Err(_) => return false,
        }
    }
    true
}

/// As in Redis, commands queued behind MULTI are an unfinished command.
#[test]
fn queued_commands_count_as_an_unfinished_one() {
    let ours = Ours::start_with(ServerOptions { command_bytes_max: 1 << 20, ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["MULTI"]), ok());
    let long = "x".repeat(300_000);
    for _ in 0..3 {
        assert_eq!(client.ask(&["SET", "k", &long]), Value::Simple(b"QUEUED".to_vec()));
    }
    client.command(&["SET", "k", &long]);
    client.rest();
    assert_eq!(Client::connect(ours.address).ask(&["EXISTS", "k"]), Value::Integer(0));
    ours.stop();
}

#[test]
fn prefixes_of_all_clients_are_bounded() {
    let ours = Ours::start();
    let track = |client: &mut Client, number: usize| {
        let prefixes: Vec<String> = (0..1024).map(|i| format!("{number:02}{i:04}")).collect();
        let mut command = vec!["CLIENT", "TRACKING", "ON", "BCAST"];
        command.extend(prefixes.iter().flat_map(|prefix| ["PREFIX", prefix]));
        client.ask(&command)
    };
    let mut clients: Vec<Client> = (0..17).map(|_| Client::connect(ours.address)).collect();
    for (i, client) in clients.iter_mut().enumerate().take(16) {
        assert_eq!(track(client, i), ok());
    }
    let refused = "ERR all clients together may track at most 16384 different prefixes: every write is compared with each";
    assert_eq!(track(&mut clients[16], 16), error(refused));
    // What others have already may be tracked by any number.
    assert_eq!(track(&mut clients[16], 3), ok());
    assert_eq!(clients[16].ask(&["CLIENT", "TRACKING", "OFF"]), ok());
    assert_eq!(clients[0].ask(&["CLIENT", "TRACKING", "OFF"]), ok());
    assert_eq!(track(&mut clients[16], 16), ok());
    let long = "x".repeat(2 << 20);
    let refused = error("ERR the prefixes that a connection tracks may take at most 1048576 bytes");
    assert_eq!(clients[0].ask(&["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", &long]), refused);
    ours.stop();
}
