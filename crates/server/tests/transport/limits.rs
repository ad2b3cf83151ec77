//! Bounds on connections: time, unsent answers, the memory of all buffers, and who may connect at all.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use terrace_server::{Endpoint, MemcachedUsers, ServerOptions, SoftLimit};

use super::ours::{Ours, PATIENCE, ask, free_port, is_closed};

fn with_redis(options: ServerOptions) -> Ours {
    Ours::start(ServerOptions { redis: free_port(), threads: 2, ..options })
}

#[test]
fn silent_connections_are_closed_and_busy_ones_are_not() {
    let idle_timeout = Duration::from_millis(300);
    let ours = with_redis(ServerOptions { idle_timeout, ..ServerOptions::default() });
    let (mut silent, mut half, mut busy) = (ours.redis(), ours.redis(), ours.redis());
    half.write_all(b"*2\r\n$3\r\nGET\r\n$5\r\nhal").unwrap();
    silent.set_nonblocking(true).unwrap();
    let from = Instant::now();
    while !is_closed(&mut silent) {
        assert!(from.elapsed() < PATIENCE);
        ask(&mut busy, "PING\r\n", "+PONG\r\n");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(from.elapsed() >= idle_timeout);
    assert!(is_closed(&mut half));
    ask(&mut busy, "PING\r\n", "+PONG\r\n");
    assert_eq!(ours.metric("connections_closed_over_limit_total{limit=\"idle\"}"), 2);
    ours.stop();
}

#[test]
fn who_must_log_in_has_a_while_for_it() {
    let login_timeout = Duration::from_millis(300);
    let memcached_users = Some(MemcachedUsers::parse(b"user:word").unwrap());
    let options = ServerOptions { requirepass: "secret".into(), login_timeout, ..ServerOptions::default() };
    let ours = with_redis(ServerOptions { memcached_users, memcached: free_port(), ..options });
    let memcached = || TcpStream::connect(ours.server.addresses().memcached.unwrap()).unwrap();
    let (mut known, mut stranger) = (ours.redis(), ours.redis());
    let (mut known_there, mut stranger_there) = (memcached(), memcached());
    ask(&mut known, "AUTH secret\r\n", "+OK\r\n");
    ask(&mut known_there, "set x 0 0 9\r\nuser word\r\n", "STORED\r\n");
    // Talking is no logging in.
    stranger.set_nonblocking(true).unwrap();
    let from = Instant::now();
    while stranger.write_all(b"PING\r\n").is_ok() && !matches!(stranger.read(&mut [0; 64]), Ok(0)) {
        assert!(from.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(from.elapsed() >= login_timeout / 2);
    assert!(is_closed(&mut stranger_there));
    ask(&mut known, "PING\r\n", "+PONG\r\n");
    ask(&mut known_there, "mn\r\n", "MN\r\n");
    assert_eq!(ours.metric("connections_closed_over_limit_total{limit=\"idle\"}"), 2);
    ours.stop();
}

#[test]
fn who_does_not_read_is_closed_at_the_bound() {
    let ours = with_redis(ServerOptions {
        output_bytes_max: 8 << 20,
        output_bytes_pause: 1 << 10,
        turn_answer_bytes: 16 << 20,
        ..ServerOptions::default()
    });
    let mut client = ours.redis();
    let value = "x".repeat(1 << 20);
    // It may have many answers in one turn only if its answers were small.
    ask(&mut client, &"SET k y\r\n".repeat(64), &"+OK\r\n".repeat(64));
    client
        .write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len()).as_bytes())
        .unwrap();
    ask(&mut client, "", "+OK\r\n");
    // In one turn: more than the socket and the bound take together.
    client.write_all("GET k\r\n".repeat(64).as_bytes()).unwrap();
    ours.wait_for("connections_closed_over_limit_total{limit=\"output\"}", 1);
    ask(&mut ours.redis(), "PING\r\n", "+PONG\r\n");
    assert_eq!(ours.metric("client_buffer_bytes"), 0, "its buffers are gone");
    ours.stop();
}

#[test]
fn who_reads_too_slowly_for_too_long_is_closed() {
    let time = Duration::from_millis(400);
    let ours = with_redis(ServerOptions {
        subscriber_output_soft_max: SoftLimit { bytes: 1 << 20, time },
        ..ServerOptions::default()
    });
    let (mut slow, mut speaker, mut other) = (ours.redis(), ours.redis(), ours.redis());
    ask(&mut slow, "SUBSCRIBE c\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    let bulk = |bytes: usize| format!("${bytes}\r\n{}\r\n", "x".repeat(bytes));
    ask(&mut speaker, &format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n{}", bulk(1 << 19)), "+OK\r\n");
    // More than the sockets and the soft bound take, and less than the hard one, for either of them.
    let message = format!("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n{}", bulk(1 << 16));
    let from = Instant::now();
    (0..256).for_each(|_| ask(&mut speaker, &message, ":1\r\n"));
    other.write_all("GET k\r\n".repeat(32).as_bytes()).unwrap();
    ours.wait_for("connections_closed_over_limit_total{limit=\"output\"}", 1);
    assert!(from.elapsed() >= time);
    ask(&mut speaker, &message, ":0\r\n");
    ask(&mut speaker, "CONFIG SET client-output-buffer-limit \"normal 1gb 1mb 1\"\r\n", "+OK\r\n");
    ours.wait_for("connections_closed_over_limit_total{limit=\"output\"}", 2);
    ask(&mut speaker, "PING\r\n", "+PONG\r\n");
    assert_eq!(ours.metric("client_buffer_bytes"), 0, "their buffers are gone");
    drop((slow, other));
    ours.stop();
}

#[test]
fn of_all_buffers_the_largest_go_first() {
    let ours = with_redis(ServerOptions { clients_bytes_max: 8 << 20, ..ServerOptions::default() });
    let begin = |bytes: usize| {
        let mut client = ours.redis();
        let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", 16 << 20);
        client.write_all(head.as_bytes()).unwrap();
        // What is sent after the server has closed is lost, and the client told so.
        let _closed = client.write_all(&vec![b'x'; bytes]);
        client
    };
    let mut small: Vec<TcpStream> = (0..6).map(|_| begin(200 << 10)).collect();
    let mut large = begin(12 << 20);
    assert!(is_closed(&mut large));
    ours.wait_for("connections_closed_over_limit_total{limit=\"memory\"}", 1);
    assert!(ours.metric("client_buffer_bytes") >= 6 * (200 << 10));
    for client in &mut small {
        client.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        assert!(!is_closed(client), "it holds little");
    }
    drop(small);
    ours.wait_for("client_buffer_bytes", 0);
    ours.stop();
}

#[test]
fn strangers_go_first_and_hold_a_quarter_together() {
    let clients_bytes_max = 8 << 20;
    let requirepass = "secret".into();
    let ours = with_redis(ServerOptions { clients_bytes_max, requirepass, ..ServerOptions::default() });
    // Larger than any stranger, and smaller than all of them.
    let mut client = ours.redis();
    ask(&mut client, "AUTH secret\r\n", "+OK\r\n");
    let bytes = 3 << 20;
    client.write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${bytes}\r\n").as_bytes()).unwrap();
    client.write_all(&vec![b'x'; bytes - 1]).unwrap();
    let argument = ["$16000\r\n", &"x".repeat(16_000), "\r\n"].concat();
    let unfinished = format!("*10\r\n{}$16000\r\n", argument.repeat(9));
    let strangers: Vec<TcpStream> = (0..80)
        .map(|_| {
            let mut stranger = ours.redis();
            // What is sent after the server has closed is lost, and the client told so.
            let _closed = stranger.write_all(unfinished.as_bytes());
            stranger
        })
        .collect();
    // 2 MiB are room for 14 of them, 12 with what their buffers may have too much.
    let from = Instant::now();
    let closed = || ours.metric("connections_closed_over_limit_total{limit=\"memory\"}");
    while !(66..=68).contains(&closed()) || ours.metric("connections") > 16 {
        assert!(from.elapsed() < PATIENCE, "{} were closed", closed());
        std::thread::sleep(Duration::from_millis(2));
    }
    ask(&mut client, "x\r\n", "+OK\r\n");
    assert!(ours.metric("client_buffer_bytes") <= 2 << 20);
    drop(strangers);
    ours.wait_for("client_buffer_bytes", 0);
    ours.stop();
}

#[test]
fn a_strangers_buffer_is_hardly_larger_than_what_it_sent() {
    let ours = with_redis(ServerOptions { requirepass: "secret".into(), ..ServerOptions::default() });
    let argument = ["$16000\r\n", &"x".repeat(16_000), "\r\n"].concat();
    let unfinished = format!("*10\r\n{}", argument.repeat(9)).into_bytes();
    let mut stranger = ours.redis();
    let mut sent = 0;
    for piece in [70_000, 60_000, unfinished.len() - 130_000] {
        stranger.write_all(&unfinished[sent..sent + piece]).unwrap();
        sent += piece;
        let from = Instant::now();
        while ours.metric("client_buffer_bytes") < sent as u64 {
            assert!(from.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(2));
        }
        let held = ours.metric("client_buffer_bytes");
        assert!(held <= (sent + sent / 8) as u64, "{held} for {sent}");
    }
    drop(stranger);
    ours.wait_for("client_buffer_bytes", 0);
    ours.stop();
}

#[test]
fn strangers_from_elsewhere_are_denied() {
    // An address of this machine that is not the loopback, where it has one: nothing is sent to find it.
    let own = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let Some(own) = own.ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback()) else { return };
    let any = || vec![Endpoint::Tcp("0.0.0.0:0".parse().unwrap())];
    let start = |protected_mode| {
        Ours::start(ServerOptions {
            redis: any(),
            memcached: any(),
            protected_mode,
            ..ServerOptions::default()
        })
    };
    let ours = start(true);
    let ports = |ours: &Ours| {
        let addresses = ours.server.addresses();
        (addresses.redis.unwrap().port(), addresses.memcached.unwrap().port())
    };
    let (redis, memcached) = ports(&ours);
    let mut told = String::new();
    TcpStream::connect((own, redis)).unwrap().read_to_string(&mut told).unwrap();
    assert!(
        told.starts_with("-DENIED Redis is running in protected mode") && told.ends_with("outside.\r\n"),
        "{told}"
    );
    told.clear();
    TcpStream::connect((own, memcached)).unwrap().read_to_string(&mut told).unwrap();
    assert!(told.starts_with("SERVER_ERROR protected mode"), "{told}");
    ask(&mut TcpStream::connect(("127.0.0.1", redis)).unwrap(), "PING\r\n", "+PONG\r\n");
    assert_eq!(ours.metric("connections_denied_total"), 2);
    ours.stop();
    let ours = start(false);
    ask(&mut TcpStream::connect((own, ports(&ours).0)).unwrap(), "PING\r\n", "+PONG\r\n");
    ours.stop();
}
