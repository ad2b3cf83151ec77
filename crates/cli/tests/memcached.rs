//! The command under memcached's name: started, asked, stopped.

#![expect(clippy::unwrap_used, reason = "helpers stop a test by panicking")]

use std::fs::{Permissions, set_permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A link to the program, by the name that makes it memcached.
fn program(dir: &Path) -> PathBuf {
    let link = dir.join("memcached");
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_terrace"), &link).unwrap();
    }
    link
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(program(dir)).args(arguments).env_remove("RUST_LOG").output().unwrap()
}

/// The status of one that ends by itself, and what it says.
fn refused(dir: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = Command::new(program(dir))
        .args(arguments)
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let from = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if from.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it serves with {arguments:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A running one, on a free port of the loopback.
struct Running {
    child: Child,
    ports: PathBuf,
}

impl Running {
    fn start(dir: &Path, arguments: &[&str]) -> Self {
        let ports = dir.join("ports");
        let _ = std::fs::remove_file(&ports);
        let child = Command::new(program(dir))
            .args(["-p", "-1", "-t", "1"])
            .args(arguments)
            .env("MEMCACHED_PORT_FILENAME", &ports)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, ports }
    }

    fn connect(&mut self) -> TcpStream {
        let from = Instant::now();
        while !self.ports.exists() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("it ended: {status}");
            }
            assert!(from.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(5));
        }
        connect(&self.ports)
    }

    fn stop(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(ports: &Path) -> TcpStream {
    let text = std::fs::read_to_string(ports).unwrap();
    let port: u16 = text.lines().find_map(|line| line.strip_prefix("TCP INET: ")).unwrap().parse().unwrap();
    let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

fn ask(client: &mut (impl Read + Write), request: &str, answer: &str) {
    client.write_all(request.as_bytes()).unwrap();
    let mut got = vec![0; answer.len()];
    client.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), answer, "to {request}");
}

const VALUE: &str = "VALUE k 7 5\r\nvalue\r\nEND\r\n";

#[test]
fn it_says_what_it_is_and_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let version = run(dir.path(), &["-V"]);
    let text = String::from_utf8(version.stdout).unwrap();
    assert!(
        version.status.success() && text.starts_with("memcached 1.6.") && text.contains("(terrace "),
        "{text}"
    );
    let help = Command::new(env!("CARGO_BIN_EXE_terrace")).args(["memcached", "-h"]).output().unwrap();
    assert!(help.status.success() && help.stdout.starts_with(b"memcached 1.6."));
    let wrong = run(dir.path(), &["-m", "lots"]);
    assert_eq!(wrong.status.code(), Some(64));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("expected megabytes"));
}

#[test]
fn a_unix_socket_is_served_until_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, pid) = (dir.path().join("socket"), dir.path().join("pid"));
    let arguments = [
        "memcached",
        "-s",
        socket.to_str().unwrap(),
        "-P",
        pid.to_str().unwrap(),
        "-m",
        "16",
        "-f",
        "1.1",
        "-t",
        "1",
    ];
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(arguments)
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let from = Instant::now();
    while !pid.exists() {
        assert!(from.elapsed() < PATIENCE && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(std::fs::read_to_string(&pid).unwrap(), format!("{}\n", child.id()));
    let mut client = UnixStream::connect(&socket).unwrap();
    ask(&mut client, "set k 7 0 5\r\nvalue\r\nget k\r\n", &format!("STORED\r\n{VALUE}"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && log.contains("-f: records are not kept in slabs"), "{log}");
    assert_eq!(log.lines().count(), 1, "one line, and quiet otherwise: {log}");
    assert!(!socket.exists() && !pid.exists());
}

#[test]
fn a_daemon_is_ready_when_its_parent_returns() {
    let dir = tempfile::tempdir().unwrap();
    let (pid, ports) = (dir.path().join("pid"), dir.path().join("ports"));
    let started = Command::new(program(dir.path()))
        .args(["-d", "-p", "-1", "-m", "16", "-t", "1", "-P", pid.to_str().unwrap()])
        .env("MEMCACHED_PORT_FILENAME", &ports)
        .output()
        .unwrap();
    assert!(started.status.success(), "{started:?}");
    let number: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let daemon = Pid::from_raw(number).unwrap();
    ask(&mut connect(&ports), "set k 7 0 5\r\nvalue\r\nget k\r\n", &format!("STORED\r\n{VALUE}"));
    assert_eq!(rustix::process::getsid(Some(daemon)).unwrap(), daemon, "it has a session of its own");
    kill_process(daemon, Signal::USR1).unwrap();
    let from = Instant::now();
    while pid.exists() || test_kill_process(daemon).is_ok() && !is_zombie(number) {
        assert!(from.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    let failed = run(dir.path(), &["-d", "-s", "/nowhere/at/all"]);
    let log = String::from_utf8(failed.stderr).unwrap();
    assert!(!failed.status.success() && log.contains("/nowhere/at/all"), "{log}");
}

/// Nobody may wait for an orphan here.
fn is_zombie(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn items_on_an_ssd_go_with_the_process_and_those_in_a_memory_file_stay() {
    keep_and_lose(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        keep_and_lose(memory);
    }
}

fn keep_and_lose(place: &Path) {
    let dir = tempfile::tempdir_in(place).unwrap();
    let path = dir.path().join("items");
    let ext = format!("ext_path={}:64M", path.display());
    let file = path.to_str().unwrap();
    for (arguments, again) in [(["-m", "32", "-o", &ext], "END\r\n"), (["-m", "64", "-e", file], VALUE)] {
        for expected in ["END\r\n", again] {
            let mut running = Running::start(dir.path(), &arguments);
            let mut client = running.connect();
            ask(&mut client, "get k\r\n", expected);
            ask(&mut client, "set k 7 0 5\r\nvalue\r\nget k\r\n", &format!("STORED\r\n{VALUE}"));
            running.stop(Signal::USR1);
        }
        std::fs::remove_dir_all(dir.path().join("items.terrace")).unwrap();
    }
}

#[test]
fn a_port_that_is_taken_costs_no_cache() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("items");
    let arguments = ["-m", "64", "-e", file.to_str().unwrap()];
    let mut running = Running::start(dir.path(), &arguments);
    let mut client = running.connect();
    ask(&mut client, "set k 7 0 5\r\nvalue\r\n", "STORED\r\n");
    running.stop(Signal::USR1);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (_, why) = refused(dir.path(), &[&arguments[..], &["-p", &port]].concat());
    assert!(why.contains("failed to listen") && why.contains(&port), "{why}");
    let mut running = Running::start(dir.path(), &arguments);
    let mut client = running.connect();
    ask(&mut client, "get k\r\n", VALUE);
    running.stop(Signal::USR1);
}

/// Needs root, which alone can become somebody else.
#[test]
fn the_pid_file_of_a_daemon_that_changes_its_user_is_written_where_that_user_may_not_write() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (open, closed) = (dir.path().join("open"), dir.path().join("closed"));
    for (path, mode) in [(&open, 0o777), (&closed, 0o755)] {
        std::fs::create_dir(path).unwrap();
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let pid = closed.join("pid");
    let mut running = Running::start(&open, &["-m", "16", "-u", "nobody", "-P", pid.to_str().unwrap()]);
    ask(&mut running.connect(), "mn\r\n", "MN\r\n");
    assert_eq!(std::fs::read_to_string(&pid).unwrap(), format!("{}\n", running.child.id()));
    running.stop(Signal::TERM);
}

#[test]
fn it_serves_without_a_pid_file_that_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path(), &["-m", "16", "-P", "/nowhere/at/all/pid"]);
    ask(&mut running.connect(), "mn\r\n", "MN\r\n");
    running.stop(Signal::TERM);
}

#[test]
fn nobody_watches_where_that_is_disabled() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path(), &["-m", "16", "-W"]);
    ask(&mut running.connect(), "watch\r\n", "CLIENT_ERROR watch commands not allowed\r\n");
    running.stop(Signal::TERM);
}

/// Where locking is not allowed it takes no more either.
#[test]
fn locked_memory_is_what_is_used_and_not_all_that_is_reserved() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path(), &["-m", "16", "-k"]);
    ask(&mut running.connect(), "mn\r\n", "MN\r\n");
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = resident.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    assert!(kib < 256 << 10, "{kib} KiB are resident");
    running.stop(Signal::TERM);
}

#[test]
fn all_interfaces_are_a_star() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path(), &["-m", "16", "-l", "*"]);
    ask(&mut running.connect(), "mn\r\n", "MN\r\n");
    running.stop(Signal::TERM);
}

#[test]
fn a_mistyped_place_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let file = missing.join("items");
    let (file, ext) = (file.to_str().unwrap(), format!("ext_path={}:64M", file.display()));
    for (arguments, flag) in [(["-m", "64", "-e", file], "-e"), (["-m", "64", "-o", &ext], "-o ext_path")] {
        let (status, why) = refused(dir.path(), &[&["-p", "-1", "-t", "1"], &arguments[..]].concat());
        assert!(status != Some(0) && why.contains(flag) && why.contains("is no directory"), "{why}");
        assert!(!missing.exists());
    }
}

#[test]
fn more_threads_than_sessions_are_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let (status, why) = refused(dir.path(), &["-t", "256", "-s", socket.to_str().unwrap()]);
    assert!(status == Some(64) && why.contains("-t \"256\": expected 1 to 255 threads"), "{why}");
}

/// More than a kernel gives a process, even root's.
#[test]
fn too_many_connections_are_told_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let mut child = Command::new(program(dir.path()))
        .args(["-m", "16", "-t", "1", "-c", "16777216", "-s", socket.to_str().unwrap()])
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let from = Instant::now();
    while !socket.exists() {
        assert!(from.elapsed() < PATIENCE && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let log = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(!log.contains("open files") || !log.contains("why=\"\""), "{log}");
}
