//! S3: threads that write, as many as there are cores.

use terrace::engine::Durability;

use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Row, Settings, Shape, shared_memory};
use super::bed::{Job, SMALL, System, rates, setting};
use crate::Distribution;

/// The paper's cores, and million writes a second of them.
const PAPER: [(usize, f64); 3] = [(1, 2.1), (4, 5.4), (10, 6.7)];

/// Numbers of threads on so many cores: powers of two, those that the paper tells of, and all.
fn counts(cores: usize) -> Vec<usize> {
    let powers = (0..usize::BITS).map(|power| 1 << power).take_while(|count| *count <= cores);
    let papers = PAPER.map(|(count, _)| count).into_iter().filter(|count| *count <= cores);
    let mut counts: Vec<usize> = powers.chain(papers).chain([cores]).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn ratio_of_paper(count: usize) -> Option<f64> {
    PAPER.iter().find(|(cores, _)| *cores == count).map(|(_, rate)| rate / PAPER[0].1)
}

/// S3.
pub(super) fn figure_10(settings: &Settings) -> anyhow::Result<Outcome> {
    let what = |count| format!("threads: {count} / 1, throughput of small uniform writes");
    if let Some(outcome) =
        shared_memory::outcome_without("S3", what(4), ratio_of_paper(4).unwrap_or(0.0), Kind::Emulated)
    {
        return Ok(outcome);
    }
    let cores = std::thread::available_parallelism()?.get();
    let counts = counts(cores);
    let system = System::Scm(Durability::Sync);
    let one = Job::new(system, SMALL, Distribution::Uniform, settings);
    let jobs: Vec<Job> = counts.iter().map(|threads| Job { threads: *threads, ..one }).collect();
    let rates = rates("S3", settings, &jobs)?;
    let setting = format!(
        "this machine has {cores} cores, the paper's 20 (two Xeon E5-2650 v3); sync; a thread in the background makes the table follow; {}",
        setting(settings, &[SMALL])
    );
    let row = |what: String, paper: Figure, ours: Interval, holds: Holds| Row {
        id: "S3",
        what,
        setting: setting.clone(),
        paper,
        ours: ours.into(),
        kind: Kind::Emulated,
        holds,
    };
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for (count, runs) in counts.iter().zip(&rates) {
        let millions = Interval::of(&runs.iter().map(|rate| rate / 1e6).collect::<Vec<_>>());
        points.push((*count as f64, millions));
        let paper = PAPER.iter().find(|(cores, _)| cores == count);
        rows.push(row(
            format!("threads: {count}, million small uniform writes a second"),
            paper.map_or(Figure::None, |(_, rate)| (*rate).into()),
            millions,
            Holds::NotJudged("rates depend on the machine".into()),
        ));
        if *count > 1 {
            let ours = Interval::of_ratios(runs, &rates[0]);
            let (paper, holds) = match ratio_of_paper(*count) {
                Some(least) => (least.into(), Holds::Judged(ours.mean >= least)),
                None => (Figure::None, Holds::NotJudged("the paper has no figure".into())),
            };
            rows.push(row(what(*count), paper, ours, holds));
        }
    }
    for (count, _) in PAPER.into_iter().filter(|(count, _)| *count > cores) {
        let paper = ratio_of_paper(count).map_or(Figure::None, Figure::Number);
        let reason = format!("this machine has {cores} cores");
        let row = Row::not_measured("S3", what(count), paper, Kind::Emulated, reason);
        rows.push(Row { setting: setting.clone(), ..row });
    }
    let plot = Plot {
        file: "S3-threads".into(),
        title: "Small uniform writes of scmkv (memory emulated by DRAM, as in the paper)".into(),
        y: "million a second".into(),
        shape: Shape::Lines { x: "threads".into(), series: vec![("scmkv, sync".into(), points)] },
    };
    // One point is no line.
    let plots = if counts.len() > 1 { vec![plot] } else { Vec::new() };
    Ok(Outcome { rows, plots })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_no_more_than_cores() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(6), [1, 2, 4, 6]);
        assert_eq!(counts(20), [1, 2, 4, 8, 10, 16, 20]);
        assert!((ratio_of_paper(4).unwrap() - 2.571).abs() < 0.001 && ratio_of_paper(2).is_none());
    }
}
