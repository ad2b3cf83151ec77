//! Logins, shutting down, listing keys, counts by prefix: what an operator switches on and off.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use terrace_server::{MemcachedUsers, OnStop, ServerOptions, StopKind};

use crate::client::Client;
use crate::ours::Ours;

const ROOM: u64 = 64 << 20;

#[test]
fn who_must_log_in() {
    let users = MemcachedUsers::parse(b"joe:secret\nann:pa:ss\n").unwrap();
    let ours = Ours::start_as(
        ROOM,
        ServerOptions { memcached_users: Some(users.clone()), ..ServerOptions::default() },
    );
    let unauthenticated = "CLIENT_ERROR unauthenticated\r\n";
    let mut client = Client::connect(ours.address);
    for line in ["get a\r\n", "version\r\n", "ms a 10\r\n", "set a 0 0\r\n", "set a 0 0 x\r\n"] {
        assert_eq!(client.ask(line, "\r\n"), unauthenticated, "{line}");
    }
    // Too short for a login, or for anything.
    for line in ["quit\r\n", "\r\n", "mn\r\n"] {
        let mut client = Client::connect(ours.address);
        client.send(line.as_bytes());
        assert_eq!(client.rest(), b"", "{line}");
    }
    let long = "CLIENT_ERROR auth token too long\r\n";
    assert_eq!(client.ask("set a 0 0 16385\r\n", "\r\n"), long);
    for (login, answer) in [
        ("set a 0 0 3\r\njoe\r\n", "CLIENT_ERROR bad authentication token format\r\n"),
        ("set a 0 0 9\r\njoe wrong\r\n", "CLIENT_ERROR authentication failure\r\n"),
        ("set a 0 0 10 noreply\r\nann secret\r\n", "CLIENT_ERROR authentication failure\r\n"),
        ("set a 0 0 10\r\njoe secretxy", "CLIENT_ERROR bad command line termination\r\n"),
    ] {
        assert_eq!(client.ask(login, "\r\n"), answer, "{login}");
    }
    assert_eq!(client.ask("get a\r\n", unauthenticated), unauthenticated, "still");
    assert_eq!(client.ask("set x y z 9\r\nann pa:ss\r\n", "\r\n"), "STORED\r\n");
    assert_eq!(
        client.ask("set a 0 0 1\r\nx\r\nget a\r\n", "END\r\n"),
        "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
    );
    let stats = client.ask("stats\r\n", "END\r\n");
    assert!(stats.contains("STAT auth_cmds 3\r\nSTAT auth_errors 2\r\n"), "{stats}");
    // Users can be changed while the server runs.
    users.replace(b"joe:new").unwrap();
    let mut other = Client::connect(ours.address);
    assert!(other.ask("set a 0 0 10\r\njoe secret\r\n", "\r\n").contains("failure"));
    assert_eq!(other.ask("set a 0 0 7\r\njoe new\r\n", "\r\n"), "STORED\r\n");
    drop((client, other));
    ours.stop();
}

#[test]
fn shutting_down() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    for command in ["shutdown\r\n", "shutdown graceful\r\n", "shutdown nonsense\r\n"] {
        assert_eq!(client.ask(command, "\r\n"), "SERVER_ERROR: shutdown not enabled\r\n");
    }
    drop(client);
    ours.stop();

    let (now, graceful) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = (Arc::clone(&now), Arc::clone(&graceful));
    let on_stop = OnStop::new(move |kind| {
        let seen = if kind == StopKind::Now { &seen.0 } else { &seen.1 };
        seen.fetch_add(1, Relaxed);
    });
    let options =
        ServerOptions { shutdown_command: true, on_stop: Some(on_stop), ..ServerOptions::default() };
    let ours = Ours::start_as(ROOM, options);
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask("shutdown nonsense\r\n", "\r\n"), "CLIENT_ERROR invalid shutdown mode\r\n");
    client.send(b"set a 0 0 1\r\nx\r\nshutdown\r\nget a\r\n");
    assert_eq!(client.rest(), b"STORED\r\n", "what came before is answered");
    let mut client = Client::connect(ours.address);
    client.send(b"shutdown graceful\r\n");
    assert_eq!(client.rest(), b"");
    assert_eq!((now.load(Relaxed), graceful.load(Relaxed)), (1, 1));
    ours.stop();
}

#[test]
fn all_keys_are_listed() {
    const KEYS: usize = 3000;
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let mut request: String =
        (0..KEYS).map(|i| format!("set k{i} 0 0 {} noreply\r\n{i}\r\n", i.to_string().len())).collect();
    // A space, which would end the key.
    request += "ms YSBi 1 b T1000\r\nx\r\n";
    assert_eq!(client.ask(&request, "HD\r\n"), "HD\r\n");
    // What follows it in the pipeline is answered after it.
    let got = client.ask("mn\r\nlru_crawler metadump all\r\nget k7\r\n", "7\r\nEND\r\n");
    let lines = got
        .strip_prefix("MN\r\nOK\r\n")
        .unwrap()
        .strip_suffix("END\r\nVALUE k7 0 1\r\n7\r\nEND\r\n")
        .unwrap();
    let keys: BTreeSet<&str> = lines.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(
        (lines.lines().count(), keys.len()),
        (KEYS + 1, KEYS + 1),
        "each once: nothing changed meanwhile"
    );
    assert!(keys.contains("key=k2999") && keys.contains("key=a%20b"));
    let line = lines.lines().find(|line| line.starts_with("key=k7 ")).unwrap();
    assert!(line.contains(" exp=-1 la=") && line.ends_with(" fetch=no cls=1 size=3 flags=0 "), "{line}");
    assert_eq!(client.ask("lru_crawler metadump 2\r\n", "END\r\n"), "OK\r\nEND\r\n");
    assert_eq!(client.ask("lru_crawler metadump hash\r\n", "END\r\n").lines().count(), KEYS + 3);
    // Lines that can be sent as they are.
    let got = client.ask("lru_crawler mgdump all\r\n", "EN\r\n");
    let lines: BTreeSet<&str> = got.lines().collect();
    assert_eq!(lines.len(), KEYS + 3);
    assert!(got.starts_with("OK\r\nmg ") && lines.contains("mg k7") && lines.contains("mg YSBi b"), "{got}");
    assert_eq!(client.ask("lru_crawler mgdump 2\r\n", "EN\r\n"), "OK\r\nEN\r\n");

    let got = client.ask("stats cachedump 1 5\r\n", "END\r\n");
    assert_eq!(got.lines().count(), 6);
    assert!(got.starts_with("ITEM ") && got.contains(" b; 0 s]\r\n"), "{got}");
    assert_eq!(client.ask("stats cachedump 1 0\r\n", "END\r\n").lines().count(), KEYS + 2);
    assert_eq!(client.ask("lru_crawler crawl ,\r\n", "\r\n"), "NOTSTARTED no items to crawl\r\n");
    assert_eq!(
        client.ask("lru_crawler disable\r\nlru_crawler metadump all\r\n", "disabled\r\n"),
        "OK\r\nCLIENT_ERROR lru crawler disabled\r\n"
    );
    assert_eq!(client.ask("lru_crawler crawl all\r\n", "\r\n"), "CLIENT_ERROR lru crawler disabled\r\n");
    assert_eq!(client.ask("lru_crawler disable\r\n", "\r\n"), "OK\r\n", "it is");
    assert_eq!(client.ask("lru_crawler enable\r\nlru_crawler crawl 1\r\n", "OK\r\nOK\r\n"), "OK\r\nOK\r\n");
    drop(client);
    ours.stop();
}

#[test]
fn an_empty_store_has_an_empty_list() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask("lru_crawler metadump all\r\nmn\r\n", "MN\r\n"), "OK\r\nEND\r\nMN\r\n");
    assert_eq!(client.ask("stats cachedump 1 0\r\nmn\r\n", "MN\r\n"), "END\r\nMN\r\n");
    drop(client);
    ours.stop();
}

#[test]
fn what_is_switched_off() {
    let options = ServerOptions { memcached_flush: false, memcached_dump: false, ..ServerOptions::default() };
    let ours = Ours::start_as(ROOM, options);
    let mut client = Client::connect(ours.address);
    for (command, answer) in [
        ("flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n"),
        ("flush_all noreply\r\nmn\r\n", "MN\r\n"),
        ("lru_crawler metadump all\r\n", "ERROR metadump not allowed\r\n"),
        ("lru_crawler mgdump all\r\n", "ERROR key dump not allowed\r\n"),
        ("stats cachedump 1 0\r\n", "CLIENT_ERROR stats cachedump not allowed\r\n"),
        ("stats detail dump\r\n", "CLIENT_ERROR stats detail not allowed\r\n"),
    ] {
        assert_eq!(client.ask(command, "\r\n"), answer, "{command}");
    }
    let settings = client.ask("stats settings\r\n", "END\r\n");
    for line in ["flush_enabled no", "dump_enabled no", "auth_enabled_ascii no", "shutdown_command no"] {
        assert!(settings.contains(&format!("STAT {line}\r\n")), "no {line} in\n{settings}");
    }
    drop(client);
    ours.stop();
}

#[test]
fn counts_by_prefix() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let work =
        "set foo:1 0 0 1\r\nx\r\nget foo:1 foo:2 bar\r\ndelete foo:1\r\ndelete foo:1\r\nmg foo:2 v\r\n";
    client.ask(work, "EN\r\n");
    assert_eq!(client.ask("stats detail dump\r\n", "END\r\n"), "END\r\n", "nobody wanted them");
    assert_eq!(client.ask("stats detail on\r\n", "\r\n"), "OK\r\n");
    client.ask(work, "EN\r\n");
    let counted = "PREFIX foo get 2 hit 1 set 1 del 2\r\nEND\r\n";
    assert_eq!(client.ask("stats detail dump\r\n", "END\r\n"), counted);
    assert_eq!(client.ask("stats detail off\r\n", "\r\n"), "OK\r\n");
    client.ask(work, "EN\r\n");
    assert_eq!(client.ask("stats detail dump\r\n", "END\r\n"), counted, "no more");
    assert_eq!(client.ask("stats reset\r\nstats detail dump\r\n", "END\r\n"), "RESET\r\nEND\r\n");
    drop(client);
    ours.stop();

    let options = ServerOptions {
        memcached_detail: true,
        memcached_prefix_delimiter: b'/',
        ..ServerOptions::default()
    };
    let ours = Ours::start_as(ROOM, options);
    let mut client = Client::connect(ours.address);
    client.ask("get a/b:c d:e\r\n", "END\r\n");
    assert_eq!(client.ask("stats detail dump\r\n", "END\r\n"), "PREFIX a get 1 hit 0 set 0 del 0\r\nEND\r\n");
    drop(client);
    ours.stop();
}

/// Lines without what differs from run to run.
fn events(text: &str) -> Vec<String> {
    let steady = |word: &&str| !["ts=", "gid=", "cfd="].iter().any(|varies| word.starts_with(varies));
    text.lines().map(|line| line.split(' ').filter(steady).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn watchers_see_what_others_do() {
    let ours = Ours::start();
    let mut watcher = Client::connect(ours.address);
    assert_eq!(watcher.ask("watch fetchers mutations\r\n", "\r\n"), "OK\r\n");
    let mut reads = Client::connect(ours.address);
    assert_eq!(reads.ask("watch\r\n", "\r\n"), "OK\r\n");
    let mut client = Client::connect(ours.address);
    client.ask("get a\r\nset a 5 0 3\r\nabc\r\nadd a 0 100 1\r\nx\r\nget a\r\n", "abc\r\nEND\r\n");
    client.ask(
        "mg a v\r\nmg b v\r\nms a 2 T30 C1\r\nxx\r\nms YSBi 2 b\r\nxx\r\nappend a 0 0 1\r\nd\r\n",
        "STORED\r\n",
    );
    let expected = [
        "type=item_get key=a status=not_found clsid=0 size=0",
        "type=item_get key=a status=not_found clsid=0 size=0",
        "type=item_store key=a status=stored cmd=set ttl=0 clsid=1 size=3",
        "type=item_get key=a status=found clsid=1 size=3",
        "type=item_store key=a status=not_stored cmd=add ttl=100 clsid=1 size=1",
        "type=item_get key=a status=found clsid=1 size=3",
        "type=item_get key=a status=found clsid=1 size=3",
        "type=item_get key=b status=not_found clsid=0 size=0",
        "type=item_get key=a status=found clsid=1 size=3",
        "type=item_store key=a status=exists cmd=cas ttl=30 clsid=1 size=2",
        "type=item_store key=a%20b status=stored cmd=set ttl=0 clsid=1 size=2",
        "type=item_get key=a status=found clsid=1 size=3",
        "type=item_store key=a status=stored cmd=append ttl=0 clsid=1 size=1",
    ];
    let all = watcher.read_until(|got| got.iter().filter(|&&byte| byte == b'\n').count() >= expected.len());
    assert_eq!(events(std::str::from_utf8(&all).unwrap()), expected);
    let fetched: Vec<_> = expected.iter().filter(|line| line.contains("item_get")).collect();
    let got = reads.read_until(|got| got.iter().filter(|&&byte| byte == b'\n').count() >= fetched.len());
    assert_eq!(events(std::str::from_utf8(&got).unwrap()).iter().collect::<Vec<_>>(), fetched);
    // What a watcher sends means nothing.
    watcher.send(b"version\r\n");
    let stats = client.ask("stats\r\n", "END\r\n");
    assert!(
        stats.contains("STAT log_watchers 2\r\n") && stats.contains("STAT log_watcher_sent 21\r\n"),
        "{stats}"
    );
    drop((watcher, reads));
    client.ask("get a\r\n", "END\r\n");
    drop(client);
    ours.stop();
}

#[test]
fn who_may_not_watch() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let pipelined = "ERROR cannot pipeline other commands before watch\r\n";
    for watch in ["watch\r\n", "watch evictions\r\n", "watch nonsense\r\n"] {
        let request = format!("get none\r\n{watch}");
        assert_eq!(client.ask(&request, "watch\r\n"), format!("END\r\n{pipelined}"), "{watch}");
    }
    assert_eq!(client.ask("mn\r\nwatch nonsense\r\n", "ERROR\r\n"), "MN\r\nERROR\r\n");
    let mut watchers: Vec<_> = (0..20).map(|_| Client::connect(ours.address)).collect();
    for watcher in &mut watchers {
        assert_eq!(watcher.ask("watch evictions\r\n", "\r\n"), "OK\r\n");
    }
    assert_eq!(client.ask("watch\r\n", "\r\n"), "WATCHER_TOO_MANY log watcher limit reached\r\n");
    assert_eq!(client.ask("mn\r\n", "\r\n"), "MN\r\n", "and goes on");
    drop((watchers, client));
    // An mn sends the answers before it: nothing is left that watch would stand behind.
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask("get none\r\nmn\r\nwatch\r\n", "OK\r\n"), "END\r\nMN\r\nOK\r\n");
    drop(client);
    ours.stop();
    let ours = Ours::start_as(ROOM, ServerOptions { memcached_watch: false, ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    let refused = "CLIENT_ERROR watch commands not allowed\r\n";
    for (watch, before) in
        [("watch\r\n", ""), ("watch nonsense\r\n", ""), ("get none\r\nwatch\r\n", "END\r\n")]
    {
        assert_eq!(client.ask(watch, "allowed\r\n"), format!("{before}{refused}"), "{watch}");
    }
    drop(client);
    ours.stop();
}

#[test]
fn a_watcher_that_does_not_read_hurts_nobody() {
    let ours = Ours::start();
    let mut watcher = Client::connect(ours.address);
    assert_eq!(watcher.ask("watch\r\n", "\r\n"), "OK\r\n");
    let mut client = Client::connect(ours.address);
    let request = format!("get {}\r\n", "k".repeat(200)).repeat(500);
    // Far more than the sockets and the queue hold.
    for _ in 0..200 {
        let got = {
            client.send(request.as_bytes());
            client.read_until(|got| got.len() >= 500 * 5)
        };
        assert_eq!(got.len(), 500 * 5);
    }
    let stats = client.ask("stats\r\n", "END\r\n");
    let skipped = stats.lines().find_map(|line| line.strip_prefix("STAT log_watcher_skipped ")).unwrap();
    let skipped: u64 = skipped.parse().unwrap();
    assert!(skipped > 0, "{stats}");
    assert!(stats.contains("STAT log_watchers 1\r\n"), "it is not closed");
    // Once it reads again it learns how many it missed. Sockets that grow take a line between:
    // then several lines tell of them.
    let begun = std::time::Instant::now();
    let asks = std::cell::RefCell::new(client.try_clone());
    watcher.read_until(|got| {
        let whole = &got[..got.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)];
        let lines = whole.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"skipped="));
        let told: u64 = lines.map(|count| str::from_utf8(count).unwrap().parse::<u64>().unwrap()).sum();
        assert!(begun.elapsed().as_secs() < 60, "lines tell of {told} skipped, not of {skipped}");
        asks.borrow_mut().send(b"get another\r\n");
        told >= skipped
    });
    drop((watcher, client));
    ours.stop();
}

/// What exporters look for, with what is true here.
#[test]
fn settings_and_counts_have_the_names_that_exporters_read() {
    let options =
        ServerOptions { clients_bytes_max: 5 << 20, connection_operations: 50, ..ServerOptions::default() };
    let ours = Ours::start_as(ROOM, options);
    let mut client = Client::connect(ours.address);
    let settings = client.ask("stats settings\r\n", "END\r\n");
    for expected in [
        "domain_socket NULL",
        "umask 700",
        "num_threads_per_udp 0",
        "reqs_per_event 50",
        "hashpower_init 0",
        "slab_automove_ratio 0.00",
        "slab_automove_window 0",
        "slab_automove_freeratio 0.000",
        "tail_repair_time 0",
        "watcher_logbuf_size 262144",
        "read_buf_mem_limit 5242880",
        "memory_file (null)",
        "client_flags_size 4",
        &format!("tcpport {}", ours.address.port()),
        "ssl_enabled no",
    ] {
        assert!(settings.contains(&format!("STAT {expected}\r\n")), "no {expected} in\n{settings}");
    }
    assert!(!settings.contains("ssl_min_version"), "as of a memcached without TLS: {settings}");
    let stats = client.ask("stats\r\n", "END\r\n");
    for expected in [
        "moves_to_cold 0",
        "moves_to_warm 0",
        "moves_within_lru 0",
        "lru_bumps_dropped 0",
        "unexpected_napi_ids 0",
        "round_robin_fallback 0",
    ] {
        assert!(stats.contains(&format!("STAT {expected}\r\n")), "no {expected} in\n{stats}");
    }
    drop(client);
    ours.stop();
}

/// A count of `stats`.
fn count(client: &mut Client, name: &str) -> u64 {
    let stats = client.ask("stats\r\n", "END\r\n");
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    line.unwrap_or_else(|| panic!("no {name} in\n{stats}")).parse().unwrap()
}

#[test]
fn a_reset_begins_all_counts_anew() {
    let options = ServerOptions { connection_operations: 4, ..ServerOptions::default() };
    let ours = Ours::start_as(ROOM, options);
    let mut client = Client::connect(ours.address);
    // A get must find the record before it is cleared away.
    let begun = std::time::Instant::now();
    let waits = || assert!(begun.elapsed().as_secs() < 60, "no get finds what has gone");
    while count(&mut client, "get_flushed") == 0 {
        waits();
        client.ask("set b 0 0 1\r\nx\r\nflush_all\r\nget b\r\n", "END\r\n");
    }
    while count(&mut client, "get_expired") == 0 {
        waits();
        client.ask("set a 0 1 1\r\nx\r\n", "STORED\r\n");
        while client.ask("get a\r\n", "END\r\n") != "END\r\n" {
            waits();
        }
    }
    client.ask(&"get a\r\n".repeat(20), &"END\r\n".repeat(20));
    let all = ["get_expired", "conn_yields", "total_connections", "bytes_read", "cmd_get", "total_items"];
    for name in all {
        assert!(count(&mut client, name) > 0, "{name}");
    }
    assert_eq!(client.ask("stats reset\r\n", "\r\n"), "RESET\r\n");
    for name in all.into_iter().chain(["get_flushed", "evictions"]) {
        let left = if name == "bytes_read" {
            count(&mut client, name).saturating_sub(200)
        } else {
            count(&mut client, name)
        };
        assert_eq!(left, 0, "{name}");
    }
    assert!(count(&mut client, "hash_power_level") > 0);
    drop(client);
    ours.stop();
}

#[test]
fn connections_are_listed() {
    let ours = Ours::start();
    let mut other = Client::connect(ours.address);
    other.ask("mn\r\n", "\r\n");
    let mut client = Client::connect(ours.address);
    other.send(b"set a 0 0 6\r\n");
    let begun = std::time::Instant::now();
    while !client.ask("stats conns\r\n", "END\r\n").contains(":state conn_nread\r\n") {
        assert!(begun.elapsed().as_secs() < 30, "half a command is not told");
    }
    assert_eq!(other.ask("foobar\r\n", "\r\n"), "STORED\r\n");
    let got = client.ask("stats conns\r\n", "END\r\n");
    assert_eq!(got.lines().count(), 12, "{got}");
    assert_eq!(got.matches(&format!(":listen_addr tcp:{}\r\n", ours.address)).count(), 2);
    let listening = format!("STAT 00:addr tcp:{}\r\nSTAT 00:state conn_listening\r\n", ours.address);
    assert!(got.starts_with(&listening), "{got}");
    assert_eq!(got.matches(":state conn_parse_cmd\r\n").count(), 1);
    drop((other, client));
    ours.stop();
}
