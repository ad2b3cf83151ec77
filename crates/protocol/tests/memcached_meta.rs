//! Meta commands, logins and the commands that steer memcached's insides, as the parser reads them.

mod memcached_support;

use memcached_support::{run, run_parser, run_pieces};
use terrace_protocol::memcached::{Limits, Parser};

const LIMITS: Limits = Limits { value_bytes_max: 32, counts_items: false, get_line_bytes_max: 4096 };

/// Requests (and broken ones), and the events they are.
const CASES: &[(&str, &[&str])] = &[
    ("mn\r\nmn x\r\n", &["MN", "MN"]),
    ("mg a\r\n", &["mg a"]),
    ("mg a s v  t f c k O1 q\r\n", &["mg a s v t f c k O1 q"]),
    ("mg a N30 R-1 T0 vx\r\n", &["mg a N30 R-1 T0 vx"]),
    ("mg Zm9v b k\r\n", &["mg foo b k"]),
    ("mg foo b\r\n", &["CLIENT_ERROR error decoding key"]),
    ("mg\r\n", &["CLIENT_ERROR bad command line format"]),
    ("mg a v v\r\n", &["CLIENT_ERROR duplicate flag"]),
    ("mg a \u{e9}\r\nmg a v {\r\n", &["CLIENT_ERROR bad command line format"; 2]),
    ("mg a v E1 x\r\n", &["mg a v E1 x"]),
    ("mg a 5\r\n", &["CLIENT_ERROR invalid flag"]),
    ("mg a N\r\n", &["CLIENT_ERROR bad token in command line format"]),
    ("mg a Fx\r\n", &["CLIENT_ERROR bad command line format"]),
    ("mg a Fx Cx\r\n", &["CLIENT_ERROR bad token in command line format"]),
    ("mg a Cx Jx\r\n", &["CLIENT_ERROR invalid numeric initial value"]),
    ("mg a Cx z\r\n", &["CLIENT_ERROR invalid flag"]),
    ("mg a M\r\nmg a Mxx\r\n", &["mg a M", "mg a Mxx"]),
    ("mg a O1234567890123456789012345678901\r\n", &["mg a O1234567890123456789012345678901"]),
    ("mg a O12345678901234567890123456789012\r\n", &["CLIENT_ERROR opaque token too long"]),
    ("mg a v s t f c k h l O1 q u N1 R1 T1 F1 C1 J1\r\n", &["mg a v s t f c k h l O1 q u N1 R1 T1 F1 C1 J1"]),
    ("mg a v s t f c k h l O1 q u N1 R1 T1 F1 C1 J1 D1 I\r\n", &["CLIENT_ERROR options flags are too long"]),
    ("ms a 2\r\nhi\r\n", &["ms Set hi a"]),
    ("ms a 2 ME T30 F7 q\r\nhi\r\n", &["ms Add hi a ME T30 F7 q"]),
    (
        "ms a 0 MA\r\n\r\nms a 1 MP\r\nx\r\nms a 1 MR C5 I\r\ny\r\n",
        &["ms Append  a MA", "ms Prepend x a MP", "ms Replace y a MR C5 I"],
    ),
    ("ms Zm9v 2 b\r\nhi\r\n", &["ms Set hi foo b"]),
    ("ms a 2 MX\r\nhi\r\nmn\r\n", &["CLIENT_ERROR invalid mode for ms M token", "MN"]),
    ("ms a 2 O12345678901234567890123456789012 MX\r\nhi\r\n", &["CLIENT_ERROR invalid mode for ms M token"]),
    (
        "ms a 2 O12345678901234567890123456789012\r\nhi\r\nmn\r\n",
        &["CLIENT_ERROR opaque token too long", "MN"],
    ),
    ("ms a 2 T0 T0 q\r\nhi\r\nmn\r\n", &["CLIENT_ERROR duplicate flag", "MN"]),
    ("ms foo 2 b\r\nhi\r\nmn\r\n", &["CLIENT_ERROR error decoding key", "MN"]),
    ("ms a 2 q\r\nhello\r\n", &["CLIENT_ERROR bad data chunk", "CLIENT_ERROR bad command line format"]),
    ("ms\r\n", &["CLIENT_ERROR bad command line format"]),
    ("ms a 2 {\r\nhello\r\n", &["CLIENT_ERROR bad command line format", "ERROR"]),
    ("ms a 2 MEE\r\nhi\r\n", &["ms Add hi a MEE"]),
    ("ms a\r\n", &["CLIENT_ERROR bad command line format"]),
    ("ms a x\r\nmn\r\n", &["CLIENT_ERROR bad command line format", "MN"]),
    ("ms a -1\r\nmn\r\n", &["CLIENT_ERROR bad command line format", "MN"]),
    ("ms a 2147483646\r\nmn\r\n", &["CLIENT_ERROR bad command line format", "MN"]),
    (
        "ms a 2 v s t f c k h l O1 q u N1 R1 T1 F1 C1 J1 D1\r\nhi\r\nmn\r\n",
        &["CLIENT_ERROR options flags are too long", "MN"],
    ),
    ("ms a 33 q\r\nget b\r\nget b\r\nget b\r\nget b\r\n12345\r\nmn\r\n", &["too large a delete", "MN"]),
    ("ms Zm9v 33 b\r\nget b\r\nget b\r\nget b\r\nget b\r\n12345\r\nmn\r\n", &["too large foo delete", "MN"]),
    ("md a\r\nmd a C5 I T30 q\r\nmd Zm9v b\r\n", &["md a", "md a C5 I T30 q", "md foo b"]),
    ("md a z\r\n", &["CLIENT_ERROR invalid flag"]),
    ("md a C\r\n", &["CLIENT_ERROR bad token in command line format"]),
    ("md a MX\r\n", &["md a MX"]),
    ("md\r\n", &["CLIENT_ERROR bad command line format"]),
    ("ma a\r\nma a N0 J13 D5 v\r\n", &["ma a", "ma a N0 J13 D5 v"]),
    ("ma a MD\r\nma a M-\r\nma a MI\r\nma a M+\r\n", &["ma down a MD", "ma down a M-", "ma a MI", "ma a M+"]),
    ("ma a MX\r\n", &["CLIENT_ERROR invalid mode for ma M token"]),
    ("ma a J18446744073709551616\r\n", &["CLIENT_ERROR invalid or duplicate flag"]),
    ("ma a D-1\r\n", &["CLIENT_ERROR invalid or duplicate flag"]),
    ("me a\r\nme Zm9v b\r\nme a k b\r\n", &["me a", "me foo", "me a"]),
    ("me a b\r\n", &["CLIENT_ERROR bad command line format"]),
    ("me\r\n", &["CLIENT_ERROR bad command line format"]),
    ("mx a\r\nmgg a\r\nm\r\n", &["ERROR", "ERROR", "CLIENT_ERROR bad command line format"]),
    (
        "lru_crawler enable\r\nlru_crawler crawl 1\r\nlru_crawler metadump all\r\n",
        &["Enable", "Crawl([49])", "Metadump([97, 108, 108])"],
    ),
    (
        "lru_crawler mgdump all\r\nlru_crawler\r\nlru_crawler crawl\r\n",
        &["Mgdump([97, 108, 108])", "ERROR", "ERROR"],
    ),
    ("lru_crawler tocrawl x\r\nlru_crawler tocrawl 5\r\n", &["CLIENT_ERROR bad command line format", "OK"]),
    (
        "lru_crawler sleep 1000000\r\nlru_crawler sleep 1000001\r\n",
        &["OK", "CLIENT_ERROR sleep must be one second or less"],
    ),
    (
        "lru tune 10 20 0.1 2\r\nlru tune 50 40 0.1 2 noreply\r\nlru mode flat\r\nlru\r\n",
        &["OK", "ERROR hot and warm pcts must not exceed 80 noreply", "OK", "ERROR"],
    ),
    (
        "slabs reassign 1 1\r\nslabs reassign 1 2\r\nslabs reassign x 1\r\nslabs automove 1\r\nslabs automove 3\r\n",
        &[
            "SAME src and dst class are identical",
            "BADCLASS invalid src or dst class id",
            "CLIENT_ERROR bad command line format",
            "OK",
            "ERROR",
        ],
    ),
    ("extstore item_size 512\r\nextstore free_memchunks 1\r\nextstore\r\n", &["OK", "ERROR", "ERROR"]),
    ("refresh_certs\r\nrefresh_certs noreply\r\n", &["refresh_certs", "refresh_certs noreply"]),
    ("watch nonsense\r\nwatch noreply\r\n", &["watch of no event"; 2]),
];

#[test]
fn whole_and_split() {
    for (input, expected) in CASES {
        let input = input.as_bytes();
        assert_eq!(run(LIMITS, input), *expected, "{}", input.escape_ascii());
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(run_pieces(LIMITS, &bytes), *expected, "{} byte by byte", input.escape_ascii());
    }
}

#[test]
fn keys_end_at_250_bytes() {
    let (fits, long) = ("k".repeat(250), "k".repeat(251));
    for line in ["mg KEY v", "md KEY q", "ma KEY", "me KEY", "ms KEY 1"] {
        let events = run(LIMITS, (line.replace("KEY", &long) + "\r\n").as_bytes());
        let expected = match &line[..2] {
            "ma" => "CLIENT_ERROR invalid or duplicate flag",
            _ => "CLIENT_ERROR bad command line format",
        };
        assert_eq!(events, [expected], "{line}");
        let events = run(LIMITS, (line.replace("KEY", &fits) + "\r\nx\r\n").as_bytes());
        assert!(events[0].contains(&fits), "{line}: {events:?}");
    }
}

/// What a client that must log in sends, and the events.
const LOGINS: &[(&str, &[&str])] = &[
    ("get a\r\nquit it\r\nget b\r\n", &["CLIENT_ERROR unauthenticated"; 3]),
    ("get a\r\nquit\r\nget b\r\n", &["CLIENT_ERROR unauthenticated", "close NoLogin"]),
    ("set a 0 0 13\r\njoe my secret\r\n", &["login joe my secret"]),
    ("set a 0 0 10\r\njoe secret\r\nget a\r\n", &["login joe secret", "get cas=false [a]"]),
    ("set a b c 10 d e f\njoe secret\r\nget a\r\n", &["login joe secret", "get cas=false [a]"]),
    ("set a 0 0 9\r\njoe wrong\r\nget a\r\n", &["login joe wrong", "CLIENT_ERROR unauthenticated"]),
    ("set a 0 0 3\r\njoe\r\n", &["CLIENT_ERROR bad authentication token format"]),
    (
        "set a 0 0 2\r\njoe secret\r\n",
        &["CLIENT_ERROR bad command line termination", "CLIENT_ERROR unauthenticated"],
    ),
    ("set a 0 0 x\r\nset a 0 0\r\nms a 10\r\n", &["CLIENT_ERROR unauthenticated"; 3]),
    // Nobody's memory is taken for a login.
    ("set a 0 0 16385\r\n", &["CLIENT_ERROR auth token too long"]),
    ("set a 0 0 4294967296\r\n", &["CLIENT_ERROR unauthenticated"]),
];

#[test]
fn logins() {
    for (input, expected) in LOGINS {
        let input = input.as_bytes();
        for cut in [1, 7, input.len()] {
            let pieces: Vec<&[u8]> = input.chunks(cut).collect();
            let got = run_parser(Parser::locked(LIMITS), &pieces);
            assert_eq!(got, *expected, "{} in pieces of {cut}", input.escape_ascii());
        }
    }
    let mut line = b"get ".to_vec();
    line.resize(2049, b'x');
    assert_eq!(
        run_parser(Parser::locked(LIMITS), &[&line]),
        ["close LineTooLong"],
        "not even a get may be long"
    );
}
