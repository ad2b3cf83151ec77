//! The memcached parser as a connection uses it: requests, errors, how it goes on after them, and bytes that arrive one
//! by one.

mod memcached_support;

use memcached_support::{run, run_pieces};
use terrace_protocol::memcached::Limits;

/// Requests (and broken ones), and the events they are.
const CASES: &[(&[u8], &[&str])] = &[
    (b"get a\r\n", &["get cas=false [a]"]),
    (b"get a\n", &["get cas=false [a]"]),
    (b"gets   a bb  \r\n", &["get cas=true [a, bb]"]),
    (b" gets a\r\n", &["ERROR"]),
    (b"bget a\r\n", &["ERROR"]),
    (b"get noreply\r\n", &["get cas=false [noreply]"]),
    (b"get\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"gat 10 a b\r\n", &["gat 10 cas=false [a, b]"]),
    (b"gats -1 a\r\n", &["gat -1 cas=true [a]"]),
    (b"gat 10\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"gat\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"gat x a\r\n", &["CLIENT_ERROR invalid exptime argument"]),
    (b"get a\0b\r\n", &["get cas=false [a\0b]"]),
    (b"get a\tb\r\n", &["get cas=false [a\tb]"]),
    (b"set a 1 2 3\r\nxyz\r\n", &["Set a 1 2 xyz"]),
    (b"set a 1 2 3 noreply\r\nxyz\r\n", &["Set a 1 2 xyz noreply"]),
    (b"set a 1 2 3 other\r\nxyz\r\n", &["Set a 1 2 xyz"]),
    (b"add a 0 0 0\r\n\r\nget a\r\n", &["Add a 0 0 ", "get cas=false [a]"]),
    (b"replace a 4294967295 -5 1\n\n\r\n", &["Replace a 4294967295 -5 \n"]),
    (b"append a 0 0 2 noreply\r\n\r\n\r\n", &["Append a 0 0 \r\n noreply"]),
    (b"prepend a 0 0 1\r\nx\r\n", &["Prepend a 0 0 x"]),
    (b"cas a 0 0 1 18446744073709551615\r\nx\r\n", &["Cas(18446744073709551615) a 0 0 x"]),
    (b"cas a 0 0 1 7 noreply\r\nx\r\n", &["Cas(7) a 0 0 x noreply"]),
    (b"cas a 0 0 1\r\nx\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"cas a 0 0 1 x\r\ny\r\nmn\r\n", &["CLIENT_ERROR bad command line format", "MN"]),
    (b"set a 0 0\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"set a 0 0 1 1 1\r\nx\r\n", &["Set a 0 0 x"]),
    (b"set a 0 0 -1\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"set a -1 0 1\r\nx\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"set a 4294967296 0 1\r\nx\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"set a 0 0 2147483646\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"set a 0 0 99999999999999999999\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"set a 0 0 noreply\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"set a 0 0 x noreply\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"set a 0 x 1 noreply\r\nx\r\nmn\r\n", &["silence", "MN"]),
    (b"incr a 1\r\n", &["incr a 1"]),
    (b"decr a 18446744073709551615 noreply\r\n", &["decr a 18446744073709551615 noreply"]),
    (b"incr a -1\r\n", &["CLIENT_ERROR invalid numeric delta argument"]),
    (b"incr a noreply\r\n", &["silence"]),
    (b"incr a\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"incr a 1 1 1\r\n", &["incr a 1"]),
    (b"touch a 5\r\n", &["touch a 5"]),
    (b"touch a 5 noreply\r\n", &["touch a 5 noreply"]),
    (b"touch a x\r\n", &["CLIENT_ERROR invalid exptime argument"]),
    (b"touch a\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"delete a\r\n", &["delete a"]),
    (b"delete noreply\r\n", &["delete noreply noreply"]),
    (b"delete a 0\r\n", &["delete a"]),
    (b"delete a noreply\r\n", &["delete a noreply"]),
    (b"delete a 0 noreply\r\n", &["delete a noreply"]),
    (b"delete a 1\r\n", &["delete a"]),
    (b"delete a 1 noreply\r\n", &["delete a noreply"]),
    (b"delete a 0 0 0\r\n", &["delete a"]),
    (b"delete\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"flush_all\r\n", &["flush_all 0"]),
    (b"flush_all noreply\r\n", &["flush_all 0 noreply"]),
    (b"flush_all 5\r\n", &["flush_all 5"]),
    (b"flush_all -5 noreply\r\n", &["flush_all -5 noreply"]),
    (b"flush_all 0 1\r\n", &["flush_all 0"]),
    (b"flush_all x\r\n", &["CLIENT_ERROR invalid exptime argument"]),
    (b"flush_all x noreply\r\n", &["silence"]),
    (b"flush_all 0 1 2\r\n", &["flush_all 0"]),
    (b"version\r\nversion x\r\n", &["version", "version"]),
    (b"stats\r\nstats a b\r\n", &["stats []", "stats [a, b]"]),
    (b"cache_memlimit\r\n", &["ERROR"]),
    (b"cache_memlimit 64\r\n", &["cache_memlimit 64"]),
    (b"cache_memlimit 64 noreply\r\n", &["cache_memlimit 64 noreply"]),
    (b"cache_memlimit 64m\r\n", &["ERROR"]),
    (b"verbosity\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"verbosity 1\r\n", &["verbosity 1"]),
    (b"verbosity 1 noreply\r\n", &["verbosity 1 noreply"]),
    (b"verbosity x\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"verbosity 1 2 3\r\n", &["verbosity 1"]),
    (b"shutdown\r\n", &["shutdown Now"]),
    (b"shutdown graceful\r\n", &["shutdown Graceful"]),
    (b"shutdown now\r\n", &["shutdown Unknown"]),
    (b"quit\r\nget a\r\n", &["close Quit"]),
    (b"\r\n", &["CLIENT_ERROR bad command line format"]),
    (b"\n", &["CLIENT_ERROR bad command line format"]),
    (b"   \r\n", &["ERROR"]),
    (b"noreply\r\nx noreply\r\n", &["silence", "silence"]),
    (b"  verbosity 1\r\n", &["verbosity 1"]),
    (b"GET a\r\n", &["ERROR"]),
    (b"POST / HTTP/1.1\r\nset a 0 0 1\r\n", &["close Http"]),
    (b"HTTP/\r\n", &["ERROR"]),
    (b"version\r\n\x80\r\n", &["version", "CLIENT_ERROR bad command line format"]),
    // Going on after an error as memcached does.
    (b"set a 0 0 3\r\nxx\r\nget b\r\n", &["CLIENT_ERROR bad data chunk", "ERROR"]),
    (
        b"set a 0 0 2\r\nxxxxx\r\nget b\r\n",
        &["CLIENT_ERROR bad data chunk", "CLIENT_ERROR bad command line format", "get cas=false [b]"],
    ),
    (
        b"set a 0 0 2 noreply\r\nxxxxx\r\nget b\r\n",
        &["silence", "CLIENT_ERROR bad command line format", "get cas=false [b]"],
    ),
    (b"set a 0 0 1\r\nx\n\nget a\r\n", &["CLIENT_ERROR bad data chunk", "get cas=false [a]"]),
    (
        b"set a 0 0 -1\r\nx\r\nget a\r\n",
        &[
            "CLIENT_ERROR bad command line format",
            "CLIENT_ERROR bad command line format",
            "get cas=false [a]",
        ],
    ),
    // Larger than the limit of these tests: skipped whole, line end and all.
    (
        b"set a 0 0 33\r\nget b\r\nget b\r\nget b\r\nget b\r\n12345\r\nget c\r\n",
        &["too large a delete", "get cas=false [c]"],
    ),
    (
        b"add a 0 0 33 noreply\r\n---------------------------------\r\nget c\r\n",
        &["silence", "get cas=false [c]"],
    ),
    (
        b"append a 0 0 33\r\n---------------------------------\r\nget c\r\n",
        &["too large a", "get cas=false [c]"],
    ),
];

/// Small enough for the table.
const LIMITS: Limits = Limits { value_bytes_max: 32, counts_items: false, get_line_bytes_max: 4096 };

#[test]
fn whole() {
    for (input, expected) in CASES {
        assert_eq!(run(LIMITS, input), *expected, "{}", input.escape_ascii());
    }
}

#[test]
fn split_at_every_byte() {
    for (input, expected) in CASES {
        for split in 0..=input.len() {
            let (head, tail) = input.split_at(split);
            assert_eq!(run_pieces(LIMITS, &[head, tail]), *expected, "{} at {split}", input.escape_ascii());
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(run_pieces(LIMITS, &bytes), *expected, "{} byte by byte", input.escape_ascii());
    }
}

#[test]
fn keys_end_at_250_bytes() {
    let (fits, long) = ("k".repeat(250), "k".repeat(251));
    for line in
        ["get KEY", "get a KEY", "gat 0 KEY", "incr KEY 1", "touch KEY 0", "delete KEY", "cas KEY 0 0 1 1"]
    {
        let events = run(LIMITS, (line.replace("KEY", &long) + "\r\n").as_bytes());
        assert_eq!(events, ["CLIENT_ERROR bad command line format"], "{line}");
        let events = run(LIMITS, (line.replace("KEY", &fits) + "\r\nx\r\n").as_bytes());
        assert!(events[0].contains(&fits), "{line}: {events:?}");
    }
    assert_eq!(run(LIMITS, format!("delete {long} noreply\r\n").as_bytes()), ["silence"]);
    // More keys than memcached's tokenizer takes at a time.
    let many = "a ".repeat(100);
    let events = run(LIMITS, format!("get {many}{long}\r\n").as_bytes());
    assert_eq!(events, ["CLIENT_ERROR bad command line format"]);
}

#[test]
fn lines_without_end() {
    assert_eq!(run(LIMITS, &[b'x'; 2048]), [""; 0]);
    assert_eq!(run(LIMITS, &[b'x'; 2049]), ["close LineTooLong"]);
    for get in ["get ", "gets ", "gat 0 ", "gats 0 ", "   get "] {
        let mut line = get.as_bytes().to_vec();
        line.resize(4096, b'x');
        assert_eq!(run(LIMITS, &line), [""; 0], "{get}");
        line.push(b'x');
        assert_eq!(run(LIMITS, &line), ["close LineTooLong"], "{get}");
    }
    let mut spaces = vec![b' '; 101];
    spaces.extend_from_slice(b"get ");
    spaces.resize(2049, b'x');
    assert_eq!(run(LIMITS, &spaces), ["close LineTooLong"]);
}

#[test]
fn a_huge_length_asks_for_no_memory() {
    use terrace_protocol::memcached::{Event, Parser};
    let mut parser = Parser::new(Limits::default());
    let step = parser.step(b"set a 0 0 2147483645\r\n");
    assert!(matches!(step.event, Event::TooLarge { .. }), "{step:?}");
    let chunk = vec![b'x'; 1 << 16];
    let mut left = 2_147_483_647usize;
    while left > 0 {
        let input = &chunk[..chunk.len().min(left)];
        let step = parser.step(input);
        assert_eq!((step.consumed, step.event), (input.len(), Event::Incomplete { needed: 1 }));
        left -= input.len();
    }
    assert!(matches!(parser.step(b"version\r\n").event, Event::Command(_)));
}

#[test]
fn how_much_is_needed_is_told_exactly() {
    use terrace_protocol::memcached::{Event, Parser};
    let mut parser = Parser::new(Limits::default());
    let input = b"set a 0 0 10\r\n0123456789\r\n";
    assert_eq!(parser.step(&input[..14]).event, Event::Incomplete { needed: input.len() });
    assert_eq!(parser.step(&input[..20]).event, Event::Incomplete { needed: input.len() });
    assert_eq!(parser.step(input).consumed, input.len());
}
