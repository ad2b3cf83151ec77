//! What signals do to a server: no signal that is repeated soon, and none without a meaning, costs what is not saved.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use terrace_testkit::client::{RespClient, Value};

const KEYS: usize = 500;

/// A server on a directory that keeps nothing over a crash, and a client of it.
fn start(dir: &Path) -> (Child, RespClient) {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address: SocketAddr = probe.local_addr().unwrap();
    drop(probe);
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(["serve", "--memcached", "off", "--threads", "1", "--dram", "32MiB", "--ssd", "64MiB"])
        .args(["--durability", "none", "--redis", &address.to_string(), "--dir"])
        .arg(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let from = Instant::now();
    loop {
        if let Ok(mut client) = RespClient::connect(address)
            && client.text("PING").is_ok_and(|pong| pong == Value::Simple("PONG".into()))
        {
            return (child, client);
        }
        assert!(child.try_wait().unwrap().is_none(), "the server ended at its start");
        assert!(from.elapsed() < Duration::from_secs(60), "the server does not answer");
        // Polling another process; nothing depends on how long this takes.
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn no_signal_costs_what_is_not_saved() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, mut client) = start(dir.path());
    for key in 0..KEYS {
        client.text(&format!("SET key{key} value")).unwrap();
    }
    for signal in [Signal::USR1, Signal::USR2, Signal::ALARM, Signal::PIPE] {
        send(&child, signal);
    }
    assert_eq!(client.text("PING").unwrap(), Value::Simple("PONG".into()));
    // As wrappers send them: one after the other, while it saves.
    for signal in [Signal::TERM, Signal::TERM, Signal::INT, Signal::HUP, Signal::TERM, Signal::QUIT] {
        if child.try_wait().unwrap().is_none() {
            send(&child, signal);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(child.wait().unwrap().success(), "an orderly end");

    let (mut child, mut client) = start(dir.path());
    assert_eq!(client.text("DBSIZE").unwrap(), Value::Integer(KEYS as i64));
    send(&child, Signal::TERM);
    assert!(child.wait().unwrap().success());
}
