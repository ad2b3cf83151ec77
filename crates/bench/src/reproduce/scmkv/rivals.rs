//! S2: writes against an index in DRAM that keeps keys in order, and against an LSM.

use terrace::engine::Durability;

use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Row, Settings, Shape, shared_memory};
use super::bed::{DATA, DISTRIBUTIONS, Job, System, rates, setting, workload};
use super::lsm;

/// Ours that is ordered, and ours that is not.
const ORDERED: &str = "btree";
const HASHED: &str = "clht";

const SCM: System = System::Scm(Durability::Sync);

/// What the paper says of a rival: scmkv's throughput in its.
enum Claim {
    AtLeast(f64),
    Slower,
    /// What it says is no number.
    Words(&'static str),
    Nothing,
}

fn claim(rival: System, (data, workload): (&str, &str)) -> Claim {
    match (rival, data, workload) {
        (System::Dram(ORDERED), "small", "uniform") => Claim::AtLeast(2.6),
        (System::Dram(ORDERED), "large", "uniform") => Claim::AtLeast(7.0),
        (System::Dram(ORDERED), "small", _) => Claim::Slower,
        (System::Lsm, "small", "uniform") => Claim::AtLeast(10.0),
        (System::Lsm, "large", "uniform") => Claim::AtLeast(30.0),
        (System::Dram(ORDERED) | System::Lsm, "large", _) => Claim::Words("similar to uniform"),
        _ => Claim::Nothing,
    }
}

impl Claim {
    fn judge(&self, ours: f64) -> (Figure, Holds) {
        match self {
            Self::AtLeast(least) => ((*least).into(), Holds::Judged(ours >= *least)),
            Self::Slower => ("below 1".into(), Holds::Judged(ours < 1.0)),
            Self::Words(words) => {
                ((*words).into(), Holds::NotJudged("the paper says it in words, without a figure".into()))
            }
            Self::Nothing => (Figure::None, Holds::NotJudged("the paper has no figure".into())),
        }
    }
}

fn name(system: System) -> String {
    match system {
        System::Scm(durability) => format!("scmkv, {durability}"),
        System::Dram(ORDERED) => "dram, btree (for Masstree)".into(),
        System::Dram(index) => format!("dram, {index}"),
        System::Lsm => "LSM (for LevelDB)".into(),
    }
}

/// S2.
pub(super) fn figure_8(settings: &Settings) -> anyhow::Result<Outcome> {
    if let Some(outcome) = shared_memory::outcome_without(
        "S2",
        "scmkv / an ordered index in DRAM, throughput of uniform writes",
        "2.6 (small) 7 (large)",
        Kind::Emulated,
    ) {
        return Ok(outcome);
    }
    let no_lsm = lsm::missing();
    let mut systems = vec![SCM, System::Dram(ORDERED), System::Dram(HASHED)];
    if no_lsm.is_none() {
        systems.push(System::Lsm);
    }
    let cases: Vec<_> =
        DATA.into_iter().flat_map(|data| DISTRIBUTIONS.map(|distribution| (data, distribution))).collect();
    let jobs: Vec<Job> = cases
        .iter()
        .flat_map(|(data, distribution)| {
            systems.iter().map(|system| Job::new(*system, *data, *distribution, settings))
        })
        .collect();
    let rates = rates("S2", settings, &jobs)?;
    let setting = format!(
        "{}; scmkv flushes, the others keep nothing or force nothing out; LSM: {}",
        setting(settings, &DATA),
        lsm::describe()
    );
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    for (case, runs) in cases.iter().zip(rates.chunks(systems.len())) {
        let case = (case.0.name, workload(case.1));
        let what = |rival| format!("{}, {} writes: scmkv / {}, throughput", case.0, case.1, name(rival));
        for (rival, theirs) in systems.iter().zip(runs).skip(1) {
            let ours = Interval::of_ratios(&runs[0], theirs);
            let (paper, holds) = claim(*rival, case).judge(ours.mean);
            let (setting, kind) = (setting.clone(), Kind::Emulated);
            rows.push(Row { id: "S2", what: what(*rival), setting, paper, ours: ours.into(), kind, holds });
        }
        if let Some(reason) = no_lsm {
            let (paper, _) = claim(System::Lsm, case).judge(0.0);
            let row = Row::not_measured("S2", what(System::Lsm), paper, Kind::Emulated, reason);
            rows.push(Row { setting: setting.clone(), ..row });
        }
        let millions = Interval::of(&runs[0].iter().map(|rate| rate / 1e6).collect::<Vec<_>>());
        rows.push(Row {
            id: "S2",
            what: format!("{}, {} writes: {}, million a second", case.0, case.1, name(SCM)),
            setting: setting.clone(),
            // Section 4.2 has this one.
            paper: if case == ("small", "uniform") { 2.1.into() } else { Figure::None },
            ours: millions.into(),
            kind: Kind::Emulated,
            holds: Holds::NotJudged("rates depend on the machine".into()),
        });
        for (system, runs) in systems.iter().zip(runs) {
            let system = match system {
                System::Scm(_) => "scmkv",
                System::Dram(index) => index,
                System::Lsm => "LSM",
            };
            let group = format!("{system}\n{}\n{}", case.0, case.1);
            groups.push((group, vec![Interval::of(runs).mean / 1e6]));
        }
    }
    let plot = Plot {
        file: "S2-writes".into(),
        title: "Writes of one client (memory emulated by DRAM, as in the paper)".into(),
        y: "million a second".into(),
        shape: Shape::Bars { parts: vec!["writes".into()], groups },
    };
    Ok(Outcome { rows, plots: vec![plot] })
}
