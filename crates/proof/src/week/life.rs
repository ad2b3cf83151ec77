//! One week: a workload lived on a setting, with all that happens in between.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;

use super::client::{Answer, Ask, Client};
use super::disk::Probe;
use super::economy::{Economy, Stall};
use super::expected::{Expected, Judged, write_value};
use super::random::{Popularity, Random};
use super::server::{End, Server};
use super::setting::Setting;
use super::workload::Workload;

/// Questions that are sent together.
const PIPELINE: usize = 16;
/// Bytes that a pipeline sends at most, so that it measures a server and not a socket.
const PIPELINE_BYTES: usize = 1 << 20;
/// A record's bytes beside key and value, about.
const RECORD_BYTES: f64 = 40.0;
/// DRAM for each key that is not in DRAM, at most; a week has no more keys than an eighth of DRAM indexes so.
const INDEX_BYTES: u64 = 20;
/// Of the tier, what lives in ordinary phases and when it is nearly full.
const LIVE: f64 = 0.55;
const NEARLY_FULL: f64 = 0.80;
/// More than it holds.
const OVERFULL: f64 = 1.3;
/// Counts must be exact so long after a deadline.
const COUNTED_WITHIN: Duration = Duration::from_secs(5);

/// Every answer that takes this long is judged; of the others, the longest.
const STALL: Duration = Duration::from_millis(50);

/// Longer than a client waits.
const LATENCY_US_MAX: u64 = 10 * 60 * 1_000_000;

/// Where and for how long.
pub struct Place {
    pub terrace: PathBuf,
    pub dir: PathBuf,
    pub memory: PathBuf,
    pub seed: u64,
    pub length: Duration,
}

/// A week under way.
struct Life<'a> {
    place: &'a Place,
    setting: &'a Setting,
    workload: &'a Workload,
    server: Option<Server>,
    client: Client,
    disk: Probe,
    /// What took longer than most, when it began and ended: the disk's part of it is known only later.
    stalls: Vec<(Instant, Instant, String)>,
    expected: Expected,
    popularity: Popularity,
    random: Random,
    /// How far the hot set has moved.
    moved: u32,
    economy: Economy,
    calm: Histogram<u64>,
    busy: Histogram<u64>,
    is_calm: bool,
    /// What is done just now.
    phase: &'static str,
    /// The tier is filled on purpose: a refusal is no fault, and there was one.
    fills_up: bool,
    is_full: bool,
}

/// Lives a week.
///
/// # Errors
/// If the server does not start, ends, hangs, or answers nonsense. What is merely wrong is counted.
pub fn live(place: &Place, setting: &Setting, workload: &Workload) -> anyhow::Result<Economy> {
    let server = Server::start(&place.terrace, setting, &place.dir, &place.memory)?;
    let client = Client::connect(server.address, setting.speaks)?;
    let record = workload.mean_value_bytes() + workload.key_bytes as f64 + RECORD_BYTES;
    let indexed = (setting.dram_mib << 20) / 3 / INDEX_BYTES;
    let keys_of = |share: f64| {
        let most = ((setting.tier_mib << 20) as f64 * share / record) as u64;
        most.min(indexed).max(16) as u32
    };
    let (keys, keys_in_all) = (keys_of(NEARLY_FULL), keys_of(OVERFULL));
    let mut life = Life {
        place,
        setting,
        workload,
        server: Some(server),
        client,
        disk: Probe::of(&place.dir)?,
        stalls: Vec::new(),
        expected: Expected::new(keys_in_all, setting.evicts),
        popularity: Popularity::new(keys, workload.zipf),
        random: Random::new(place.seed),
        moved: 0,
        economy: Economy::default(),
        calm: latencies()?,
        busy: latencies()?,
        is_calm: true,
        phase: "",
        fills_up: false,
        is_full: false,
    };
    life.week()?;
    life.stop(End::Ordered)?;
    let mut economy = life.economy;
    for (from, until, during) in life.stalls {
        let micros = |time: Duration| time.as_micros() as u64;
        let silent_us = micros(life.disk.silent(from, until));
        economy.stalled(&Stall { took_us: micros(until - from), silent_us, during });
    }
    economy.calm_p99_us = life.calm.value_at_quantile(0.99);
    economy.p99_us = life.busy.value_at_quantile(0.99);
    Ok(economy)
}

impl Life<'_> {
    /// The days, in the order in which trouble builds up.
    fn week(&mut self) -> anyhow::Result<()> {
        let day = self.place.length / 8;
        self.during("filling", |life| life.fill(LIVE))?;
        self.during("a calm day", |life| life.churn(day))?;
        self.is_calm = false;
        self.during("a restart in order", |life| life.restart(End::Ordered))?;
        self.during("the day after a restart", |life| life.churn(day))?;
        self.during("a restart after a kill", |life| life.restart(End::Killed))?;
        self.during("the day after a kill", |life| life.churn(day))?;
        self.during("a smaller store", |life| life.resize(7, 8))?;
        self.during("the day of a smaller store", |life| life.churn(day))?;
        self.during("a larger store", |life| life.resize(1, 1))?;
        self.during("mass deletes", Life::delete_a_third)?;
        self.during("the day after mass deletes", |life| life.churn(day))?;
        self.during("filling up", |life| life.fill(NEARLY_FULL))?;
        self.during("a nearly full day", |life| life.churn(day))?;
        self.during("a kill of a nearly full store", |life| life.restart(End::Killed))?;
        self.during("counting", Life::count)?;
        self.during("reading all", Life::read_all)?;
        self.during("filling up until it refuses", Life::fill_up)?;
        self.during("reading all of a full store", Life::read_all)
    }

    /// One part of it, by its name.
    fn during(
        &mut self,
        phase: &'static str,
        part: impl FnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.phase = phase;
        part(self).context(phase)
    }

    /// New keys until one is refused: what lives then is what can live.
    fn fill_up(&mut self) -> anyhow::Result<()> {
        if self.setting.evicts || self.setting.tier.is_none() {
            return Ok(());
        }
        let beside = self.workload.key_bytes as u64 + RECORD_BYTES as u64;
        self.fills_up = true;
        let mut next = 0;
        while !self.is_full && next < self.expected.keys() {
            if !self.expected.holds(next) {
                let plan = self.plan_write(next);
                self.pipeline(&[plan])?;
            }
            next += 1;
        }
        self.fills_up = false;
        let all = (self.setting.tier_mib << 20) as f64;
        self.economy.live_share = Some(self.live_bytes(beside) as f64 / all).filter(|_| self.is_full);
        Ok(())
    }

    /// New keys until so much of the tier lives.
    fn fill(&mut self, share: f64) -> anyhow::Result<()> {
        let enough = ((self.setting.tier_mib << 20) as f64 * share) as u64;
        // What a record takes beside its value is not the client's to know; values alone would overfill small ones.
        let beside = self.workload.key_bytes as u64 + RECORD_BYTES as u64;
        let keys = self.expected.keys();
        let mut live = self.live_bytes(beside);
        let mut next = 0;
        while live < enough && next < keys {
            let mut batch = Vec::new();
            while batch.len() < PIPELINE && next < keys {
                if !self.expected.holds(next) {
                    batch.push(next);
                }
                next += 1;
            }
            let plans: Vec<Plan> = batch.iter().map(|&key| self.plan_write(key)).collect();
            live += plans.iter().map(|plan| plan.bytes() + beside).sum::<u64>();
            self.pipelines(plans)?;
        }
        Ok(())
    }

    fn live_bytes(&self, beside: u64) -> u64 {
        let now = Instant::now();
        self.expected.live_bytes(now) + self.expected.count(now).1 * beside
    }

    /// The workload's operations for so long; its hot set moves on a little all the time.
    fn churn(&mut self, length: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + length;
        let beside = self.workload.key_bytes as u64 + RECORD_BYTES as u64;
        let enough = ((self.setting.tier_mib << 20) as f64 * NEARLY_FULL) as u64;
        let mut room = enough.saturating_sub(self.live_bytes(beside));
        let mut rounds = 0u32;
        while Instant::now() < until {
            rounds += 1;
            if rounds.is_multiple_of(256) {
                self.moved += 1;
                room = enough.saturating_sub(self.live_bytes(beside));
            }
            let mut plans = Vec::new();
            for _ in 0..PIPELINE {
                let key = self.popularity.draw(&mut self.random, self.moved);
                let at = self.random.unit();
                plans.push(if at < self.workload.reads {
                    Plan::Get(key)
                } else if at < self.workload.reads + self.workload.deletes {
                    Plan::Delete(key)
                } else {
                    let plan = self.plan_write(key);
                    if !self.expected.holds(key) {
                        if room < plan.bytes() + beside {
                            // A store may not be filled beyond what its tier is promised to take.
                            plans.push(Plan::Get(key));
                            continue;
                        }
                        room -= plan.bytes() + beside;
                    }
                    plan
                });
            }
            self.pipelines(plans)?;
        }
        Ok(())
    }

    fn plan_write(&mut self, key: u32) -> Plan {
        let bytes = self.workload.value_bytes(&mut self.random);
        let ttl = self.workload.ttl(&mut self.random);
        Plan::Set { key, version: self.expected.version(), bytes, ttl }
    }

    fn delete_a_third(&mut self) -> anyhow::Result<()> {
        let doomed: Vec<u32> = (0..self.expected.keys()).filter(|key| key % 3 == 0).collect();
        for batch in doomed.chunks(PIPELINE) {
            self.pipelines(batch.iter().map(|&key| Plan::Delete(key)).collect())?;
        }
        Ok(())
    }

    fn read_all(&mut self) -> anyhow::Result<()> {
        let keys: Vec<u32> = (0..self.expected.keys()).collect();
        for batch in keys.chunks(PIPELINE) {
            self.pipelines(batch.iter().map(|&key| Plan::Get(key)).collect())?;
        }
        Ok(())
    }

    /// The count must come to be what was written, deleted and has ended.
    fn count(&mut self) -> anyhow::Result<()> {
        if self.setting.evicts {
            return Ok(());
        }
        let from = Instant::now();
        loop {
            let before = Instant::now();
            let counted = self.client.keys()?;
            let (must, _) = self.expected.count(Instant::now());
            let (_, may) = self.expected.count(before.checked_sub(COUNTED_WITHIN).unwrap_or(before));
            if (must..=may).contains(&counted) {
                return Ok(());
            }
            if from.elapsed() > COUNTED_WITHIN {
                self.economy.miscounted += counted.abs_diff(counted.clamp(must, may));
                return Ok(());
            }
            // Expiry works in the background.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The tier (without one, nothing) is made this share of what it was.
    fn resize(&mut self, of: u64, in_all: u64) -> anyhow::Result<()> {
        let Some(tier) = self.setting.tier else { return Ok(()) };
        let mib = self.setting.tier_mib * of / in_all;
        let dram = self.setting.dram_mib * of / in_all;
        if self.client.administer(&format!("CONFIG SET {tier}-size {mib}MiB")).is_err() {
            // hetermm's tier keeps its size: it says so, and goes on.
            self.economy.resizes_refused += 1;
        }
        if self.client.administer(&format!("CONFIG SET maxmemory {}", dram << 20)).is_err() {
            self.economy.resizes_refused += 1;
        }
        Ok(())
    }

    fn restart(&mut self, how: End) -> anyhow::Result<()> {
        self.stop(how)?;
        let began = Instant::now();
        let server = Server::start(&self.place.terrace, self.setting, &self.place.dir, &self.place.memory)?;
        self.economy.restart_ms = self.economy.restart_ms.max(began.elapsed().as_millis() as u64);
        self.client = Client::connect(server.address, self.setting.speaks)?;
        self.server = Some(server);
        if !self.setting.keeps {
            self.expected.emptied();
            self.fill(LIVE)?;
        }
        Ok(())
    }

    fn stop(&mut self, how: End) -> anyhow::Result<()> {
        if let Some(server) = self.server.take() {
            self.economy.measure(&server)?;
            // memcached's protocol has no such page, nor its setting either medium.
            if let Ok(info) = self.client.administer("INFO everything") {
                self.economy.measure_media(&info);
            }
            server.end(how)?;
        }
        Ok(())
    }

    /// Carries these out, as many at a time as a pipeline takes.
    fn pipelines(&mut self, plans: Vec<Plan>) -> anyhow::Result<()> {
        let mut part = Vec::new();
        let mut bytes = 0;
        for plan in plans {
            bytes += plan.bytes() as usize;
            part.push(plan);
            if bytes >= PIPELINE_BYTES {
                self.pipeline(&part)?;
                part.clear();
                bytes = 0;
            }
        }
        self.pipeline(&part)
    }

    fn pipeline(&mut self, plans: &[Plan]) -> anyhow::Result<()> {
        if plans.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = plans.iter().map(|plan| self.workload.key(plan.key())).collect();
        let values: Vec<Vec<u8>> = plans.iter().map(Plan::value).collect();
        let asks: Vec<Ask<'_>> = plans
            .iter()
            .zip(keys.iter().zip(&values))
            .map(|(plan, (key, value))| match plan {
                Plan::Get(_) => Ask::Get(key),
                Plan::Delete(_) => Ask::Delete(key),
                Plan::Set { ttl, .. } => Ask::Set(key, value, *ttl),
            })
            .collect();
        let sent = Instant::now();
        asks.iter().for_each(|ask| self.client.queue(ask));
        self.client.flush()?;
        let mut slowest = Slowest::default();
        let mut before = sent;
        for (at, (plan, ask)) in plans.iter().zip(&asks).enumerate() {
            let answer = self.client.receive(ask)?;
            let now = Instant::now();
            slowest.see(now - before, at, answer.bytes());
            self.judge(plan, &answer, (sent, now));
            before = now;
        }
        if self.fills_up {
            // A refusal is given once it is sure that nothing becomes free.
            return Ok(());
        }
        let latencies = if self.is_calm { &mut self.calm } else { &mut self.busy };
        let took = before - sent;
        latencies.saturating_record(took.as_micros() as u64);
        let is_longest = self.stalls.iter().all(|(from, until, _)| took > *until - *from);
        if is_longest || took >= STALL {
            self.stalls.push((sent, before, format!("{}, {}", self.phase, slowest.among(plans))));
        }
        Ok(())
    }

    fn judge(&mut self, plan: &Plan, answer: &Answer, within: (Instant, Instant)) {
        let economy = &mut self.economy;
        economy.operations += 1;
        match (plan, answer) {
            (Plan::Get(key), Answer::Value(value)) => {
                economy.client_read += value.as_ref().map_or(0, |value| value.len() as u64);
                match self.expected.judge(*key, value.as_deref(), within) {
                    Judged::Right => {}
                    Judged::Missed => economy.missed += 1,
                    Judged::Wrong => economy.wrong += 1,
                }
            }
            (Plan::Set { key, version, bytes, ttl }, Answer::Stored) => {
                economy.client_written += *bytes as u64 + self.workload.key_bytes as u64;
                self.expected.stored(*key, *version, *bytes, *ttl, within);
            }
            (Plan::Delete(key), Answer::Deleted) => self.expected.deleted(*key),
            (Plan::Set { .. }, Answer::Refused(text)) if self.fills_up => {
                self.is_full = true;
                economy.full_as.clone_from(text);
            }
            (_, Answer::Refused(text)) => {
                economy.refused += 1;
                if economy.first_refusal.is_empty() {
                    economy.first_refusal.clone_from(text);
                }
            }
            _ => economy.wrong += 1,
        }
    }
}

/// Of a pipeline's answers, the one that came longest after the one before it.
#[derive(Default)]
struct Slowest {
    after: Duration,
    at: usize,
    answer_bytes: usize,
}

impl Slowest {
    fn see(&mut self, after: Duration, at: usize, answer_bytes: usize) {
        if after > self.after {
            *self = Self { after, at, answer_bytes };
        }
    }

    /// It, in words.
    fn among(&self, plans: &[Plan]) -> String {
        let of = plans.len();
        let asked = match plans.get(self.at) {
            Some(Plan::Get(_)) => format!("a read of {} bytes", self.answer_bytes),
            Some(Plan::Set { bytes, .. }) => format!("a write of {bytes} bytes"),
            Some(Plan::Delete(_)) => "a delete".into(),
            None => "nothing".into(),
        };
        format!("{} ms of it for {asked}, number {} of {of}", self.after.as_millis(), self.at + 1)
    }
}

/// Microseconds that answers take, to the longest that a client waits for one.
fn latencies() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?)
}

/// An operation to come.
enum Plan {
    Get(u32),
    Delete(u32),
    Set { key: u32, version: u32, bytes: usize, ttl: Option<Duration> },
}

impl Plan {
    fn key(&self) -> u32 {
        match self {
            Self::Get(key) | Self::Delete(key) | Self::Set { key, .. } => *key,
        }
    }
    fn bytes(&self) -> u64 {
        if let Self::Set { bytes, .. } = self { *bytes as u64 } else { 0 }
    }
    fn value(&self) -> Vec<u8> {
        let mut value = Vec::new();
        if let Self::Set { key, version, bytes, .. } = self {
            write_value(*key, *version, *bytes, &mut value);
        }
        value
    }
}

/// A directory of its own for a week, gone at the end.
///
/// # Errors
/// If it can't be made.
pub fn directory(under: &Path) -> anyhow::Result<tempfile::TempDir> {
    std::fs::create_dir_all(under)?;
    tempfile::Builder::new()
        .prefix("terrace-week-")
        .tempdir_in(under)
        .context("making a directory for a week")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A histogram that grows by itself does not when it is to saturate: all that was longer than two milliseconds was two.
    #[test]
    fn a_long_stall_is_not_a_short_one() {
        let mut latencies = latencies().unwrap();
        latencies.saturating_record(30_000_000);
        assert!(latencies.max() >= 29_900_000, "{}", latencies.max());
    }
}
