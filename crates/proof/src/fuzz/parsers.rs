//! The protocols' parsers: the same commands and the same error however the bytes are split, and no claim believed.

use terrace_protocol::memcached::{self, Event};
use terrace_protocol::resp::{self, Value, write_request};

use super::Target;
use super::wire::{Behind, alike, events};

/// Requests as Redis's clients send them.
pub(super) static RESP: Target = Target {
    name: "resp",
    corpus: "resp",
    about: "RESP requests, split everywhere",
    bytes_max: 2000,
    words: &[
        "\r\n",
        "*1\r\n",
        "*3\r\n",
        "$0\r\n\r\n",
        "$4\r\n",
        "$-1\r\n",
        "GET",
        "SET ",
        "\"",
        "'",
        "\\x41",
        "*-1\r\n",
        "\0",
    ],
    run: run_resp,
};

/// Answers as our clients read them.
pub(super) static RESP_ANSWER: Target = Target {
    name: "resp-answer",
    corpus: "resp-answer",
    about: "RESP answers, cut off everywhere",
    bytes_max: 2000,
    words: &[
        "\r\n",
        "*2\r\n",
        "%1\r\n",
        "~1\r\n",
        "$3\r\nabc\r\n",
        "$-1\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "=5\r\ntxt:a\r\n",
        ":7\r\n",
        "+OK\r\n",
        "-E\r\n",
    ],
    run: run_answer,
};

/// Requests as memcached's clients send them.
pub(super) static MEMCACHED: Target = Target {
    name: "memcached",
    corpus: "memcached",
    about: "memcached requests, split everywhere",
    // Lines above 2048 bytes are judged by what has arrived, as in memcached.
    bytes_max: 2000,
    words: &[
        "\r\n",
        "get ",
        "gets ",
        "gat 0 ",
        "set k 0 0 1\r\nv\r\n",
        "add ",
        "cas k 0 0 1 9\r\nv\r\n",
        "append ",
        "incr k ",
        "decr k 1",
        "touch k 1",
        "delete k",
        "flush_all",
        "stats",
        "verbosity 1",
        "ms k 2 T9 c\r\nhi\r\n",
        "ms Zm9v 3 b MA q\r\nabc\r\n",
        "mg k v t O1 N30\r\n",
        "md k I C7\r\n",
        "ma k N0 J5 MD D3\r\n",
        "me k b\r\n",
        "mn\r\n",
        "lru_crawler ",
        "slabs automove 1\r\n",
        "watch ",
        "quit\r\n",
        " noreply",
        "version",
        "-1",
        "\0",
        " ",
    ],
    run: run_memcached,
};

/// Commands, and the error that ended them.
type Outcome = (Vec<Vec<Vec<u8>>>, Option<String>);

/// Shows pieces to a parser as a connection does.
fn resp(limits: resp::Limits, pieces: &[&[u8]]) -> Result<Outcome, String> {
    let (mut parser, mut input, mut commands) = (resp::Parser::new(limits), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let consumed = match parser.next(&input) {
                Ok(Some(consumed)) => consumed,
                Ok(None) => break,
                Err(error) => return Ok((commands, Some(error.to_string()))),
            };
            if consumed == 0 || consumed > input.len() {
                return Err(format!("a command of {consumed} bytes where {} were shown", input.len()));
            }
            let args = parser.args(&input);
            if args.len() > limits.args_max.max(consumed) || args.bytes() > consumed {
                return Err(format!(
                    "{} arguments of {} bytes from {consumed} bytes",
                    args.len(),
                    args.bytes()
                ));
            }
            commands.push(args.from(0).map(<[u8]>::to_vec).collect());
            input.drain(..consumed);
        }
    }
    Ok((commands, None))
}

fn run_resp(input: &[u8]) -> Result<(), String> {
    for limits in [resp::Limits::default(), resp::Limits { args_max: 3, bulk_bytes_max: 5 }] {
        let whole = alike(input, |pieces| resp(limits, pieces))?;
        for command in whole.0.iter().filter(|command| !command.is_empty()) {
            let mut bytes = Vec::new();
            write_request(command, &mut bytes);
            let again = resp(resp::Limits::default(), &[&bytes])?;
            if again != (vec![command.clone()], None) {
                return Err(format!("{command:?} was written and read back as {again:?}"));
            }
        }
    }
    Ok(())
}

fn run_answer(input: &[u8]) -> Result<(), String> {
    let whole = Value::decode(input);
    let Ok(Some((value, taken))) = &whole else { return Ok(()) };
    if *taken == 0 || *taken > input.len() {
        return Err(format!("an answer of {taken} bytes where {} were shown", input.len()));
    }
    for end in 0..=*taken {
        let part = Value::decode(&input[..end]);
        // Not compared by `==`, for a NaN is no equal of itself.
        let same = match &part {
            Ok(None) => end < *taken,
            Ok(Some((again, bytes))) => {
                end == *taken && bytes == taken && format!("{again:?}") == format!("{value:?}")
            }
            Err(_) => false,
        };
        if !same {
            return Err(format!("the first {end} of {taken} bytes are read as {part:?}"));
        }
    }
    Ok(())
}

fn memcached(limits: memcached::Limits, pieces: &[&[u8]]) -> Result<Vec<String>, String> {
    let mut parser = memcached::Parser::new(limits);
    events(pieces, |input| {
        let step = parser.step(input);
        let behind = match step.event {
            Event::Incomplete { needed } => Behind::Needed(needed),
            Event::Close(_) => Behind::End,
            _ => Behind::More,
        };
        (step.consumed, format!("{:?}", step.event), behind)
    })
}

fn run_memcached(input: &[u8]) -> Result<(), String> {
    for limits in [
        memcached::Limits::default(),
        memcached::Limits { value_bytes_max: 5, counts_items: false, get_line_bytes_max: 4096 },
    ] {
        alike(input, |pieces| memcached(limits, pieces))?;
    }
    Ok(())
}
