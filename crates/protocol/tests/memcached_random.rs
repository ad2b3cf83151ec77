//! Random bytes never make the memcached parser panic, loop or ask for what it has, and mean the same however they are
//! split.

mod memcached_support;

use memcached_support::{run, run_pieces};
use proptest::prelude::*;
use terrace_protocol::memcached::Limits;

const LIMITS: Limits = Limits { value_bytes_max: 64, counts_items: false, get_line_bytes_max: 256 };

/// Bytes that look like the protocol often enough to get past its first checks.
fn protocol_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "get ", "gets ", "gat ", "gats ", "set ", "add ", "replace ", "append ", "prepend ", "cas ", "incr ", "decr ",
            "touch ", "delete ", "flush_all ", "version", "stats ", "verbosity ", "ms ", "shutdown", "bget ", "mg ", "md ",
            "ma ", "me ", "mn", "lru_crawler ", "lru ", "slabs ", "extstore ", "watch ", "refresh_certs",
        ]).prop_map(|word| word.as_bytes().to_vec()),
        6 => prop::sample::select(vec![
            "a ", "key ", "0 ", "1 ", "2 ", "5 ", "-1 ", "70 ", "18446744073709551615 ", "2147483647 ", "noreply", " ", "x",
            "v ", "q ", "k ", "b ", "O1 ", "T0 ", "N30 ", "R-1 ", "C7 ", "MA ", "MI ", "I ", "F5 ", "J1 ", "Dx ", "Zm9v ", "AA== ",
            "crawl ", "metadump ", "all ", "reassign ", "automove ", "tune ", "0.5 ",
        ]).prop_map(|word| word.as_bytes().to_vec()),
        6 => prop::sample::select(vec!["\r\n", "\n", "\r", "\0", "\t", "\r\n\r\n"])
            .prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..80),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A word of a line.
fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9=]{1,6}", Just("Zm9v".to_owned()), Just("noreply".to_owned())]
}

/// The flags of a meta command, right and wrong ones.
fn meta_flags() -> impl Strategy<Value = String> {
    let flag = prop_oneof![
        6 => prop::sample::select(vec!["v", "q", "k", "s", "t", "c", "f", "h", "l", "u", "I", "b", "S", "x"]).prop_map(str::to_owned),
        3 => "[OTNRCFJDM][0-9a-zA-Z]{0,3}",
    ];
    prop::collection::vec(flag, 0..6).prop_map(|flags| flags.join(" "))
}

/// A whole request: its line and, where one follows, a data block of the length that the line says, of any bytes.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let block = prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n')], 0..90);
    let verb = prop::sample::select(vec!["set", "add", "replace", "append", "prepend"]);
    let with_block = |line: String, block: &[u8]| [line.as_bytes(), b"\r\n", block, b"\r\n"].concat();
    prop_oneof![
        (verb, word(), any::<u32>(), block.clone()).prop_map(move |(verb, key, flags, block)| with_block(
            format!("{verb} {key} {flags} 0 {}", block.len()),
            &block
        )),
        (word(), meta_flags(), block).prop_map(move |(key, flags, block)| with_block(
            format!("ms {key} {} {flags}", block.len()),
            &block
        )),
        (prop::sample::select(vec!["mg", "md", "ma", "me"]), word(), meta_flags())
            .prop_map(|(verb, key, flags)| format!("{verb} {key} {flags}\r\n").into_bytes()),
        (
            prop::sample::select(vec![
                "get",
                "gat",
                "incr",
                "touch",
                "mn",
                "lru",
                "slabs",
                "extstore",
                "lru_crawler",
                "stats"
            ]),
            prop::collection::vec(word(), 0..5)
        )
            .prop_map(|(verb, words)| format!("{verb} {}\n", words.join(" ")).into_bytes()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes(input in prop::collection::vec(any::<u8>(), 0..3000), cut in 1usize..200) {
        let pieces: Vec<&[u8]> = input.chunks(cut).collect();
        let _ = run_pieces(LIMITS, &pieces);
    }

    #[test]
    fn split_anywhere_means_the_same(input in protocol_like(), cut in 1usize..20) {
        // A line that is longer than a limit is judged by what has arrived, as in memcached: keep lines below it.
        prop_assume!(input.split(|&byte| byte == b'\n').all(|line| line.len() < 256));
        let pieces: Vec<&[u8]> = input.chunks(cut).collect();
        prop_assert_eq!(run(LIMITS, &input), run_pieces(LIMITS, &pieces));
    }

    /// Requests whose framing is known by construction mean together what each means alone: none eats of the next.
    #[test]
    fn requests_end_where_they_should(requests in prop::collection::vec(request(), 1..12), cut in 1usize..50) {
        let alone: Vec<String> = requests.iter().flat_map(|request| run(LIMITS, request)).collect();
        let together = requests.concat();
        let pieces: Vec<&[u8]> = together.chunks(cut).collect();
        prop_assert_eq!(alone, run_pieces(LIMITS, &pieces));
    }
}
