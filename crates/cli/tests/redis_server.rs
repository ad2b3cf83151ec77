//! The command under redis-server's name, and with a redis.conf: started, asked, stopped.

#![expect(clippy::unwrap_used, reason = "helpers stop a test by panicking")]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use terrace_testkit::client::{RespClient, Value};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program, by the name that makes it redis-server.
fn link(dir: &Path) -> PathBuf {
    let link = dir.join("redis-server");
    symlink(env!("CARGO_BIN_EXE_terrace"), &link).unwrap();
    link
}

fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    let ours = std::env::vars_os().map(|(name, _)| name);
    ours.filter(|name| name.to_string_lossy().starts_with("TERRACE_")).for_each(|name| {
        command.env_remove(name);
    });
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn connect(port: u16) -> RespClient {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let from = Instant::now();
    loop {
        let client = RespClient::connect(address).and_then(|mut client| Ok((client.text("PING")?, client)));
        match client {
            Ok((Value::Simple(pong), client)) if pong == "PONG" => return client,
            other => assert!(from.elapsed() < PATIENCE, "{:?}", other.map(|(answer, _)| answer)),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let from = Instant::now();
    while !holds() {
        assert!(from.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ended when dropped, whatever the test has found.
struct Daemon(Pid);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

fn stop(mut running: Running) {
    kill_process(Pid::from_child(&running.0), Signal::TERM).unwrap();
    assert!(running.0.wait().unwrap().success());
}

#[test]
fn it_goes_into_the_background_with_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let port = free_port();
    let text = format!(
        "bind 127.0.0.1\nport {port}\ndaemonize yes\npidfile {dir}/redis.pid\nlogfile {dir}/redis.log\ndir {dir}\n\
         dbfilename saved.rdb\nmaxmemory 32mb\nappendonly yes\nhash-max-listpack-entries 7\nuser bob on >secret ~* +@all\n",
        dir = dir.path().display()
    );
    std::fs::write(at("redis.conf"), text).unwrap();
    let log = || std::fs::read_to_string(at("redis.log")).unwrap_or_default();
    let status =
        command(link(dir.path())).arg(at("redis.conf")).args(["--slowlog-max-len", "9"]).status().unwrap();
    assert!(status.success(), "{}", log());
    let pid: i32 = std::fs::read_to_string(at("redis.pid")).unwrap().trim().parse().unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    let _daemon = Daemon(pid);
    let mut client = connect(port);
    let get = |client: &mut RespClient, name: &str| match client.text(&format!("CONFIG GET {name}")).unwrap()
    {
        Value::Array(pair) => match &pair[1] {
            Value::Bulk(value) => String::from_utf8(value.clone()).unwrap(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    for (name, value) in [
        ("hash-max-listpack-entries", "7"),
        ("slowlog-max-len", "9"),
        ("dbfilename", "saved.rdb"),
        ("maxmemory", "33554432"),
        ("list-max-listpack-size", "-2"),
    ] {
        assert_eq!(get(&mut client, name), value, "{name}");
    }
    assert_eq!(client.text("SET k v").unwrap(), Value::Simple("OK".into()));
    assert_eq!(client.text("AUTH bob secret").unwrap(), Value::Simple("OK".into()));
    let told = log();
    assert!(told.contains("line 10: hash-max-listpack-entries 7: means nothing here"), "{told}");
    assert!(told.contains("--slowlog-max-len: slowlog-max-len 9: --slowlog-max-len"), "{told}");
    assert!(!told.contains("secret"), "{told}");
    // Logs are rotated by giving the file another name.
    std::fs::rename(at("redis.log"), at("redis.log.1")).unwrap();
    assert_eq!(client.text("CONFIG SET lfu-log-factor 11").unwrap(), Value::Simple("OK".into()));
    until("it logs into the new file", || log().contains("CONFIG SET lfu-log-factor"));
    kill_process(pid, Signal::TERM).unwrap();
    until("it ends", || test_kill_process(pid).is_err());
    assert!(!at("redis.pid").exists());
}

#[test]
fn a_service_manager_is_told_and_flags_come_first() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let (port, other) = (free_port(), free_port());
    let conf = dir.path().join("redis.conf");
    std::fs::write(&conf, format!("port {other}\nsupervised systemd\nsave 60 1\n")).unwrap();
    let running = command(env!("CARGO_BIN_EXE_terrace"))
        .arg("serve")
        .arg(&conf)
        .arg("--dir")
        .arg(dir.path().join("data"))
        .args(["--redis", &format!("127.0.0.1:{port}"), "--dram", "32MiB", "--ssd", "64MiB"])
        .env("NOTIFY_SOCKET", &socket)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let running = Running(running);
    let mut heard = [0; 64];
    let len = manager.recv(&mut heard).unwrap();
    assert_eq!(&heard[..len], b"READY=1");
    assert_eq!(connect(port).text("SET k v").unwrap(), Value::Simple("OK".into()));
    assert!(RespClient::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, other))).is_err());
    stop(running);
}

#[test]
fn what_it_lacks_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let program = link(dir.path());
    let refused = |arguments: &[&str]| {
        let output = command(&program).args(arguments).arg("--dir").arg(&data).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let why = refused(&["--replicaof", "127.0.0.1", "6379"]);
    assert!(why.contains("--replicaof: replicaof 127.0.0.1 6379: there is no replication"), "{why}");
    let why = refused(&["--prot", "7"]);
    assert!(why.contains("did you mean port?"), "{why}");
    assert!(!data.exists());
    let version = command(&program).arg("--version").output().unwrap();
    assert!(String::from_utf8(version.stdout).unwrap().starts_with("Redis server v="));
    let help = command(env!("CARGO_BIN_EXE_terrace")).args(["redis-server", "-h"]).output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("Usage: redis-server"));
}
