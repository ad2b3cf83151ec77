//! The report for people.

use std::fmt;

use super::{Report, Row};

/// Texts wider than this go on in the next line.
const WIDE: usize = 62;
/// The same for the paper's figures.
const PAPER: usize = 22;
/// And for ours.
const OURS: usize = 38;

/// Breaks a text into lines at its spaces.
fn broken(text: &str, wide: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= wide {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn write_row(f: &mut fmt::Formatter<'_>, row: &Row, holds: &str) -> fmt::Result {
    let what = broken(&row.what, WIDE);
    let (paper, ours) = (broken(&row.paper.to_string(), PAPER), broken(&row.ours.to_string(), OURS));
    for line in 0..what.len().max(paper.len()).max(ours.len()) {
        let of = |lines: &[String]| lines.get(line).cloned().unwrap_or_default();
        let first = |text| if line == 0 { text } else { "" };
        let text = format!(
            "{:3} {:WIDE$}  {:PAPER$}  {:OURS$}  {:13}  {}",
            first(row.id),
            of(&what),
            of(&paper),
            of(&ours),
            first(row.kind.name()),
            first(holds)
        );
        writeln!(f, "{}", text.trim_end())?;
    }
    Ok(())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.about)?;
        let head = format!(
            "{:3} {:WIDE$}  {:PAPER$}  {:OURS$}  {:13}  holds",
            "", "what", "paper", "ours, ± 95% interval", "kind"
        );
        writeln!(f, "{head}")?;
        let mut reasons: Vec<&str> = Vec::new();
        for rows in self.rows.chunk_by(|a, b| a.id == b.id) {
            writeln!(f, "{}", "-".repeat(head.chars().count()))?;
            let mut setting = "";
            for row in rows {
                if row.setting != setting {
                    setting = &row.setting;
                    if !setting.is_empty() {
                        broken(setting, WIDE)
                            .iter()
                            .try_for_each(|line| writeln!(f, "{:3} [{line}]", row.id))?;
                    }
                }
                let holds = match row.holds.reason() {
                    None => row.holds.name().to_owned(),
                    Some(reason) => {
                        let at = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
                            reasons.push(reason);
                            reasons.len() - 1
                        });
                        format!("{} ({})", row.holds.name(), at + 1)
                    }
                };
                write_row(f, row, &holds)?;
            }
        }
        writeln!(f)?;
        for (i, reason) in reasons.iter().enumerate() {
            writeln!(f, "({}) {reason}", i + 1)?;
        }
        let count = self.count();
        writeln!(
            f,
            "\n{}: {} rows: {} hold, {} do not, {} not judged, {} not measured; scale {}, {} runs from seed {}, {:.0} s ({})",
            self.study,
            self.rows.len(),
            count.hold,
            count.do_not,
            count.not_judged,
            count.not_measured,
            self.settings.scale,
            self.settings.runs,
            self.settings.seed,
            self.total_seconds(),
            self.seconds
                .iter()
                .map(|(id, seconds)| format!("{id} {seconds:.0}"))
                .collect::<Vec<_>>()
                .join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Holds, Kind, Settings};
    use super::*;

    #[test]
    fn paper_and_ours_stand_side_by_side() {
        let report = Report {
            rows: vec![
                Row {
                    id: "T1",
                    what: "hits of DRAM in percent of all gets, of a setting whose description is long"
                        .into(),
                    setting: "RH, ycsb".into(),
                    paper: 61.4.into(),
                    ours: 59.0.into(),
                    kind: Kind::Simulated,
                    holds: Holds::Judged(false),
                },
                Row::not_measured("T2", "speed", "at least 1.48", Kind::Emulated, "no engine"),
                Row::not_measured("T2", "latency", 2.0, Kind::Emulated, "no engine"),
            ],
            plots: Vec::new(),
            study: "x",
            about: "A paper",
            settings: Settings { scale: 1.0, runs: 5, seed: 1, threads: 2 },
            seconds: vec![("T1", 1.2), ("T2", 0.9)],
        };
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().collect();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(lines[4]), ["T1", "[RH,", "ycsb]"]);
        assert_eq!(words(lines[5])[words(lines[5]).len() - 4..], ["61.40", "59.00", "simulated", "no"]);
        assert_eq!(words(lines[6]), ["description", "is", "long"]);
        assert_eq!(words(lines[8]), ["T2", "speed", "at", "least", "1.48", "-", "emulated", "n/a", "(1)"]);
        assert!(text.contains("\n(1) no engine\n") && !text.contains("(2)"), "{text}");
        assert_eq!(
            *lines.last().unwrap(),
            "x: 3 rows: 0 hold, 1 do not, 0 not judged, 2 not measured; scale 1, 5 runs from seed 1, 2 s (T1 1, T2 1)"
        );
    }
}
