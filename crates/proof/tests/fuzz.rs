//! Every input of the corpus, and a small seeded share of mutations for each target; `cargo xtask fuzz` runs as many as one
//! likes.

use parking_lot::Mutex;
use peak_alloc::PeakAlloc;
use terrace_proof::fuzz::{Against, Meter, Mutator, TARGETS, by_name, execute, inputs, lossy};
use terrace_testkit::settings::variable;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// One target at a time: memory is measured.
static ONE: Mutex<()> = Mutex::new(());

/// `TERRACE_FUZZ_RUNS` and `_SEED` say otherwise.
fn share(name: &str, runs: u64) {
    let _one = ONE.lock();
    let start = || {
        HEAP.reset_peak_usage();
        HEAP.current_usage()
    };
    let meter = Meter { start, peak: || HEAP.peak_usage() };
    let target = by_name(name).unwrap_or_else(|error| panic!("{error}"));
    let corpus = inputs(target).unwrap_or_else(|error| panic!("corpus/{name}: {error}"));
    assert!(!corpus.is_empty(), "{name} has a corpus");
    for input in &corpus {
        execute(target, &input.bytes, meter)
            .unwrap_or_else(|error| panic!("corpus/{name}/{}: {error}", input.name));
    }
    let seed = variable("TERRACE_FUZZ_SEED", 1);
    let corpus: Vec<Vec<u8>> = corpus.into_iter().map(|input| input.bytes).collect();
    let mut mutator = Mutator::new(seed, target, &corpus);
    for run in 0..variable("TERRACE_FUZZ_RUNS", runs) {
        let input = mutator.input();
        execute(target, &input, meter).unwrap_or_else(|error| {
            panic!("input {run} of seed {seed}: {error}; `cargo xtask fuzz {name} --seed {seed}` finds and minimises it")
        });
    }
}

macro_rules! shares {
    ($($test:ident: $name:literal, $runs:literal;)*) => {
        $(#[test] fn $test() { share($name, $runs); })*
        #[test]
        fn every_target_has_its_share() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$($name),*]);
        }
    };
}

shares! {
    resp: "resp", 500;
    resp_answer: "resp-answer", 5000;
    memcached: "memcached", 300;
    memcached_binary: "memcached-binary", 300;
    serve_memcached_binary: "serve-memcached-binary", 300;
    serve_resp: "serve-resp", 300;
    serve_memcached: "serve-memcached", 300;
    serve_model: "serve-model", 300;
    serve_two: "serve-two", 300;
    serve_memcached_model: "serve-memcached-model", 300;
    serve_hostile: "serve-hostile", 10;
    options: "options", 20000;
    superblock: "superblock", 5000;
    manifest: "manifest", 20000;
    record: "record", 20000;
    blocks: "blocks", 600;
    log_byte: "log-byte", 1000;
    log_block: "log-block", 500;
    recover_byte: "recover-byte", 400;
    recover_block: "recover-block", 200;
    check_byte: "check-byte", 50;
    check_block: "check-block", 20;
    tac_blocks: "tac-blocks", 400;
    tac_recover_byte: "tac-recover-byte", 400;
    tac_recover_block: "tac-recover-block", 200;
    tac_check_byte: "tac-check-byte", 50;
    tac_check_block: "tac-check-block", 20;
    tac_recover_tiered: "tac-recover-tiered", 200;
    tac_check_tiered: "tac-check-tiered", 20;
    history: "history", 150;
    config: "config", 3000;
}

/// A model is proven by the original, where there is one: see [`Against::start`].
#[test]
fn the_originals_answer_as_the_models_do() {
    for name in ["serve-model", "serve-two", "serve-memcached-model"] {
        let Some(against) = Against::start(name).unwrap() else { continue };
        let target = by_name(name).unwrap();
        let corpus = inputs(target).unwrap().into_iter().map(|input| input.bytes).collect::<Vec<_>>();
        let mut mutator = Mutator::new(variable("TERRACE_FUZZ_SEED", 1), target, &corpus);
        let drawn = (0..variable("TERRACE_FUZZ_RUNS", 300)).map(|_| mutator.input()).collect::<Vec<_>>();
        let mut commands = 0;
        for input in corpus.iter().chain(&drawn) {
            commands += against.run(input).unwrap_or_else(|error| panic!("{name}: {input:?}: {error}"));
        }
        assert!(commands > 0, "{name}");
    }
}

/// A target that finds nothing must be able to find something: a fence or a sync that does nothing loses what was promised.
#[test]
fn lost_fences_and_syncs_are_noticed() {
    let _one = ONE.lock();
    let target = by_name("history").unwrap();
    let corpus = inputs(target).unwrap().into_iter().map(|input| input.bytes).collect::<Vec<_>>();
    let mut mutator = Mutator::new(1, target, &corpus);
    let mut noticed = [0; 2];
    let drawn = (0..40).map(|_| mutator.input()).collect::<Vec<_>>();
    for input in corpus.iter().chain(&drawn).filter(|input| !input.is_empty()) {
        let lossy = (0..).map_while(|n| lossy(input, n));
        noticed[usize::from(input[0] % 2)] += lossy.filter(|done| done.is_err()).count();
    }
    println!("noticed on byte and block media: {noticed:?}");
    assert!(noticed.iter().all(|noticed| *noticed > 0), "on byte and block media: {noticed:?}");
}
