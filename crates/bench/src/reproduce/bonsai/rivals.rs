//! B3 and B7: bonsai beside an entry a record, a log, and a hash table over a heap. Timed, over an emulated device.

use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Row, Settings, Shape, shared_memory};
use super::bed::{Job, OPTANE, Phase, Rates, SCANNED, of_load, of_phase, rates};
use super::pairs;
use super::systems::System;

/// About as fast: at least this much of the throughput.
const AS_FAST: f64 = 0.9;
/// Lengths of keys of figure 13, bytes.
const KEY_BYTES: [usize; 6] = [8, 16, 24, 48, 64, 128];
/// Of so many pairs one is there where lengths of keys are compared.
const KEYS_PART: u64 = 4;

fn emulated(
    id: &'static str,
    what: String,
    setting: String,
    paper: Figure,
    ours: Interval,
    holds: Holds,
) -> Row {
    Row { id, what, setting, paper, ours: ours.into(), kind: Kind::Emulated, holds }
}

/// B3.
pub(super) fn figure_10(settings: &Settings) -> anyhow::Result<Outcome> {
    const WHAT: &str = "gets, bonsai / an entry a record (hetermm with btree), throughput";
    if let Some(outcome) = shared_memory::outcome_without("B3", WHAT, 1.0, Kind::Emulated) {
        return Ok(outcome);
    }
    let jobs =
        [System::Bonsai, System::Tree].map(|system| Job::new(system, OPTANE, &[Phase::Gets], settings));
    let runs = rates("B3", settings, &jobs)?;
    let ours = Interval::of_ratios(&of_phase(&runs[0], 0), &of_phase(&runs[1], 0));
    let setting = jobs[0].setting();
    let rows = vec![
        emulated(
            "B3",
            format!("{WHAT}; about the same: at least {AS_FAST}"),
            setting.clone(),
            "about 1".into(),
            ours,
            Holds::Judged(ours.mean >= AS_FAST),
        ),
        Row {
            setting,
            ..Row::not_measured(
                "B3",
                "gets, throughput lost by offloading alone, without fingerprints and bitmaps in DRAM, %",
                "up to 44",
                Kind::Emulated,
                "not built yet: a switch that leaves them out",
            )
        },
    ];
    Ok(Outcome { rows, plots: Vec::new() })
}

/// What is compared, with which phase (none: the load), of the paper's what, and what the paper says of it.
type Claim = (&'static str, Option<usize>, System, Figure);

fn claims() -> Vec<Claim> {
    let words = |text: &str| Figure::from(text);
    vec![
        ("puts of new keys", None, System::Heap, words("2 (Viper)")),
        ("puts of new keys", None, System::Log, Figure::None),
        ("puts of new keys", None, System::Tree, words("above 1 (FlatStore)")),
        ("gets", Some(0), System::Heap, words("0.78 (Viper)")),
        ("gets", Some(0), System::Log, Figure::None),
        ("gets", Some(0), System::Tree, words("1.65 (FlatStore)")),
        ("workload A", Some(1), System::Heap, Figure::None),
        ("workload A", Some(1), System::Log, Figure::None),
        ("workload A", Some(1), System::Tree, words("up to 1.8 (FlatStore)")),
        ("scans of 100", Some(2), System::Tree, Figure::None),
    ]
}

/// B7.
pub(super) fn figure_14(settings: &Settings) -> anyhow::Result<Outcome> {
    const ORDERED: &[Phase] = &[Phase::Gets, Phase::A, Phase::Scans];
    const HASHED: &[Phase] = &[Phase::Gets, Phase::A];
    const WHAT: &str = "puts of new keys: bonsai / heap-hybrid, throughput";
    if let Some(outcome) = shared_memory::outcome_without("B7", WHAT, "2 (Viper)", Kind::Emulated) {
        return Ok(outcome);
    }
    let phases = |system: System| if system.is_ordered() { ORDERED } else { HASHED };
    let jobs = System::ALL.map(|system| Job::new(system, OPTANE, phases(system), settings));
    let runs = rates("B7", settings, &jobs)?;
    let of = |system: System, phase: Option<usize>| {
        let runs = System::ALL.iter().position(|other| *other == system).map_or(&[][..], |i| &runs[i][..]);
        phase.map_or_else(|| of_load(runs), |phase| of_phase(runs, phase))
    };
    let mut rows: Vec<Row> = claims()
        .into_iter()
        .map(|(name, phase, rival, paper)| {
            let ours = Interval::of_ratios(&of(System::Bonsai, phase), &of(rival, phase));
            let holds = match paper {
                Figure::None => Holds::NotJudged("the paper has no figure".into()),
                _ => Holds::NotJudged(
                    "the paper's is another system of that shape, with 24 threads and more".into(),
                ),
            };
            let what = format!("{name}: bonsai / {}, throughput", rival.name());
            emulated("B7", what, jobs[0].setting(), paper, ours, holds)
        })
        .collect();
    let mut groups = Vec::new();
    for system in System::ALL {
        let millions = |phase| Interval::of(&of(system, phase)).mean / 1e6;
        groups.push((format!("{}\nputs", system.engine()), vec![millions(None)]));
        groups.push((format!("{}\ngets", system.engine()), vec![millions(Some(0))]));
        groups.push((format!("{}\nA", system.engine()), vec![millions(Some(1))]));
    }
    let (keys, plot) = figure_13(settings)?;
    rows.extend(keys);
    rows.push(Row::not_measured(
        "B7",
        "puts of 16 KB values: the staging size that is best at many threads, bytes",
        256.0,
        Kind::Emulated,
        "not built yet: a switch of the sizes in which long values are stored",
    ));
    let rates = Plot {
        file: "B7-rates".into(),
        title: format!("Pairs of 8 + 8 bytes, profile {OPTANE} (emulated)"),
        y: "million a second".into(),
        shape: Shape::Bars { parts: vec!["operations".into()], groups },
    };
    Ok(Outcome { rows, plots: vec![rates, plot] })
}

/// Of each run, a rate.
type Rate = fn(&[Rates]) -> Vec<f64>;

/// What longer keys cost.
fn figure_13(settings: &Settings) -> anyhow::Result<(Vec<Row>, Plot)> {
    const PHASES: &[Phase] = &[Phase::Gets, Phase::Scans];
    let pairs = (pairs(settings) / KEYS_PART).max(1000);
    let one = Job { pairs, ..Job::new(System::Bonsai, OPTANE, PHASES, settings) };
    let jobs = KEY_BYTES.map(|key_bytes| Job { key_bytes, ..one });
    let runs = rates("B7", settings, &jobs)?;
    let kinds: [(&str, usize, Rate); 3] = [
        ("puts of new keys", 48, of_load),
        ("gets", 24, |runs| of_phase(runs, 0)),
        ("scans of 100", 24, |runs| of_phase(runs, 1)),
    ];
    let mut series = Vec::new();
    let mut rows = Vec::new();
    for (name, up_to, of) in kinds {
        let points: Vec<(f64, Interval)> = KEY_BYTES
            .iter()
            .zip(&runs)
            .map(|(bytes, runs)| {
                (*bytes as f64, Interval::of(&of(runs).iter().map(|rate| rate / 1e6).collect::<Vec<_>>()))
            })
            .collect();
        series.push((name.to_owned(), points));
        let at = |bytes: usize| {
            KEY_BYTES.iter().position(|other| *other == bytes).map_or(&[][..], |i| &runs[i][..])
        };
        for (from, to, falls) in [(KEY_BYTES[0], up_to, false), (up_to, KEY_BYTES[5], true)] {
            let ours = Interval::of_ratios(&of(at(to)), &of(at(from)));
            let (paper, holds) =
                if falls { ("below 1", ours.mean < 1.0) } else { ("about 1", ours.mean >= AS_FAST) };
            let what = format!("bonsai, {name}: keys of {to} B / of {from} B, throughput");
            rows.push(emulated("B7", what, one.setting(), paper.into(), ours, Holds::Judged(holds)));
        }
    }
    let plot = Plot {
        file: "B7-keys".into(),
        title: format!("bonsai, values of 8 bytes, scans of {SCANNED}, profile {OPTANE} (emulated)"),
        y: "million a second".into(),
        shape: Shape::Lines { x: "bytes of a key".into(), series },
    };
    Ok((rows, plot))
}
