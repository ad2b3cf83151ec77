//! A real server whose log fails a sync: what clients are told of it, in both protocols, and what `INFO` and `stats` say.

#![expect(clippy::unwrap_used, reason = "helpers stop a test by panicking")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terrace_engine::Durability;
use terrace_proof::subjects::WITH_BLOCKS;
use terrace_server::{Server, ServerOptions};

use super::failed_sync::{Media, options};

const WHY: &str = "syncing the log: log i/o: planted: the device is sick";

/// Sends a request and reads until the answer ends so.
fn ask(client: &mut TcpStream, request: &str, ends: &str) -> String {
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(ends.as_bytes()) {
        let mut bytes = [0; 4096];
        let read = match client.read(&mut bytes) {
            // With a timeout set, the kernel does not begin a read again that it broke off for something else of this thread's.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.unwrap(),
        };
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..read]);
    }
    String::from_utf8(answer).unwrap()
}

fn connect(address: Option<SocketAddr>) -> TcpStream {
    let client = TcpStream::connect(address.unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client
}

fn since(report: &str, name: &str) -> u64 {
    let at = report.find(name).unwrap_or_else(|| panic!("no {name} in {report}"));
    report[at + name.len()..].lines().next().unwrap().trim().parse().unwrap()
}

#[test]
fn clients_are_told_that_a_sync_failed_and_why_and_since_when() {
    WITH_BLOCKS.iter().for_each(|(engine, _)| are_told(engine));
}

fn are_told(engine: &str) {
    // Not on tmpfs, where there is nothing to sync.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let media = Media { sick: "log", ..Media::default() };
    let store = terrace::open_on(options(engine, dir.path(), Durability::Sync), &media).unwrap();
    let free = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()];
    let how = ServerOptions { redis: free.clone(), memcached: free, threads: 1, ..ServerOptions::default() };
    let server = Server::start(store.clone(), how).unwrap();
    let addresses = server.addresses();
    let (mut redis, mut memcached) = (connect(addresses.redis), connect(addresses.memcached));

    assert_eq!(ask(&mut redis, "SET a 1\r\n", "\r\n"), "+OK\r\n");
    let info = ask(&mut redis, "INFO persistence\r\n", "\r\n\r\n");
    assert!(
        info.contains("aof_last_write_status:ok\r\n")
            && !info.contains("log_failure:")
            && !info.contains("tier_failure:"),
        "{info}"
    );
    let stats = ask(&mut memcached, "stats\r\n", "END\r\n");
    assert!(!stats.contains("failure"), "{stats}");

    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    media.fail.store(true, SeqCst);
    let refused = ask(&mut redis, "SET a 2\r\n", "\r\n");
    assert!(refused.starts_with("-MISCONF ") && refused.contains(WHY), "{refused}");
    for _ in 0..2 {
        let refused = ask(&mut redis, "GET a\r\n", "\r\n");
        assert!(refused.starts_with("-MISCONF ") && refused.contains(WHY), "{refused}");
        let refused = ask(&mut memcached, "set a 0 0 1\r\n3\r\n", "\r\n");
        assert!(refused.starts_with("SERVER_ERROR ") && refused.contains(WHY), "{refused}");
    }
    let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let info = ask(&mut redis, "INFO persistence\r\n", "\r\n\r\n");
    assert!(info.contains("aof_last_write_status:err\r\n"), "{info}");
    assert!(info.contains(&format!("log_failure:{WHY}\r\n")), "{info}");
    let stats = ask(&mut memcached, "stats\r\n", "END\r\n");
    assert!(stats.contains(&format!("STAT log_failure {WHY}\r\n")), "{stats}");
    for told in [since(&info, "log_failed_since:"), since(&stats, "STAT log_failed_since ")] {
        assert!((before..=after).contains(&told), "{told} is not from {before} to {after}");
    }
    drop((redis, memcached));
    drop(server);
    let error = store.close().unwrap_err().to_string();
    assert!(error.contains(WHY), "{error}");
}
