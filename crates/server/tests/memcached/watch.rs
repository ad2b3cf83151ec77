//! What watchers hear of that no command does: connections, evictions.

use std::time::Duration;

use terrace::{Options, WhenFull};
use terrace_server::ServerOptions;

use crate::client::Client;
use crate::ours::Ours;

/// Reads events until one holds `text`, and returns it.
fn event(watcher: &mut Client, text: &str) -> String {
    let whole = |got: &[u8]| {
        let got = String::from_utf8_lossy(got);
        got.rfind('\n').and_then(|end| got[..end].lines().find(|line| line.contains(text)).map(str::to_owned))
    };
    let got = watcher.read_until(|got| whole(got).is_some());
    whole(&got).unwrap()
}

#[test]
fn connections_are_told() {
    let ours = Ours::start();
    let mut watcher = Client::connect(ours.address);
    assert_eq!(watcher.ask("watch connevents\r\n", "\r\n"), "OK\r\n");
    let mut client = Client::connect(ours.address);
    client.ask("mn\r\n", "\r\n");
    let line = event(&mut watcher, "type=conn_new rip=127.0.0.1 rport=");
    assert!(line.contains(" transport=tcp cfd="), "{line}");
    client.send(b"quit\r\n");
    let line = event(&mut watcher, "type=conn_close rip=127.0.0.1 rport=");
    assert!(line.contains(" transport=tcp reason=normal cfd="), "{line}");
    let mut browser = Client::connect(ours.address);
    browser.send(b"GET / HTTP/1.1\r\n");
    event(&mut watcher, " transport=tcp reason=error cfd=");
    drop(browser);
    drop((watcher, client));
    ours.stop();
}

#[test]
fn silent_connections_that_are_closed_are_told() {
    let idle_timeout = Duration::from_millis(300);
    let ours = Ours::start_as(64 << 20, ServerOptions { idle_timeout, ..ServerOptions::default() });
    let mut watcher = Client::connect(ours.address);
    assert_eq!(watcher.ask("watch connevents\r\n", "\r\n"), "OK\r\n");
    let mut client = Client::connect(ours.address);
    client.ask("mn\r\n", "\r\n");
    event(&mut watcher, " reason=idle_timeout cfd=");
    let stats = Client::connect(ours.address).ask("stats\r\n", "END\r\n");
    assert!(stats.contains("STAT idle_kicks 1\r\n"), "{stats}");
    drop((watcher, client));
    ours.stop();
}

#[test]
fn deletions_are_told() {
    let ours = Ours::start();
    let mut watcher = Client::connect(ours.address);
    assert_eq!(watcher.ask("watch deletions\r\n", "\r\n"), "OK\r\n");
    let mut client = Client::connect(ours.address);
    client.ask("delete none\r\nset a 0 0 1\r\nx\r\ndelete a\r\n", "DELETED\r\n");
    let line = event(&mut watcher, "type=deleted");
    assert!(line.ends_with(" key=a cmd=delete clsid=1 size=1"), "{line}");
    client.ask("md none\r\nms b%c 1\r\nx\r\nmd b%c I\r\nmd b%c\r\n", "HD\r\nHD\r\nHD\r\n");
    let line = event(&mut watcher, "type=deleted");
    assert!(line.ends_with(" key=b%25c cmd=md clsid=1 size=1"), "{line}");
    drop((watcher, client));
    ours.stop();
}

#[test]
fn evictions_are_told() {
    let store = Options { dram_records: Some(4 << 20), when_full: WhenFull::Evict, ..Options::default() };
    let ours = Ours::start_over(store, ServerOptions::default());
    let mut watcher = Client::connect(ours.address);
    assert_eq!(watcher.ask("watch evictions\r\n", "\r\n"), "OK\r\n");
    let mut client = Client::connect(ours.address);
    let value = "v".repeat(10_000);
    for i in 0..1000 {
        let answer = client.ask(&format!("set key-{i} 0 0 {}\r\n{value}\r\n", value.len()), "\r\n");
        assert_eq!(answer, "STORED\r\n");
    }
    let line = event(&mut watcher, "type=eviction key=key-");
    assert!(line.contains(" fetch=no ttl=-1 la=") && line.ends_with(" clsid=1 size=0"), "{line}");
    let items = client.ask("stats items\r\n", "END\r\n");
    assert!(!items.contains("STAT items:1:evicted 0\r\n"), "{items}");
    drop((watcher, client));
    ours.stop();
}
