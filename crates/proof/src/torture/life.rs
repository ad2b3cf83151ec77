//! One store's life: made under power cuts, loaded, cut off, checked, and so on with what is left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;
use terrace_engine::Durability;
use terrace_testkit::client::{RespClient, Value};
use terrace_testkit::load::{
    BRIEF_MS, Losable, Shared, Wire, Writer, check_shared, read_all, shared_keys, shared_values,
};
use terrace_testkit::rng::Rng;
use terrace_testkit::sweep::MediaKind;

use super::clock::Clocks;
use super::cut::{Cut, cut, held};
use super::plan::{Moment, Sizes};
use super::server::{Server, Serving, Stopped};
use super::tally::Tally;

/// Clients of each protocol.
const CLIENTS: usize = 3;
/// No round takes nearly as long; a server that hangs fails it.
const ROUND_WITHIN: Duration = Duration::from_secs(90);
/// A kill comes up to so long after the operation that the round aims at.
const DELAY_US_MAX: u64 = 4000;
/// Keys whose time is over leave the count within this, where keys are given a time.
const EXPIRED_WITHIN: Duration = Duration::from_secs(6);
/// Wrong keys that are listed.
const SHOWN: usize = 10;

/// What a store is, and how it is treated.
#[derive(Clone, Debug)]
pub struct Setting {
    pub engine: String,
    pub media: MediaKind,
    pub durability: Durability,
    pub sabotage: Option<String>,
}

/// A store, its writers, and what they know.
pub struct Life<'a> {
    setting: &'a Setting,
    sizes: Sizes,
    clocks: Clocks,
    /// Of the server, so far.
    starts: u64,
    places: &'a Places,
    rng: Rng,
    writers: Vec<Writer>,
    /// What the shared keys held at the end of the last round.
    shared: BTreeMap<u64, i64>,
    clock: u64,
    /// What was acknowledged by then can't have been lost, on the clock of the last round's load.
    safe_us: u64,
    last_cut: Option<Cut>,
    opened_in: Duration,
    opening_fences: u64,
    stopping_fences: u64,
}

/// The directories of a life.
pub struct Places {
    /// The store.
    pub dir: PathBuf,
    /// Its memory, if it has files as well.
    pub memory: PathBuf,
    /// Its shadows.
    pub shadows: PathBuf,
    /// The last image.
    pub images: PathBuf,
    /// What the server printed.
    pub output: PathBuf,
}

impl<'a> Life<'a> {
    pub fn new(setting: &'a Setting, places: &'a Places, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let sizes = Sizes::any(setting.media, &mut rng);
        let clocks = Clocks::any(&mut rng);
        let writer = |client| {
            let mut writer = Writer::new(client as u32, client >= CLIENTS, seed);
            if clocks != Clocks::System {
                writer.lease();
            }
            writer
        };
        let writers = (0..2 * CLIENTS).map(writer);
        Self {
            setting,
            sizes,
            clocks,
            starts: 0,
            places,
            rng,
            writers: writers.collect(),
            shared: BTreeMap::new(),
            clock: 1,
            safe_us: u64::MAX,
            last_cut: None,
            opened_in: Duration::from_millis(50),
            // A store on byte-addressable media is made with one for each log block.
            opening_fences: match setting.media {
                MediaKind::Byte => (sizes.tier >> 20) + 8,
                MediaKind::Block => 4,
                MediaKind::Tiered => (sizes.memory >> 20) + 12,
            },
            stopping_fences: 40,
        }
    }

    /// Cuts the power `cuts` times, and checks after each.
    ///
    /// # Errors
    /// What was lost or wrong.
    pub fn run(mut self, cuts: u64, tally: &Tally) -> anyhow::Result<()> {
        let end = tally.mine() + cuts;
        self.cut_opening(Moment::Creation, tally)?;
        let mut server = self.start()?;
        while tally.mine() < end {
            let moment = Moment::loaded(&mut self.rng);
            self.load(server, moment, tally).with_context(|| self.about(moment))?;
            while tally.mine() < end && self.rng.percent(20) {
                self.cut_opening(Moment::Recovery, tally).with_context(|| self.about(Moment::Recovery))?;
            }
            if self.rng.percent(10) {
                self.verify().with_context(|| self.about(moment))?;
            }
            server = self.start().with_context(|| self.about(moment))?;
            let checked = self.check(&server.1);
            checked.map_err(|error| {
                let stacks = error.downcast_ref::<std::io::Error>().map(|_| server.0.stacks());
                error.context(format!("{} {}", self.about(moment), stacks.unwrap_or_default()))
            })?;
        }
        Ok(())
    }

    fn about(&self, moment: Moment) -> String {
        format!("after a cut during {}, image {:?}, clocks {:?}", moment.name(), self.last_cut, self.clocks)
    }

    fn options(&mut self, more: Option<(&str, u64)>) -> Vec<String> {
        self.starts += 1;
        let path = |path: &Path| path.display().to_string();
        let mut options: Vec<(&str, String)> = vec![
            ("--engine", self.setting.engine.clone()),
            ("--media", self.setting.media.to_string()),
            ("--durability", self.setting.durability.to_string()),
            ("--dir", path(&self.places.dir)),
            ("--shadows", path(&self.places.shadows)),
            ("--dram-bytes", self.sizes.dram.to_string()),
            ("--tier-bytes", self.sizes.tier.to_string()),
        ];
        if self.setting.media == MediaKind::Tiered {
            options.extend([
                ("--memory", path(&self.places.memory)),
                ("--memory-bytes", self.sizes.memory.to_string()),
            ]);
        }
        match self.clocks {
            Clocks::System => {}
            Clocks::Set => options.push(("--wall-seed", self.rng.between(1, u64::MAX >> 1).to_string())),
            Clocks::Restarted => options.push(("--boot", self.starts.to_string())),
        }
        options.extend(self.setting.sabotage.clone().map(|sabotage| ("--sabotage", sabotage)));
        options.extend(more.map(|(name, value)| (name, value.to_string())));
        options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    fn start(&mut self) -> anyhow::Result<(Server, Serving)> {
        let mut server = Server::start(&self.options(None), &self.places.output)?;
        let serving = server.serving()?;
        self.opened_in = serving.opened_in;
        self.opening_fences = serving.fences.max(1);
        Ok((server, serving))
    }

    fn cut(&mut self, moment: Moment, tally: &Tally) -> anyhow::Result<()> {
        let Places { dir, memory, shadows, images, .. } = self.places;
        let store = held(self.setting.media, dir, memory);
        let cut = cut(&store, shadows, images, self.rng.next_u64())?;
        tally.cut(moment, &cut);
        self.last_cut = Some(cut);
        Ok(())
    }

    /// Starts the server and cuts it off in its opening: at a fence or sync, or at any time.
    fn cut_opening(&mut self, moment: Moment, tally: &Tally) -> anyhow::Result<()> {
        let reached = if self.rng.percent(60) {
            // The last ones make the rest count.
            let first = if self.rng.percent(50) { self.opening_fences.saturating_sub(8).max(1) } else { 1 };
            let at = self.rng.between(first, self.opening_fences);
            let mut server = Server::start(&self.options(Some(("--die-opening", at))), &self.places.output)?;
            let reached = server.ends_opening()?;
            if !reached {
                server.kill()?;
            }
            reached
        } else {
            let mut server = Server::start(&self.options(None), &self.places.output)?;
            let patience = self.rng.below(self.opened_in.as_micros() as u64 + 1000);
            std::thread::sleep(Duration::from_micros(patience));
            let reached = !server.serves_by_now();
            server.kill()?;
            reached
        };
        // It had nothing to do any more: a cut all the same.
        self.cut(if reached { moment } else { Moment::Load }, tally)
    }

    /// Loads the server and cuts it off.
    fn load(&mut self, server: (Server, Serving), moment: Moment, tally: &Tally) -> anyhow::Result<()> {
        let (mut server, serving) = server;
        let losable = match self.setting.durability {
            Durability::Batch(window) => Losable::Within(window),
            Durability::Sync | Durability::None => Losable::Nothing,
        };
        let shared = Shared::new(self.clock, moment.target(&mut self.rng), losable);
        let mut outage = None;
        if moment == Moment::Shutdown && self.rng.percent(50) {
            // It has to be told at its start when to end itself.
            server.terminate()?;
            if let Stopped::InOrder { fences } = server.stopped(None)? {
                self.stopping_fences = self.stopping_fences.max(fences);
            }
            let at = self.rng.between(1, self.stopping_fences);
            server = Server::start(&self.options(Some(("--die-stopping", at))), &self.places.output)?;
            outage = Some(server.serving()?);
        }
        let serving = outage.unwrap_or(serving);
        // All are connected before any begins: the target may be reached before a slow thread would be.
        let connect = |i| if i < CLIENTS { serving.redis() } else { serving.memcached() };
        let wires = (0..2 * CLIENTS).map(connect).collect::<std::io::Result<Vec<Wire>>>();
        let wires = wires.context("connecting to the server")?;
        let (tell, told) = mpsc::channel();
        let mut in_order = false;
        let delay = Duration::from_micros(self.rng.below(DELAY_US_MAX));
        let patience = Duration::from_micros(self.rng.below(60_000));
        let results: anyhow::Result<Vec<Result<usize, String>>> = std::thread::scope(|scope| {
            let mut clients = Vec::new();
            for (writer, wire) in self.writers.iter_mut().zip(wires) {
                let (tell, shared) = (tell.clone(), &shared);
                clients.push(scope.spawn(move || {
                    // The round may be over before the last of these.
                    let say = |what| tell.send(what).unwrap_or_default();
                    let result = writer.run(wire, shared, &|| say("target"));
                    // Before the target is reached nobody has a reason to end.
                    say("end");
                    result
                }));
            }
            let first = told.recv_timeout(ROUND_WITHIN);
            let stacks = first.is_err().then(|| server.stacks());
            // The moment is random, not right after an answer.
            std::thread::sleep(delay);
            let ended = if moment == Moment::Shutdown && first.is_ok() {
                let patience = outage.is_none().then_some(patience);
                server.terminate().and_then(|()| server.stopped(patience)).map(|stopped| {
                    in_order = matches!(stopped, Stopped::InOrder { .. });
                })
            } else {
                server.kill()
            };
            let results = clients.into_iter().map(|client| match client.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            let results: Vec<_> = results.collect();
            ended?;
            if let Some(stacks) = stacks {
                anyhow::bail!("no progress in {ROUND_WITHIN:?}; {stacks}");
            }
            anyhow::ensure!(first == Ok("target"), "the load ended early: {results:?}");
            Ok(results)
        });
        let mut unanswered = 0;
        for result in results? {
            unanswered += result.map_err(anyhow::Error::msg)?;
        }
        for writer in &mut self.writers {
            writer.crashed(&shared.clock);
        }
        // A stop in order saves everything in every mode.
        self.safe_us = if in_order { u64::MAX } else { shared.safe_us() };
        self.clock = shared.clock.into_inner();
        tally.operations(shared.acknowledged.into_inner(), unanswered as u64);
        self.cut(moment, tally)
    }

    /// The offline check must find nothing: what an outage may do is no damage.
    fn verify(&self) -> anyhow::Result<()> {
        let report = terrace::check(&self.places.dir, &Default::default())?;
        anyhow::ensure!(report.is_clean(), "the offline check finds damage:\n{report}");
        Ok(())
    }

    fn check(&mut self, serving: &Serving) -> anyhow::Result<()> {
        let (mut present, mut were_brief, mut wrong) = (0, 0, Vec::new());
        let mut writers = Vec::new();
        for (i, writer) in self.writers.iter_mut().enumerate() {
            // The other protocol than the one it was written with.
            let wire: Wire = if i < CLIENTS { serving.memcached()? } else { serving.redis()? };
            writer.wait_for_brief();
            let found = read_all(wire, &writer.ledger.keys()).context("reading after a restart")?;
            present += found.values().filter(|state| state.is_some()).count();
            were_brief += writer.take_were_brief();
            let mut settled = writer.ledger.settle(&found, self.safe_us);
            wrong.append(&mut settled.wrong);
            if wrong.is_empty() {
                writer
                    .check_leases(&mut RespClient::connect(serving.redis)?, &found)
                    .map_err(anyhow::Error::msg)?;
            }
            writers.push((std::mem::take(&mut writer.history), settled));
        }
        anyhow::ensure!(
            wrong.is_empty(),
            "lost or wrong, {} findings:\n  {}",
            wrong.len(),
            wrong[..wrong.len().min(SHOWN)].join("\n  ")
        );
        let found = read_all(serving.redis()?, &shared_keys()).context("reading after a restart")?;
        let now = shared_values(&found).map_err(anyhow::Error::msg)?;
        present += now.len();
        let before = std::mem::replace(&mut self.shared, now);
        check_shared(&writers, &before, &self.shared, self.clock, self.safe_us)
            .map_err(anyhow::Error::msg)?;
        self.clock += 100;
        let mut client = RespClient::connect(serving.redis)?;
        let begun = Instant::now();
        loop {
            let size = client.text("DBSIZE")?;
            if size == Value::Integer(present as i64) {
                return Ok(());
            }
            let may = present..=present + were_brief;
            anyhow::ensure!(
                matches!(size, Value::Integer(size) if may.contains(&(size as usize)))
                    && begun.elapsed() < EXPIRED_WITHIN,
                "DBSIZE answers {size:?}, {present} keys are there, and the time of {were_brief} was over soon"
            );
            std::thread::sleep(Duration::from_millis(BRIEF_MS));
        }
    }
}
