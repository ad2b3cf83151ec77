//! The report for people.

use std::fmt;

use super::{Report, Row};

const OPERATIONS: [&str; 6] = ["load", "get", "get_batch", "mix_95_5", "mix_50_50", "scan"];

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        writeln!(
            f,
            "millions of operations a second; {} records of 64 bytes, batches of {}, scans of 100, {} operations a thread, seed {}",
            options.records, options.batch, options.operations, options.seed
        )?;
        let same = |a: &Row, b: &Row| {
            (a.key_bytes, &a.distribution, a.threads) == (b.key_bytes, &b.distribution, b.threads)
        };
        let mut seen: Vec<&Row> = Vec::new();
        for first in &self.rows {
            if seen.iter().any(|row| same(row, first)) {
                continue;
            }
            seen.push(first);
            writeln!(
                f,
                "\nkeys of {} bytes, {}, {} thread{}\n{:12}{:>9}{:>9}{:>11}{:>10}{:>11}{:>8}{:>14}",
                first.key_bytes,
                first.distribution,
                first.threads,
                if first.threads == 1 { "" } else { "s" },
                "index",
                "load",
                "get",
                "get batch",
                "mix 95/5",
                "mix 50/50",
                "scan",
                "bytes/entry"
            )?;
            for name in &options.indexes {
                let of = |operation| {
                    self.rows
                        .iter()
                        .find(|row| row.index == name && same(row, first) && row.operation == operation)
                };
                let cell = |i: usize| of(OPERATIONS[i]).map_or("-".into(), |row| format!("{:.2}", row.mops));
                let bytes = of("load").map_or(0.0, |row| row.bytes_per_entry);
                writeln!(
                    f,
                    "{name:12}{:>9}{:>9}{:>11}{:>10}{:>11}{:>8}{bytes:>14.1}",
                    cell(0),
                    cell(1),
                    cell(2),
                    cell(3),
                    cell(4),
                    cell(5)
                )?;
            }
        }
        Ok(())
    }
}
