//! Beyond single answers: pipelines, large values, cas, statistics, the delayed flush, refusals, several clients at a time.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::ours::{Ours, VALUE_BYTES_MAX};

/// What the item of key `big` without flags has room for.
const LONGEST: usize = VALUE_BYTES_MAX - 62;

#[test]
fn pipelines_are_answered_in_order() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let (mut request, mut expect) = (String::new(), String::new());
    for i in 0..10_000 {
        // More than one turn takes.
        request +=
            &format!("set k{i} {i} 0 6 noreply\r\n{i:06}\r\nget k{i} none\r\ngets none\r\nincr none 1\r\n");
        expect += &format!("VALUE k{i} {i} 6\r\n{i:06}\r\nEND\r\nEND\r\nNOT_FOUND\r\n");
    }
    let mut sender = client.try_clone();
    let sending = std::thread::spawn(move || sender.send(request.as_bytes()));
    let got = client.read_until(|got| got.len() >= expect.len());
    sending.join().unwrap();
    assert!(got == expect.as_bytes(), "answers out of order");
    assert_eq!(ours.store.len(0), 10_000);
    drop(client);
    ours.stop();
}

#[test]
fn large_values_and_too_large_ones() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let value = "v".repeat(LONGEST);
    let set = format!("set big 0 0 {LONGEST}\r\n{value}\r\n");
    assert_eq!(client.ask(&set, "\r\n"), "STORED\r\n");
    let got = client.ask("get big\r\n", "END\r\n");
    assert!(got == format!("VALUE big 0 {LONGEST}\r\n{value}\r\nEND\r\n"));
    // The data block is skipped, and what follows it is understood; add leaves the old value, set does not.
    let too_large =
        |verb: &str, noreply: &str| format!("{verb} big 0 0 {}{noreply}\r\n{value}v\r\n", LONGEST + 1);
    assert_eq!(client.ask(&too_large("replace", ""), "\r\n"), "SERVER_ERROR object too large for cache\r\n");
    assert!(client.ask("get big\r\n", "END\r\n").starts_with("VALUE big 0 "));
    assert_eq!(client.ask(&too_large("set", ""), "\r\n"), "SERVER_ERROR object too large for cache\r\n");
    assert_eq!(client.ask("get big\r\n", "END\r\n"), "END\r\n");
    assert_eq!(client.ask(&(too_large("set", " noreply") + "get big\r\n"), "END\r\n"), "END\r\n");
    drop(client);
    ours.stop();
}

/// What grows stays within the limit, too: memcached 1.6.18 answers so.
#[test]
fn joined_values_are_no_longer_than_the_longest_value() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let value = "v".repeat(LONGEST - 2);
    let set = format!("set big 0 0 {}\r\n{value}\r\n", LONGEST - 2);
    for (store, answer) in [
        (&set[..], "STORED\r\n"),
        ("append big 0 0 3\r\nabc\r\n", "NOT_STORED\r\n"),
        ("prepend big 0 0 3\r\nabc\r\n", "NOT_STORED\r\n"),
        ("ms big 3 MA\r\nabc\r\n", "NS\r\n"),
        ("ms big 3 MP q\r\nabc\r\n", "NS\r\n"),
        ("ms big 3 MA c\r\nabc\r\n", "NS c0\r\n"),
        ("ms big 3 MP c\r\nabc\r\n", "NS c0\r\n"),
        ("ms big 3 MP C1\r\nabc\r\n", "EX\r\n"),
        ("mg big s f\r\n", &format!("HD s{} f0\r\n", LONGEST - 2)),
        ("append big 0 0 1\r\na\r\n", "STORED\r\n"),
        ("ms big 1 MP\r\nb\r\n", "HD\r\n"),
        ("append big 0 0 1 noreply\r\nx\r\nms big 1 MA\r\nc\r\n", "NS\r\n"),
        ("append big 0 0 0\r\n\r\n", "STORED\r\n"),
    ] {
        assert_eq!(client.ask(store, "\r\n"), answer, "{}", &store[..store.len().min(40)]);
    }
    assert_eq!(
        client.ask("get big\r\n", "END\r\n"),
        format!("VALUE big 0 {LONGEST}\r\nb{value}a\r\nEND\r\n")
    );
    drop(client);
    ours.stop();
}

#[test]
fn cas_stores_once() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.ask("set a 3 0 1\r\nx\r\n", "\r\n");
    let token = |client: &mut Client| {
        let got = client.ask("gets a\r\n", "END\r\n");
        got.lines().next().unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let first = token(&mut client);
    assert_eq!(token(&mut client), first, "reading changes nothing");
    assert_eq!(client.ask(&format!("cas a 4 0 1 {first}\r\ny\r\n"), "\r\n"), "STORED\r\n");
    assert_eq!(client.ask(&format!("cas a 5 0 1 {first}\r\nz\r\n"), "\r\n"), "EXISTS\r\n");
    assert_eq!(client.ask("get a\r\n", "END\r\n"), "VALUE a 4 1\r\ny\r\nEND\r\n");
    let second = token(&mut client);
    assert!(second > first);
    client.ask("append a 0 0 1\r\n!\r\n", "\r\n");
    assert_eq!(client.ask(&format!("cas a 5 0 1 {second}\r\nz\r\n"), "\r\n"), "EXISTS\r\n", "append counts");
    drop(client);
    ours.stop();
}

#[test]
fn statistics_count() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.ask(
        "set a 0 0 1\r\n1\r\nset b 0 0 1\r\nx\r\ncas a 0 0 1 0\r\n2\r\nincr a 1\r\nincr none 1\r\ndecr none 1\r\n\
         touch a 0\r\ntouch none 0\r\ngat 0 a none\r\ndelete b\r\ndelete b\r\nget a none none2\r\nverbosity 1\r\n",
        "OK\r\n",
    );
    let stats = client.ask("stats\r\n", "END\r\n");
    for expected in [
        "cmd_get 3",
        "get_hits 1",
        "get_misses 2",
        "cmd_set 3",
        "total_items 2",
        "cas_badval 1",
        "incr_hits 1",
        "incr_misses 1",
        "decr_misses 1",
        "cmd_touch 4",
        "touch_hits 2",
        "touch_misses 2",
        "delete_hits 1",
        "delete_misses 1",
        "curr_items 1",
        "curr_connections 1",
        "total_connections 1",
        "threads 2",
        "engine dram",
        &format!("pid {}", std::process::id()),
    ] {
        assert!(stats.contains(&format!("STAT {expected}\r\n")), "no {expected} in\n{stats}");
    }
    for present in
        ["uptime", "time", "version", "pointer_size", "bytes", "limit_maxbytes", "evictions", "bytes_read"]
    {
        assert!(stats.contains(&format!("STAT {present} ")), "no {present} in\n{stats}");
    }
    assert!(stats.split_inclusive("\r\n").all(|line| line.starts_with("STAT ") || line == "END\r\n"));
    let settings = client.ask("stats settings\r\n", "END\r\n");
    assert!(settings.contains(&format!("STAT item_size_max {VALUE_BYTES_MAX}\r\n")), "{settings}");
    let items = client.ask("stats items\r\n", "END\r\n");
    for expected in ["number 1", "number_hot 1", "evicted 0", "hits_to_hot 1", "hits_to_cold 0"] {
        assert!(items.contains(&format!("STAT items:1:{expected}\r\n")), "no {expected} in\n{items}");
    }
    assert_eq!(client.ask("stats reset\r\n", "\r\n"), "RESET\r\n");
    let stats = client.ask("stats\r\n", "END\r\n");
    assert!(stats.contains("STAT cmd_get 0\r\n") && stats.contains("STAT curr_items 1\r\n"), "{stats}");
    drop(client);
    ours.stop();
}

#[test]
fn a_delayed_flush_comes_without_another_request() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let got = client.ask("set a 0 0 1\r\nx\r\nflush_all 1\r\nset b 0 0 1\r\nx\r\nget a b\r\n", "END\r\n");
    assert_eq!(got, "STORED\r\nOK\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\nEND\r\n");
    let asked = Instant::now();
    while ours.store.len(0) > 0 {
        assert!(asked.elapsed() < Duration::from_secs(60), "not flushed");
        std::thread::yield_now();
    }
    assert_eq!(client.ask("get a b\r\n", "END\r\n"), "END\r\n");
    drop(client);
    ours.stop();
}

#[test]
fn who_is_cut_off() {
    let ours = Ours::start();
    let mut endless = Client::connect(ours.address);
    endless.send(b"set a 0 0 1\r\nx\r\n");
    endless.send(&[b'x'; 2049]);
    assert_eq!(endless.rest(), b"STORED\r\n");

    let mut long = Client::connect(ours.address);
    let keys = "0123456789 ".repeat(1000);
    assert_eq!(long.ask(&format!("get {keys}\r\n"), "END\r\n"), "END\r\n", "but gets may be long");
    let key = "k".repeat(251);
    assert_eq!(
        long.ask(&format!("set a 0 0 1\r\nx\r\nget a {key}\r\n"), "format\r\n"),
        "STORED\r\nCLIENT_ERROR bad command line format\r\n"
    );
    drop(long);
    ours.stop();
}

#[test]
fn a_full_store_refuses_and_can_be_emptied() {
    let ours = Ours::start_with(4 << 20);
    let mut client = Client::connect(ours.address);
    let value = "v".repeat(100_000);
    let set = |i: usize| format!("set k{i} 0 0 100000\r\n{value}\r\n");
    let stored = (0..100).take_while(|&i| client.ask(&set(i), "\r\n") == "STORED\r\n").count();
    assert!((1..100).contains(&stored), "{stored}");
    assert_eq!(client.ask(&set(100), "\r\n"), "SERVER_ERROR out of memory storing object\r\n");
    assert!(client.ask("get k0\r\n", "END\r\n").starts_with("VALUE k0 "), "reads go on");
    for i in 0..stored {
        assert_eq!(client.ask(&format!("delete k{i}\r\n"), "\r\n"), "DELETED\r\n");
    }
    assert_eq!(ours.store.len(0), 0);
    drop(client);
    ours.stop();
}

#[test]
fn several_clients_count_together() {
    const CLIENTS: usize = 4;
    const EACH: usize = 500;
    let ours = Ours::start();
    Client::connect(ours.address).ask("set n 0 0 1\r\n0\r\n", "\r\n");
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = Client::connect(ours.address);
                for _ in 0..EACH / 10 {
                    client.send("incr n 1 noreply\r\n".repeat(9).as_bytes());
                    client.ask("incr n 1\r\n", "\r\n");
                }
            });
        }
    });
    let got = Client::connect(ours.address).ask("get n\r\n", "END\r\n");
    assert_eq!(got, format!("VALUE n 0 4\r\n{}\r\nEND\r\n", CLIENTS * EACH));
    ours.stop();
}
