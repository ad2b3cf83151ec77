//! What was measured, for people.

use std::fmt::Write;

/// One run of one server on one workload.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Run {
    pub server: String,
    pub workload: String,
    pub ops_per_second: f64,
    pub load_seconds: f64,
    pub get_p99_ms: f64,
    pub set_p99_ms: f64,
    /// Gets of loaded keys that found nothing: what the server has forgotten.
    pub miss_percent: f64,
    /// Values that were not what was written.
    pub wrong: u64,
    /// From the device, an operation.
    pub read_bytes_an_operation: f64,
    /// To the device, by whomever, a record loaded or operation.
    pub written_bytes_an_operation: f64,
    pub anonymous_mib: f64,
}

impl Run {
    /// One line.
    pub fn line(&self) -> String {
        format!(
            "{:13} {:3} {:9.0} ops/s  load {:6.2} s  p99 get {:7.2} ms set {:7.2} ms  misses {:5.2}%  wrong {}  read {:6.0} B/op  \
             written {:6.0} B/op  anon {:6.0} MiB",
            self.server,
            self.workload,
            self.ops_per_second,
            self.load_seconds,
            self.get_p99_ms,
            self.set_p99_ms,
            self.miss_percent,
            self.wrong,
            self.read_bytes_an_operation,
            self.written_bytes_an_operation,
            self.anonymous_mib,
        )
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Medians over the rounds, and how the first server's throughput compares.
pub fn table(runs: &[Run]) -> String {
    let mut text = String::from(
        "\n| workload | server | ops/s | first / this | p99 get | p99 set | misses | read B/op | written B/op | anon MiB | load s |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut groups: Vec<(&str, &str)> = Vec::new();
    for run in runs {
        if !groups.contains(&(&run.workload, &run.server)) {
            groups.push((&run.workload, &run.server));
        }
    }
    let of = |group: (&str, &str), what: fn(&Run) -> f64| {
        median(runs.iter().filter(|run| (&*run.workload, &*run.server) == group).map(what).collect())
    };
    for &group in &groups {
        let first = groups.iter().find(|other| other.0 == group.0).copied().unwrap_or(group);
        let ops = of(group, |run| run.ops_per_second);
        let _ = writeln!(
            text,
            "| {} | {} | {ops:.0} | {:.2} | {:.2} ms | {:.2} ms | {:.2}% | {:.0} | {:.0} | {:.0} | {:.2} |",
            group.0,
            group.1,
            of(first, |run| run.ops_per_second) / ops,
            of(group, |run| run.get_p99_ms),
            of(group, |run| run.set_p99_ms),
            of(group, |run| run.miss_percent),
            of(group, |run| run.read_bytes_an_operation),
            of(group, |run| run.written_bytes_an_operation),
            of(group, |run| run.anonymous_mib),
            of(group, |run| run.load_seconds),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        let run = |server: &str, ops_per_second| Run {
            server: server.into(),
            workload: "ro".into(),
            ops_per_second,
            load_seconds: 1.0,
            get_p99_ms: 2.0,
            set_p99_ms: f64::NAN,
            miss_percent: 0.0,
            wrong: 0,
            read_bytes_an_operation: 0.0,
            written_bytes_an_operation: 0.0,
            anonymous_mib: 1.0,
        };
        let text = table(&[
            run("a", 30.0),
            run("b", 10.0),
            run("a", 60.0),
            run("b", 20.0),
            run("a", 50.0),
            run("b", 25.0),
        ]);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| ro")).collect();
        assert!(
            lines[0].starts_with("| ro | a | 50 | 1.00 |") && lines[1].starts_with("| ro | b | 20 | 2.50 |"),
            "{text}"
        );
    }
}
