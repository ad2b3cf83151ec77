//! Published workloads, read from `workloads.toml`: sizes, times to live, popularity and shares of operations.

use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;

use super::random::Random;

/// One of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub name: String,
    pub key_bytes: usize,
    values: Vec<Values>,
    ttls: Vec<Ttl>,
    faster: f64,
    pub reads: f64,
    pub writes: f64,
    pub deletes: f64,
    pub zipf: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    share: f64,
    least: usize,
    most: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ttl {
    share: f64,
    seconds: f64,
}

#[derive(Deserialize)]
struct File {
    workload: Vec<Workload>,
}

/// All of them.
///
/// # Errors
/// If the file is no list of workloads, or a workload's shares of operations don't add up to 1.
pub fn all() -> anyhow::Result<Vec<Workload>> {
    let file: File = toml::from_str(include_str!("workloads.toml")).context("reading workloads.toml")?;
    for workload in &file.workload {
        let sum = workload.reads + workload.writes + workload.deletes;
        let sizes: f64 = workload.values.iter().map(|values| values.share).sum();
        anyhow::ensure!((sum - 1.0).abs() < 1e-9, "{}: operations add up to {sum}", workload.name);
        anyhow::ensure!((sizes - 1.0).abs() < 1e-9, "{}: values add up to {sizes}", workload.name);
        anyhow::ensure!(workload.key_bytes >= 16, "{}: keys have 16 bytes at least", workload.name);
    }
    Ok(file.workload)
}

impl Workload {
    /// The length of a new value.
    pub fn value_bytes(&self, random: &mut Random) -> usize {
        let mut at = random.unit();
        for values in &self.values {
            if at < values.share {
                return values.least + random.below((values.most - values.least + 1) as u64) as usize;
            }
            at -= values.share;
        }
        self.values.last().map_or(0, |values| values.most)
    }

    /// The mean of those lengths.
    pub fn mean_value_bytes(&self) -> f64 {
        self.values.iter().map(|values| values.share * (values.least + values.most) as f64 / 2.0).sum()
    }

    /// How long a new value lives; `None`: until it is deleted. Whole seconds, for memcached knows no others.
    pub fn ttl(&self, random: &mut Random) -> Option<Duration> {
        let mut at = random.unit();
        for ttl in &self.ttls {
            if at < ttl.share {
                return Some(Duration::from_secs((ttl.seconds / self.faster).ceil() as u64));
            }
            at -= ttl.share;
        }
        None
    }

    /// The key of a number.
    pub fn key(&self, number: u32) -> String {
        format!("{number:0>width$}", width = self.key_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_draws_what_its_table_says() {
        for workload in all().unwrap() {
            let mut random = Random::new(7);
            let drawn: f64 = (0..20_000).map(|_| workload.value_bytes(&mut random) as f64).sum();
            let mean = workload.mean_value_bytes();
            assert!((drawn / 20_000.0 / mean - 1.0).abs() < 0.1, "{}", workload.name);
            assert_eq!(workload.key(7).len(), workload.key_bytes);
        }
    }
}
