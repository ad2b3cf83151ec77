//! The trace simulator gives the figures that are on record.

use terrace_bench::Distribution;
use terrace_bench::trace::{Options, Row, Setup, Shares, run};

fn options(setups: &[&str]) -> Options {
    Options {
        setups: setups.iter().filter_map(|name| name.parse().ok()).collect(),
        records: 20_000,
        distributions: vec![Distribution::Zipfian(0.99)],
        sets_percent: 5.0,
        shares: vec![Shares { dram: 8.0, pmem: 64.0 }],
        warm: 8.0,
        measured: 4.0,
        shifted: 4.0,
        ticks: 4,
        halve_every: None,
        stores_all: false,
        seed: 1,
    }
}

fn figures(row: &Row) -> [f64; 4] {
    [row.dram_hits, row.pmem_hits, row.moves_up, row.moves_down]
}

#[test]
fn a_small_run_gives_the_recorded_figures() {
    let mut options = options(&[]);
    options.setups = Setup::standard();
    options.distributions.push(Distribution::Ycsb);
    let report = run(&options).unwrap();
    let recorded = include_str!("trace.recorded");
    let found: Vec<String> = report
        .rows
        .iter()
        .map(|row| {
            let [dram, pmem, up, down] = figures(row);
            format!("{} {} {dram:.2} {pmem:.2} {up:.4} {down:.4}", row.distribution, row.setup)
        })
        .collect();
    // Drawing Zipf goes through the system's ln and exp, whose last bit may differ: nothing else may.
    for (found, recorded) in found.iter().zip(recorded.lines()) {
        let (names, numbers): (Vec<&str>, Vec<&str>) =
            found.split(' ').partition(|word| word.parse::<f64>().is_err());
        assert!(recorded.starts_with(&names.join(" ")), "{found}, on record {recorded}");
        let known = recorded.split(' ').filter_map(|word| word.parse::<f64>().ok());
        for ((i, number), known) in numbers.iter().enumerate().zip(known) {
            let off = (number.parse::<f64>().unwrap() - known).abs();
            assert!(off <= if i < 2 { 0.1 } else { 0.002 }, "{found}, on record {recorded}");
        }
    }
    assert_eq!(found.len(), recorded.lines().count(), "all:\n{}", found.join("\n"));
    for row in &report.rows {
        let both = row.dram_hits + row.pmem_hits;
        assert!(row.dram_hits <= row.belady_dram && both <= row.belady_both, "better than possible: {row:?}");
        assert!(row.moves_down >= row.moves_up, "what goes up makes another go down: {row:?}");
    }
    let text = report.to_string();
    assert!(
        text.contains("tac/clock/beats") && text.contains("static optimum") && text.contains("ycsb, DRAM 8%"),
        "{text}"
    );
}

#[test]
fn the_same_seed_gives_the_same_and_another_does_not() {
    let once = run(&options(&["tac/clock/beats"])).unwrap();
    assert_eq!(once, run(&options(&["tac/clock/beats"])).unwrap());
    let other = run(&Options { seed: 2, ..options(&["tac/clock/beats"]) }).unwrap();
    assert_ne!(once.rows, other.rows);
    assert!(
        (once.rows[0].dram_hits - other.rows[0].dram_hits).abs() < 1.5,
        "a seed matters too much: {other:?}"
    );
}

#[test]
fn one_tier_of_lru_hits_as_its_formula_says() {
    // Read-only, all alike, LRU: any cached tenth is hit by a tenth of the gets.
    let uniform = Options {
        distributions: vec![Distribution::Uniform],
        sets_percent: 0.0,
        shares: vec![Shares { dram: 10.0, pmem: 0.0 }],
        shifted: 0.0,
        ..options(&["tac/lru/all", "tac/clock/beats", "anti-2/lru/all"])
    };
    for row in run(&uniform).unwrap().rows {
        assert!((row.dram_hits - 10.0).abs() < 0.5 && row.pmem_hits == 0.0, "{row:?}");
        assert!(row.back_after.is_none(), "nothing was shifted");
    }
    // Che's approximation of LRU under Zipf: the characteristic time solves sum(1 - exp(-p t)) = capacity.
    let zipf = Options { distributions: vec![Distribution::Zipfian(0.99)], ..uniform };
    let row = run(&zipf).unwrap().rows.remove(0);
    let weights: Vec<f64> = (1..=20_000).map(|rank| f64::from(rank).powf(-0.99)).collect();
    let total: f64 = weights.iter().sum();
    let cached = |time: f64| weights.iter().map(|weight| 1.0 - (-weight / total * time).exp()).sum::<f64>();
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if cached(middle) < 2_000.0 { low = middle } else { high = middle }
    }
    let hits = |weight: &f64| weight / total * (1.0 - (-weight / total * low).exp());
    let expected = 100.0 * weights.iter().map(hits).sum::<f64>();
    assert!((row.dram_hits - expected).abs() < 0.5, "{} where Che expects {expected}", row.dram_hits);
}

#[test]
fn everything_fits_and_everything_hits() {
    let all = Options {
        shares: vec![Shares { dram: 36.0, pmem: 64.0 }],
        ..options(&["tac/clock/beats", "tac/lazy-lru/hot", "anti-2/s3-fifo/all"])
    };
    for row in run(&all).unwrap().rows {
        assert_eq!(row.dram_hits + row.pmem_hits, 100.0, "{row:?}");
    }
}

#[test]
fn wrong_options_are_refused() {
    let refused = |options: Options| run(&options).unwrap_err().to_string();
    assert!(refused(Options { records: 1, ..options(&["tac/lru/all"]) }).contains("--records"));
    assert!(refused(options(&[])).contains("setup"));
    let latest = Options { distributions: vec![Distribution::Latest], ..options(&["tac/lru/all"]) };
    assert!(refused(latest).contains("latest needs inserts"));
}
