//! Random bytes never make the memcached parser panic, loop or ask for what it has, and mean the same however they are
//! split.

mod memcached_support;

use memcached_support::{run, run_pieces};
use proptest::prelude::*;
use terrace_protocol::memcached::Limits;

const LIMITS: Limits = Limits { value_bytes_max: 64, get_line_bytes_max: 256 };

/// Bytes that look like the protocol often enough to get past its first checks.
fn protocol_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "get ", "gets ", "gat ", "gats ", "set ", "add ", "replace ", "append ", "prepend ", "cas ", "incr ", "decr ",
            "touch ", "delete ", "flush_all ", "version", "stats ", "verbosity ", "ms ", "shutdown", "bget ",
        ]).prop_map(|word| word.as_bytes().to_vec()),
        6 => prop::sample::select(vec![
            "a ", "key ", "0 ", "1 ", "2 ", "5 ", "-1 ", "70 ", "18446744073709551615 ", "2147483647 ", "noreply", " ", "x",
        ]).prop_map(|word| word.as_bytes().to_vec()),
        6 => prop::sample::select(vec!["\r\n", "\n", "\r", "\0", "\t", "\r\n\r\n"])
            .prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..80),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
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
}
