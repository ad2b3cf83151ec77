//! Small requests that would have a worker busy for long, or make it hold far more than they are.

use terrace_protocol::resp::Value;
use terrace_server::ServerOptions;

use crate::client::{Client, bulk, error, ok};
use crate::ours::Ours;

const TOO_MUCH: &str = "ERR matching takes too long: the pattern has long parts between stars, or there is too much to \
                        compare with it";

#[test]
fn patterns_have_a_length() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let (fits, long) = ("p".repeat(4096), "p".repeat(4097));
    let refused = error("ERR a pattern may have at most 4096 bytes");
    for command in [
        &["KEYS"][..],
        &["SCAN", "0", "MATCH"],
        &["PUBSUB", "CHANNELS"],
        &["CONFIG", "GET"],
        &["COMMAND", "LIST", "FILTERBY", "PATTERN"],
        &["PSUBSCRIBE"],
    ] {
        let mut ask = |pattern: &str| client.ask(&[command, &[pattern]].concat());
        assert_eq!(ask(&long), refused, "{command:?}");
        assert!(!matches!(ask(&fits), Value::Error(_)), "{command:?}");
    }
    ours.stop();
}

#[test]
fn a_match_takes_so_many_steps_and_no_more() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let name = "a".repeat(60_000);
    assert_eq!(client.ask(&["SET", &name, "1"]), ok());
    let hard = format!("*{}b*", "?".repeat(3000));
    let (too_much, scanned) = (error(TOO_MUCH), |keys| Value::Array(vec![bulk("0"), Value::Array(keys)]));
    assert_eq!(client.ask(&["KEYS", &hard]), too_much);
    assert_eq!(client.ask(&["SCAN", "0", "MATCH", &hard, "COUNT", "1000"]), too_much);
    assert_eq!(client.ask(&["KEYS", "*aaaa*b"]), Value::Array(Vec::new()));
    assert_eq!(client.ask(&["SCAN", "0", "MATCH", "*aa*"]), scanned(vec![bulk(&name)]));
    // Nobody gets what would take too long to be matched with every pattern.
    let mut listener = Client::connect(ours.address);
    for (count, pattern) in ["a*", &hard].into_iter().enumerate() {
        let confirmed = [bulk("psubscribe"), bulk(pattern), Value::Integer(count as i64 + 1)];
        assert_eq!(listener.ask(&["PSUBSCRIBE", pattern]), Value::Array(confirmed.to_vec()));
    }
    assert_eq!(client.ask(&["PUBLISH", &name, "lost"]), too_much);
    assert_eq!(client.ask(&["PUBLISH", "abc", "told"]), Value::Integer(1));
    assert_eq!(listener.answer(), Value::Array(["pmessage", "a*", "abc", "told"].map(bulk).to_vec()));
    assert_eq!(
        client.ask(&["SUBSCRIBE", &name]).clone(),
        Value::Array(vec![bulk("subscribe"), bulk(&name), Value::Integer(1)])
    );
    let mut other = Client::connect(ours.address);
    assert_eq!(other.ask(&["PUBSUB", "CHANNELS", &hard]), too_much);
    assert_eq!(other.ask(&["PUBSUB", "CHANNELS", "a*"]), Value::Array(vec![bulk(&name)]));
    // All that a transaction does is one turn.
    let one = format!("*{}b*", "?".repeat(150));
    assert_eq!(other.ask(&["KEYS", &one]), Value::Array(Vec::new()));
    assert_eq!(other.ask(&["MULTI"]), ok());
    for _ in 0..3 {
        other.ask(&["SCAN", "0", "MATCH", &one]);
    }
    let all = Value::Array(vec![scanned(Vec::new()), too_much.clone(), too_much]);
    assert_eq!(other.ask(&["EXEC"]), all);
    ours.stop();
}

#[test]
fn parameters_are_asked_for_by_so_many_patterns() {
    let ours = Ours::start_with(ServerOptions::default());
    let mut client = Client::connect(ours.address);
    let ask = |count: usize| [&["CONFIG", "GET"][..], &vec!["maxclient?"; count]].concat();
    let found = client.ask(&ask(10_000));
    assert!(matches!(&found, Value::Array(pair) if pair[0] == bulk("maxclients")), "{found:?}");
    assert_eq!(client.ask(&ask(100_000)), error(TOO_MUCH));
    ours.stop();
}

#[test]
fn answers_of_many_pieces_are_bounded() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let too_large = error(
        "ERR such an answer may take at most 64 MiB, and those of one transaction 128 MiB: ask for less at a time",
    );
    let about = |what: &str, name: &str, count: usize| -> Vec<String> {
        ["COMMAND", what].into_iter().chain(std::iter::repeat_n(name, count)).map(String::from).collect()
    };
    let mut ask = |words: &[String]| client.ask(&words.iter().map(|word| &**word).collect::<Vec<_>>());
    // What a map holds it holds once.
    assert_eq!(ask(&about("DOCS", "client", 1000)), ask(&about("DOCS", "client", 1)));
    assert_eq!(ask(&about("INFO", "client", 100_000)), too_large);
    let Value::Array(infos) = ask(&about("INFO", "get", 1000)) else { panic!("no array") };
    assert_eq!(infos.len(), 1000);
    let Value::Integer(id) = client.ask(&["CLIENT", "ID"]) else { panic!("no number") };
    let id = id.to_string();
    let ids = |count: usize| [&["CLIENT", "LIST", "ID"][..], &vec![&*id; count]].concat();
    assert_eq!(client.ask(&ids(500_000)), too_large);
    assert!(matches!(client.ask(&ids(2)), Value::Bulk(text) if text.ends_with(b"\n")));
    assert_eq!(client.ask(&["PING"]), Value::Simple(b"PONG".to_vec()));
    ours.stop();
}

#[test]
fn a_transactions_answers_are_bounded_together() {
    let ours = Ours::start_with(ServerOptions { transaction_bytes_max: 10_000, ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    let long = "x".repeat(8000);
    assert_eq!(client.ask(&["MULTI"]), ok());
    for command in [&["ECHO", &long][..], &["ECHO", &long], &["INCR", "n"]] {
        client.ask(command);
    }
    let left_out = error("ERR the answers of the transaction are too large, and this one is left out");
    assert_eq!(client.ask(&["EXEC"]), Value::Array(vec![bulk(&long), left_out, Value::Integer(1)]));
    ours.stop();
}

#[test]
fn what_takes_long_alone_is_bounded_in_a_transaction() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["MSET", "a", &"a".repeat(8000), "b", &"b".repeat(8000)]), ok());
    assert_eq!(client.ask(&["MULTI"]), ok());
    for _ in 0..3 {
        client.ask(&["LCS", "a", "b", "LEN"]);
    }
    let too_long = error(
        "ERR LCS takes too long with what came before it in the transaction: send it in one of its own",
    );
    assert_eq!(client.ask(&["EXEC"]), Value::Array(vec![Value::Integer(0), Value::Integer(0), too_long]));
    assert_eq!(client.ask(&["LCS", "a", "b", "LEN"]), Value::Integer(0));
    ours.stop();
}

#[test]
fn a_count_of_many_reads_what_a_transaction_may() {
    let ours = Ours::start_with(ServerOptions { transaction_bytes_max: 200, ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        assert_eq!(client.ask(&["PFADD", key, "1", "2", "3", key]), Value::Integer(1));
    }
    assert_eq!(client.ask(&["PFCOUNT", "a", "b"]), Value::Integer(5));
    let refused =
        "ERR the values that one transaction reads may take at most 200 bytes: ask for fewer in one";
    assert_eq!(client.ask(&["PFCOUNT", "a", "b", "c", "d", "e", "f", "g", "h"]), error(refused));
    ours.stop();
}
