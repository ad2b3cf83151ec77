//! The comparison for people.

use std::fmt;

use terrace::human_bytes;

use super::{Comparison, Figures, Row};

/// Tiers that have columns, and their heads.
const TIERS: [(&str, [&str; 2]); 2] = [("pmem", ["PMem W", "PMem R"]), ("ssd", ["SSD W", "SSD R"])];

const LEGEND: &str = "\
Figures are medians of the rounds; lowest and highest are of op/s. p50 to p99.9: us that the batch of an operation took.
DRAM B/rec: bytes of DRAM for a record, its part of the index in brackets, as the store itself counts them.
W, R: bytes written to and read from a tier, its log included, for a byte of keys and values read or written by clients.
restart: ms from opening a killed store until a get is answered. What a crash may lose: of acknowledged writes.";

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.conditions(f)?;
        let tiers = TIERS.iter().filter(|(tier, _)| self.figures().any(|row| row.tiers.contains_key(tier)));
        let tiers: Vec<_> = tiers.collect();
        let mut lines = vec![head(&tiers)];
        lines.extend(self.engines.iter().filter_map(|row| Some(line(row, row.figures.as_ref()?, &tiers))));
        writeln!(f)?;
        if lines.len() > 1 {
            aligned(f, &lines)?;
        }
        for row in &self.engines {
            if let Some(reason) = &row.stopped {
                writeln!(f, "{:WIDE$}  stopped: {reason}", row.engine)?;
            }
        }
        if lines.len() > 1 {
            writeln!(f, "\n{LEGEND}")?;
        }
        if !self.left_out.is_empty() {
            writeln!(f, "\nleft out:")?;
        }
        for out in &self.left_out {
            writeln!(f, "{:WIDE$}  {}", out.engine, out.reason)?;
        }
        for row in &self.engines {
            if row.figures.as_ref().is_some_and(|figures| !figures.is_sound) {
                writeln!(f, "\n{} GAVE WRONG ANSWERS, or lost what it had promised to keep", row.engine)?;
            }
        }
        Ok(())
    }
}

impl Comparison {
    fn conditions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "workload {}: {} records, {} operations, {} threads; engines in turns, each in a new store; rounds: {}",
            self.workload, self.records, self.operations, self.threads, self.rounds
        )?;
        let options = &self.options;
        writeln!(
            f,
            "{} + {} bytes, {}, batches of {}, durability {}, seeds from {}; index {}, or the engine's own",
            options.key_bytes,
            options.value_bytes,
            options.distribution,
            options.batch,
            options.durability,
            options.seed,
            self.index
        )?;
        for (flag, bytes) in [("--dram", options.dram), ("--dram-records", options.dram_records)] {
            let Some(bytes) = bytes else { continue };
            writeln!(f, "dram  {} for each engine ({flag})", human_bytes(bytes))?;
        }
        for (name, bytes) in [("pmem", options.pmem), ("ssd", options.ssd)] {
            let Some(bytes) = bytes else { continue };
            let medium = self.figures().find_map(|figures| figures.tiers.get(name));
            let medium = medium.map_or_else(String::new, |tier| format!(": {}", tier.medium));
            writeln!(f, "{name:4}  {}{medium}", human_bytes(bytes))?;
        }
        if let Some(profile) = options.profile.as_ref().filter(|_| options.pmem.is_some()) {
            writeln!(
                f,
                "EMULATED: pmem is memory that waits as {profile} would; times and promises are the emulation's"
            )?;
        }
        Ok(())
    }
}

/// Of the longest engine's name.
const WIDE: usize = 15;
/// Columns at the end that are words, and to the left.
const WORDS: usize = 2;

fn head(tiers: &[&(&str, [&str; 2])]) -> Vec<String> {
    let mut cells = vec!["engine", "op/s", "lowest", "highest", "p50", "p99", "p99.9", "DRAM B/rec"];
    cells.extend(tiers.iter().flat_map(|(_, heads)| heads));
    cells.extend(["restart", "a kill may lose", "power loss may lose"]);
    cells.into_iter().map(str::to_owned).collect()
}

fn line(row: &Row, figures: &Figures, tiers: &[&(&str, [&str; 2])]) -> Vec<String> {
    let whole = |figure: f64| format!("{figure:.0}");
    let us = |ns: f64| whole(ns / 1000.0);
    let of_rounds = || figures.ops_per_second_of_rounds.iter().copied();
    let none = || "-".to_owned();
    let mut cells = vec![
        row.engine.clone(),
        whole(figures.ops_per_second),
        whole(of_rounds().fold(f64::INFINITY, f64::min)),
        whole(of_rounds().fold(0.0, f64::max)),
        us(figures.latency_ns.p50),
        us(figures.latency_ns.p99),
        us(figures.latency_ns.p999),
        format!("{:.1} ({:.1})", figures.dram_bytes_per_record, figures.index_bytes_per_record),
    ];
    for (tier, _) in tiers {
        match figures.tiers.get(tier) {
            Some(tier) => cells.extend(
                [tier.written_per_client_byte, tier.read_per_client_byte].map(|bytes| format!("{bytes:.2}")),
            ),
            None => cells.extend([none(), none()]),
        }
    }
    cells.extend([
        figures.restart.map_or_else(none, |found| whole(1000.0 * found.first_answer_seconds)),
        figures.may_lose.killed.clone(),
        figures.may_lose.power.clone(),
    ]);
    cells
}

/// Writes lines of the same columns: the first and the last ones to the left, numbers to the right.
fn aligned(f: &mut fmt::Formatter<'_>, lines: &[Vec<String>]) -> fmt::Result {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let mut text = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            match column {
                0 => text.push_str(&format!("{cell:WIDE$}")),
                words if words + WORDS >= columns => text.push_str(&format!("  {cell:width$}")),
                _ => text.push_str(&format!("  {cell:>width$}")),
            }
        }
        writeln!(f, "{}", text.trim_end())?;
    }
    Ok(())
}
