//! Random sessions: the same answers however the bytes are cut, and as many bytes as the answers say.

use terrace::Options;
use terrace_server::{Exchange, ServerOptions};

/// A small generator of pseudo-random numbers (xorshift), so that a failing seed can be run again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

const KEYS: &[&str] = &["a", "b", "Zm9v", "YQ=="];
/// Without `c`, `h` and `l`, whose answers depend on more than the session.
const FLAGS: &[&str] = &[
    "v", "v", "k", "k", "q", "s", "t", "f", "b", "u", "I", "N0", "N9999", "T0", "T9999", "T-1", "R9",
    "R99999", "O1", "Oabc", "F7", "C1", "J5", "D3", "MA", "MP", "ME", "MR", "MI", "MD", "M", "Cx", "z", "S5",
];
const VALUES: &[&str] = &["", "1", "99", "x", "mg a\r\n", "0123456789"];
const OTHERS: &[&str] = &[
    "mn",
    "get a b foo",
    "gat 9999 a b",
    "incr a 5",
    "decr b 3",
    "touch a 9999",
    "delete a",
    "flush_all",
    "nonsense",
    "verbosity 1",
    "me nothing",
    "lru_crawler crawl all",
    "stats cachedump 2 0",
    "slabs automove 1",
    "stats sizes",
    "",
];

/// A request that is whole, right or wrong.
fn request(random: &mut Random) -> String {
    let mut flags = String::new();
    for _ in 0..random.below(5) {
        flags += " ";
        flags += random.of(FLAGS);
    }
    let (key, value) = (random.of(KEYS), random.of(VALUES));
    match random.below(8) {
        0 | 1 => format!("mg {key}{flags}\r\n"),
        2 | 3 => format!("ms {key} {}{flags}\r\n{value}\r\n", value.len()),
        4 => format!("md {key}{flags}\r\n"),
        5 => format!("ma {key}{flags}\r\n"),
        6 => {
            let verb = random.of(&["set", "add", "replace", "append", "prepend"]);
            let noreply = random.of(&["", " noreply"]);
            format!("{verb} {key} 3 0 {}{noreply}\r\n{value}\r\n", value.len())
        }
        _ => format!("{}\r\n", random.of(OTHERS)),
    }
}

/// Everything that a new server answers to these bytes, sent so many at a time.
fn answers(bytes: &[u8], at_a_time: usize) -> Vec<u8> {
    answers_of(bytes, at_a_time, ServerOptions::default())
}

fn answers_of(bytes: &[u8], at_a_time: usize, options: ServerOptions) -> Vec<u8> {
    let store = Options {
        engine: "dram".into(),
        dram_records: Some(16 << 20),
        background_threads: 0,
        ..Options::default()
    };
    let mut exchange = Exchange::memcached(terrace::open(store).unwrap(), options).unwrap();
    let mut answers = Vec::new();
    for piece in bytes.chunks(at_a_time) {
        answers.extend(exchange.send(piece).1);
    }
    answers
}

#[test]
fn however_they_are_cut() {
    for seed in 1u64..150 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let requests: String = (0..60).map(|_| request(&mut random)).collect();
        let at_a_time = 1 + random.below(40);
        let whole = answers(requests.as_bytes(), requests.len());
        let pieces = answers(requests.as_bytes(), at_a_time);
        assert!(
            whole == pieces,
            "seed {seed}, pieces of {at_a_time}:\n{}\nwhole  {}\npieces {}",
            requests.escape_debug(),
            whole.escape_ascii(),
            pieces.escape_ascii()
        );
        // A batch ends behind every answer that has bytes.
        let options = ServerOptions { turn_answer_bytes: 0, ..ServerOptions::default() };
        let parts = answers_of(requests.as_bytes(), requests.len(), options);
        assert!(
            whole == parts,
            "seed {seed}, {}\nwhole {}\nparts {}",
            requests.escape_debug(),
            whole.escape_ascii(),
            parts.escape_ascii()
        );
        // Behind all of it the server still knows where it is.
        let marked = [requests.as_bytes(), b"\r\nmn\r\n"].concat();
        assert!(answers(&marked, marked.len()).ends_with(b"MN\r\n"), "seed {seed}");
    }
}
