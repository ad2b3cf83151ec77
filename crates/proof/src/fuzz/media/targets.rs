//! The targets that mangle whole stores with blocks, one of each engine; engines share a corpus, for what an input means is a matter of the
//! format alone.

use terrace_testkit::sweep::MediaKind::{Block, Byte, Tiered};

use super::blocks::blocks;
use super::check::check_files;
use super::image::Engine;
use super::recover::recover;
use crate::fuzz::Target;

/// The first of the [`WITH_BLOCKS`](crate::subjects::WITH_BLOCKS), whose log stands for all.
pub(super) const HETERMM: Engine = Engine(0);
/// The second one.
const TAC: Engine = Engine(1);

const fn target(
    name: &'static str,
    corpus: &'static str,
    about: &'static str,
    run: fn(&[u8]) -> Result<(), String>,
) -> Target {
    Target { name, corpus, about, bytes_max: 200, words: &[], run }
}

macro_rules! targets {
    ($($target:ident = $name:literal of $corpus:literal, $about:literal, $run:expr;)*) => {
        $(#[doc = $about] pub(in crate::fuzz) static $target: Target = target($name, $corpus, $about, $run);)*
        #[cfg(test)]
        const ALL: &[(&Target, &str)] = &[$((&$target, stringify!($target))),*];
    };
}

targets! {
    BLOCKS = "blocks" of "blocks", "mangled blocks read one by one, and rebuilt",
        |input| blocks(HETERMM, input);
    RECOVER_BYTE = "recover-byte" of "recover-byte",
        "a mangled store on byte-addressable media, opened, used and opened again",
        |input| recover(Byte, HETERMM, input);
    RECOVER_BLOCK = "recover-block" of "recover-block",
        "a mangled store on block media, opened, used and opened again",
        |input| recover(Block, HETERMM, input);
    CHECK_BYTE = "check-byte" of "check-byte",
        "the offline check and its repair of a mangled store on byte-addressable media",
        |input| check_files(Byte, HETERMM, input);
    CHECK_BLOCK = "check-block" of "check-block",
        "the offline check and its repair of a mangled store on block media",
        |input| check_files(Block, HETERMM, input);
    TAC_BLOCKS = "tac-blocks" of "blocks", "blocks, of engine tac", |input| blocks(TAC, input);
    TAC_RECOVER_BYTE = "tac-recover-byte" of "recover-byte", "recover-byte, of engine tac",
        |input| recover(Byte, TAC, input);
    TAC_RECOVER_BLOCK = "tac-recover-block" of "recover-block", "recover-block, of engine tac",
        |input| recover(Block, TAC, input);
    TAC_CHECK_BYTE = "tac-check-byte" of "check-byte", "check-byte, of engine tac",
        |input| check_files(Byte, TAC, input);
    TAC_CHECK_BLOCK = "tac-check-block" of "check-block", "check-block, of engine tac",
        |input| check_files(Block, TAC, input);
    TAC_RECOVER_TIERED = "tac-recover-tiered" of "recover-tiered",
        "a mangled store on both kinds of media, opened, used and opened again",
        |input| recover(Tiered, TAC, input);
    TAC_CHECK_TIERED = "tac-check-tiered" of "check-tiered",
        "the offline check and its repair of a mangled store on both kinds of media",
        |input| check_files(Tiered, TAC, input);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_called_after_its_engine() {
        assert_eq!((HETERMM.name(), TAC.name()), ("hetermm", "tac"));
        for (target, name) in ALL {
            assert_eq!(target.name.to_uppercase().replace('-', "_"), **name);
            assert_eq!(target.name.trim_start_matches("tac-"), target.corpus);
        }
    }
}
