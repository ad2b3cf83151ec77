//! The request parser: pieces of any size, claims without data, Redis's texts for what is wrong, and round trips.

use proptest::prelude::*;
use terrace_protocol::resp::{Limits, Parser, write_request};

type Command = Vec<Vec<u8>>;

/// Shows `input` to a parser as a connection would, at most `step` bytes more at a time; returns the commands, or the text
/// of the error after those before it.
fn parse(input: &[u8], step: usize, limits: Limits) -> (Vec<Command>, Option<String>) {
    let mut parser = Parser::new(limits);
    let (mut begin, mut end, mut commands) = (0, 0, Vec::new());
    loop {
        match parser.next(&input[begin..end]) {
            Ok(Some(consumed)) => {
                assert!(consumed <= end - begin, "took bytes that had not arrived");
                commands.push(parser.args(&input[begin..end]).from(0).map(<[u8]>::to_vec).collect());
                begin += consumed;
            }
            Ok(None) if end == input.len() => return (commands, None),
            Ok(None) => end = (end + step).min(input.len()),
            Err(error) => return (commands, Some(error.to_string())),
        }
    }
}

fn words(words: &[&str]) -> Command {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn every_split_gives_the_same_commands() {
    let input = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\nPING \"a b\"\r\n\r\n*0\r\n*-1\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$5\r\n\r\n$1\r\r\nset x 'y'\n";
    let expected = vec![
        words(&["GET", "key"]),
        words(&["PING", "a b"]),
        words(&[]),
        words(&[]),
        words(&[]),
        words(&["SET", "", "\r\n$1\r"]),
        words(&["set", "x", "y"]),
    ];
    for step in 1..=input.len() {
        assert_eq!(parse(input, step, Limits::default()), (expected.clone(), None), "in pieces of {step}");
    }
}

#[test]
fn every_prefix_waits_for_more() {
    let input = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
    for end in 0..input.len() {
        assert_eq!(
            parse(&input[..end], 1, Limits::default()),
            (vec![], None),
            "{end} bytes are no whole command"
        );
    }
}

#[test]
fn errors_are_redis_texts_however_they_arrive() {
    let long = |first: &str| {
        let mut line = first.as_bytes().to_vec();
        line.resize((64 << 10) + 16, b'1');
        line
    };
    let cases: [(Vec<u8>, &str); 16] = [
        (b"*x\r\n".to_vec(), "invalid multibulk length"),
        (b"*\r\n".to_vec(), "invalid multibulk length"),
        (b"*01\r\n".to_vec(), "invalid multibulk length"),
        (b"*1048577\r\n".to_vec(), "invalid multibulk length"),
        (b"*9223372036854775808\r\n".to_vec(), "invalid multibulk length"),
        (b"*1\r\n:3\r\n".to_vec(), "expected '$', got ':'"),
        (b"*1\r\n\r\n".to_vec(), "expected '$', got ' '"),
        (b"*1\r\n\xff\r\n".to_vec(), "expected '$', got '?'"),
        (b"*1\r\n$-1\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$x\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$536870913\r\n".to_vec(), "invalid bulk length"),
        (b"*2\r\n$4\r\nPING\r\n$9223372036854775807\r\n".to_vec(), "invalid bulk length"),
        (b"SET \"x\r\n".to_vec(), "unbalanced quotes in request"),
        (long("SET "), "too big inline request"),
        (long("*"), "too big mbulk count string"),
        (long("*1\r\n$"), "too big bulk count string"),
    ];
    for (input, text) in cases {
        for step in [input.len(), 1000, 1] {
            let shown = String::from_utf8_lossy(&input[..input.len().min(40)]).into_owned();
            let expected = Some(format!("Protocol error: {text}"));
            assert_eq!(
                parse(&input, step, Limits::default()),
                (vec![], expected),
                "{shown:?} in pieces of {step}"
            );
        }
    }
}

#[test]
fn limits_hold_and_their_edge_is_allowed() {
    let limits = Limits { args_max: 3, bulk_bytes_max: 4 };
    let (commands, error) = parse(b"*3\r\n$4\r\nPING\r\n$0\r\n\r\n$1\r\nx\r\n*4\r\n", 1, limits);
    assert_eq!(commands, vec![words(&["PING", "", "x"])]);
    assert_eq!(error.as_deref(), Some("Protocol error: invalid multibulk length"));
    let (_, error) = parse(b"*1\r\n$5\r\n", 1, limits);
    assert_eq!(error.as_deref(), Some("Protocol error: invalid bulk length"));
}

#[test]
fn a_stranger_may_claim_little_until_it_has_logged_in() {
    let mut parser = Parser::new(Limits::default());
    parser.set_stranger(true);
    let largest = format!("*10\r\n$16384\r\n{}\r\n{}", "x".repeat(16384), "$1\r\nx\r\n".repeat(9));
    assert_eq!(parser.next(largest.as_bytes()).unwrap(), Some(largest.len()));
    let refused = |mut parser: Parser, claim: &[u8]| parser.next(claim).unwrap_err().to_string();
    let stranger = || {
        let mut parser = Parser::new(Limits::default());
        parser.set_stranger(true);
        parser
    };
    assert_eq!(refused(stranger(), b"*11\r\n"), "Protocol error: unauthenticated multibulk length");
    assert_eq!(refused(stranger(), b"*1\r\n$16385\r\n"), "Protocol error: unauthenticated bulk length");
    // As in Redis, what nobody may claim comes first.
    assert_eq!(refused(stranger(), b"*2147483647\r\n"), "Protocol error: unauthenticated multibulk length");
    assert_eq!(refused(stranger(), b"*2147483648\r\n"), "Protocol error: invalid multibulk length");
    assert_eq!(refused(stranger(), b"*1\r\n$999999999999\r\n"), "Protocol error: invalid bulk length");
    parser.set_stranger(false);
    assert_eq!(parser.next(b"*11\r\n$16385\r\n").unwrap(), None);
}

#[test]
fn a_claim_alone_reserves_nothing() {
    // A million arguments of half a gigabyte are claimed; the parser must answer "more" at once, for each byte shown.
    let mut input = b"*1048576\r\n".to_vec();
    for _ in 0..3 {
        input.extend_from_slice(b"$1\r\na\r\n");
    }
    input.extend_from_slice(b"$536870912\r\nabc");
    let (commands, error) = parse(&input, 1, Limits::default());
    assert_eq!((commands.len(), error), (0, None));
}

#[test]
fn a_command_of_a_million_arguments_passes() {
    let args = vec![b"k"; 1 << 20];
    let mut input = Vec::new();
    write_request(&args, &mut input);
    let (commands, error) = parse(&input, 4096, Limits::default());
    assert_eq!(error, None);
    assert_eq!(commands[0].len(), 1 << 20);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn requests_survive_the_wire(
        commands in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6), 0..6),
        step in 1usize..64,
    ) {
        let mut input = Vec::new();
        for command in &commands {
            write_request(command, &mut input);
        }
        prop_assert_eq!(parse(&input, step, Limits::default()), (commands, None));
    }

    #[test]
    fn any_bytes_in_any_pieces_give_one_result(input in prop::collection::vec(prop_oneof![
        3 => prop::sample::select(b"*$\r\n0123-\"' abx\\".to_vec()),
        1 => any::<u8>(),
    ], 0..200), step in 1usize..20) {
        prop_assert_eq!(parse(&input, step, Limits::default()), parse(&input, input.len().max(1), Limits::default()));
    }
}
