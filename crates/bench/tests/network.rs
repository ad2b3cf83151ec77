//! Whole runs over the network, against two small servers that keep records in a map: one speaks RESP, one memcached's text
//! protocol, and either can be told to lie.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use terrace_bench::{Config, Verify, Workload};

type Map = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;
type Handler = fn(BufReader<TcpStream>, &Map, bool) -> Option<()>;

/// Serves on a free port for as long as the test lives; returns the port.
fn serve(handler: Handler, lies: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let map = Map::default();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (map, stream) = (Arc::clone(&map), stream.unwrap());
            // One small answer at a time, or the pipeline would wait for delayed acknowledgements.
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || handler(BufReader::new(stream), &map, lies));
        }
    });
    port
}

fn line(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line).ok()?;
    Some(line.strip_suffix(b"\r\n")?.to_vec())
}

fn body(stream: &mut BufReader<TcpStream>, len: usize) -> Option<Vec<u8>> {
    let mut body = vec![0; len + 2];
    stream.read_exact(&mut body).ok()?;
    Some(body.strip_suffix(b"\r\n")?.to_vec())
}

fn number(text: &[u8]) -> usize {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

fn twist(mut value: Vec<u8>, lies: bool) -> Vec<u8> {
    if lies && let Some(last) = value.last_mut() {
        *last ^= 1;
    }
    value
}

fn redis(mut stream: BufReader<TcpStream>, map: &Map, lies: bool) -> Option<()> {
    loop {
        let count = number(&line(&mut stream)?[1..]);
        let mut words = Vec::new();
        for _ in 0..count {
            let len = number(&line(&mut stream)?[1..]);
            words.push(body(&mut stream, len)?);
        }
        let answer = match words.as_slice() {
            [get, key] if get == b"GET" => match map.lock().unwrap().get(key).cloned() {
                Some(value) => {
                    [format!("${}\r\n", value.len()).as_bytes(), &twist(value, lies), b"\r\n"].concat()
                }
                None => b"$-1\r\n".to_vec(),
            },
            [set, key, value] if set == b"SET" => {
                map.lock().unwrap().insert(key.clone(), value.clone());
                b"+OK\r\n".to_vec()
            }
            _ => b"-ERR unknown command\r\n".to_vec(),
        };
        stream.get_mut().write_all(&answer).ok()?;
    }
}

fn memcached(mut stream: BufReader<TcpStream>, map: &Map, lies: bool) -> Option<()> {
    loop {
        let request = line(&mut stream)?;
        let words: Vec<&[u8]> = request.split(|&byte| byte == b' ').collect();
        let answer = match words.as_slice() {
            [b"get", key] => match map.lock().unwrap().get(*key).cloned() {
                Some(value) => {
                    let head = format!("VALUE {} 0 {}\r\n", std::str::from_utf8(key).unwrap(), value.len());
                    [head.as_bytes(), &twist(value, lies), b"\r\nEND\r\n"].concat()
                }
                None => b"END\r\n".to_vec(),
            },
            [b"set", key, b"0", b"0", len] => {
                let key = key.to_vec();
                let value = body(&mut stream, number(len))?;
                map.lock().unwrap().insert(key, value);
                b"STORED\r\n".to_vec()
            }
            _ => b"ERROR\r\n".to_vec(),
        };
        stream.get_mut().write_all(&answer).ok()?;
    }
}

fn config(scheme: &str, port: u16, workload: Workload) -> Config {
    Config {
        connect: Some(format!("{scheme}://127.0.0.1:{port}").parse().unwrap()),
        workload,
        records: 500,
        operations: 3000,
        threads: 2,
        batch: 8,
        value_bytes: 100,
        verify: Verify::All,
        ..Config::default()
    }
}

const SERVERS: [(&str, Handler); 2] = [("redis", redis), ("memcached", memcached)];
const WORKLOADS: [Workload; 5] = [Workload::A, Workload::D, Workload::F, Workload::ReadOnly, Workload::Load];

#[test]
fn every_workload_reads_what_it_wrote() {
    for (scheme, handler) in SERVERS {
        for workload in WORKLOADS {
            let port = serve(handler, false);
            let report = terrace_bench::run(&config(scheme, port, workload)).unwrap();
            assert!(report.is_sound(), "{scheme} {}: {report}", workload.name());
            assert_eq!((report.misses, report.verified), (0, report.gets), "{scheme} {}", workload.name());
            let counted: u64 = report.latency_ns.values().map(|latency| latency.count).sum();
            assert_eq!(counted, report.operations);
        }
    }
}

#[test]
fn wrong_answers_are_found() {
    for (scheme, handler) in SERVERS {
        let port = serve(handler, true);
        let report = terrace_bench::run(&config(scheme, port, Workload::ReadOnly)).unwrap();
        assert_eq!(report.wrong, 3000);
        assert!(!report.is_sound());
    }
}

#[test]
fn a_pipeline_larger_than_the_sockets_buffers_gets_through() {
    for (scheme, handler) in SERVERS {
        let port = serve(handler, false);
        let large = Config {
            batch: 512,
            value_bytes: 20_000,
            operations: 2000,
            ..config(scheme, port, Workload::WriteHeavy)
        };
        assert!(terrace_bench::run(&large).unwrap().is_sound());
    }
}

#[test]
fn the_json_has_the_keys_that_readers_expect() {
    let port = serve(redis, false);
    let report = terrace_bench::run(&config("redis", port, Workload::A)).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    report.write_json(file.path()).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
    for key in [
        "engine",
        "index",
        "workload",
        "records",
        "operations",
        "threads",
        "options",
        "ops_per_second",
        "latency_ns",
        "tiers",
        "media",
        "dram_bytes_per_record",
        "load_seconds",
    ] {
        assert!(json.get(key).is_some(), "{key} is missing");
    }
    for kind in ["get", "set"] {
        for percentile in ["p50", "p90", "p99", "p999", "p9999", "max"] {
            assert!(json["latency_ns"][kind][percentile].as_u64().unwrap() > 0, "{kind} {percentile}");
        }
    }
    for option in ["durability", "profile", "distribution", "seed", "batch", "key_bytes", "value_bytes"] {
        assert!(json["options"].get(option).is_some(), "{option} is missing");
    }
    assert!(json.get("recovery_seconds").is_none(), "nothing was recovered");
    assert!(json["ops_per_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn nobody_there_is_a_clear_error() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = terrace_bench::run(&config("redis", free, Workload::A)).unwrap_err();
    assert!(format!("{error:#}").contains("nobody answers at 127.0.0.1"), "{error:#}");
}
