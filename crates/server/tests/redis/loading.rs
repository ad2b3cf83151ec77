//! The ports while the store is opened.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use terrace_protocol::resp::Value;
use terrace_server::{Addresses, Endpoint, Loading, Progress, Server, ServerOptions};

use crate::client::{Client, error, ok};

const LOADING: &str = "LOADING Redis is loading the dataset in memory";
static PROGRESS: Progress = Progress::new();

fn options(requirepass: &str) -> ServerOptions {
    let free: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    ServerOptions {
        redis: vec![Endpoint::Tcp(free)],
        memcached: vec![Endpoint::Tcp(free)],
        admin: Some(free),
        threads: 1,
        requirepass: requirepass.into(),
        ..ServerOptions::default()
    }
}

fn store() -> terrace::OpenStore {
    let options =
        terrace::Options { engine: "dram".into(), dram_records: Some(16 << 20), ..Default::default() };
    terrace::open(options).unwrap()
}

/// What is answered until the connection is closed.
fn ask(at: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn page(at: &Addresses, path: &str) -> String {
    ask(at.admin.unwrap(), &format!("GET {path} HTTP/1.0\r\n\r\n"))
}

#[test]
fn a_long_recovery_is_told_and_what_was_said_before_holds_for_nothing() {
    for password in ["", "secret"] {
        let options = options(password);
        let loading = Loading::start(&options, &PROGRESS).unwrap();
        let at = loading.addresses().unwrap().clone();
        let redis = at.redis.unwrap();
        PROGRESS.set(1 << 20, 4 << 20);
        assert!(page(&at, "/health/live").starts_with("HTTP/1.0 200 "));
        for ready in ["/health/ready", "/health"] {
            let told = page(&at, ready);
            assert!(
                told.starts_with("HTTP/1.0 503 ") && told.ends_with("recovering: 25.0% (1 MiB of 4 MiB)\n"),
                "{told}"
            );
        }
        assert!(page(&at, "/metrics").contains("\nterrace_loading_done_bytes 1048576\n"));

        let mut client = Client::connect(redis);
        for command in
            [&["PING"][..], &["GET", "k"], &["AUTH", "secret"], &["HELLO", "3"], &["SHUTDOWN"], &["FLUSHALL"]]
        {
            assert_eq!(client.ask(command), error(LOADING), "{command:?}");
        }
        client.send(b"SET a 1\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
        assert_eq!((client.answer(), client.answer()), (error(LOADING), error(LOADING)));
        match client.ask(&["INFO"]) {
            Value::Bulk(text) if password.is_empty() => {
                let text = String::from_utf8(text).unwrap();
                assert!(
                    text.contains("loading:1\r\n") && text.contains("loading_loaded_perc:25.00\r\n"),
                    "{text}"
                );
            }
            told => assert_eq!(told, error(LOADING), "who must log in is told no more"),
        }
        // Too long to be kept.
        let long = ask(redis, &format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9000\r\n{}", "v".repeat(9000)));
        assert_eq!(long, format!("-{LOADING}\r\n"));
        assert_eq!(ask(redis, "QUIT\r\n"), "+OK\r\n");
        let told = ask(at.memcached.unwrap(), "get k\r\n");
        assert_eq!(told, "SERVER_ERROR loading: the store is being recovered\r\n");

        let server = Server::start_after(loading, store(), options).unwrap();
        assert_eq!(server.addresses(), &at, "the same ports");
        let mut client = Client::connect(redis);
        let login = error("NOAUTH Authentication required.");
        assert_eq!(client.ask(&["SET", "a", "1"]), if password.is_empty() { ok() } else { login });
        for path in ["/health", "/health/live", "/health/ready"] {
            assert!(page(&at, path).ends_with("\r\n\r\nok\n"), "{path}");
        }
        assert!(page(&at, "/metrics").contains("\nterrace_loading 0\n"));
        server.shutdown().unwrap();
    }
}

#[test]
fn a_short_recovery_is_seen_by_nobody() {
    let options = options("");
    let loading = Loading::start(&options, &PROGRESS).unwrap();
    let mut client = Client::connect(loading.addresses().unwrap().redis.unwrap());
    client.send(b"PING\r\n");
    let server = Server::start_after(loading, store(), options).unwrap();
    assert_eq!(client.answer(), Value::Simple(b"PONG".to_vec()));
    server.shutdown().unwrap();
}

#[test]
fn a_recovery_that_fails_leaves_no_port_open() {
    let loading = Loading::start(&options(""), &PROGRESS).unwrap();
    let at = loading.addresses().unwrap().clone();
    drop(loading);
    for port in [at.redis, at.memcached, at.admin] {
        assert!(TcpStream::connect(port.unwrap()).is_err());
    }
}
