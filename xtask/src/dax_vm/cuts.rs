//! Power cuts: boot, check what the last cut left, write, cut, again.
//!
//! The guest forgets everything; what it had acknowledged is known here, from its console. A cut comes at a random
//! acknowledgement or time under load, while the server opens the store (recovery itself is cut off), or while it stops.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::image::Image;
use super::job::{self, Fs};
use super::machine::{Event, Machine, Runner};
use super::random::Random;

/// Clients in the guest.
const CLIENTS: usize = 4;

/// When the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// So long after the server began to open the store.
    Opening(Duration),
    /// At this line about an acknowledgement.
    Acknowledgement(u64),
    /// So long after the writing began.
    Load(Duration),
    /// So long after the server was told to stop, which it is after so many writes.
    Stopping(u64, Duration),
}

impl Moment {
    fn choose(random: &mut Random) -> Self {
        let ms = |random: &mut Random, most| Duration::from_millis(random.below(most));
        match random.below(100) {
            0..15 => Self::Opening(ms(random, 1_500)),
            15..60 => Self::Acknowledgement(1 + random.below(150)),
            60..85 => Self::Load(ms(random, 4_000)),
            _ => Self::Stopping(50 + random.below(800), ms(random, 500)),
        }
    }
}

/// A store under power cuts.
pub struct Cuts<'a> {
    runner: &'a Runner,
    image: &'a Image,
    fs: Fs,
    engine: String,
    seed: u64,
    state: PathBuf,
    boot: u64,
    /// Boots in which the clients wrote, and where each went on.
    history: Vec<(u64, [u64; CLIENTS])>,
    /// Writes that each client has had acknowledged.
    acknowledged: [u64; CLIENTS],
    /// Cut only when something was acknowledged: a run of few cuts would else show little.
    pub load_only: bool,
    /// What came of it so far.
    pub tally: Tally,
}

/// What came of the cuts so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cuts while the store was opened.
    pub opening: u64,
    /// Cuts under load.
    pub load: u64,
    /// Cuts while the server stopped.
    pub stopping: u64,
    /// Times that the machine was off before its cut came: the server had stopped in order.
    pub stopped: u64,
    /// Complete checks of the store.
    pub checks: u64,
}

impl Tally {
    /// Cuts in all.
    pub fn cuts(&self) -> u64 {
        self.opening + self.load + self.stopping
    }
}

impl<'a> Cuts<'a> {
    /// A new store in `state`, an empty directory.
    pub fn new(
        runner: &'a Runner,
        image: &'a Image,
        fs: Fs,
        engine: String,
        seed: u64,
        state: PathBuf,
    ) -> Self {
        let (history, acknowledged, tally) = (Vec::new(), [0; CLIENTS], Tally::default());
        Self {
            runner,
            image,
            fs,
            engine,
            seed,
            state,
            boot: 0,
            history,
            acknowledged,
            load_only: false,
            tally,
        }
    }

    /// Where the machine's files are.
    pub fn state(&self) -> &std::path::Path {
        &self.state
    }

    /// Writes acknowledged so far, of all clients.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.iter().sum()
    }

    /// Boots, checks, writes and cuts the power, in whatever state that finds the server.
    ///
    /// # Errors
    /// If anything acknowledged is missing or anything else is wrong, in the guest's words.
    pub fn cut(&mut self) -> anyhow::Result<()> {
        self.boot += 1;
        let mut random = Random::new(self.seed ^ self.boot << 16 ^ (self.fs as u64) << 48);
        let mut moment = Moment::choose(&mut random);
        while self.load_only && !matches!(moment, Moment::Acknowledgement(_)) {
            moment = Moment::choose(&mut random);
        }
        let mut machine = self.start(moment)?;
        self.run(&mut machine, moment).with_context(|| self.place())
    }

    /// Boots and checks, and no more.
    ///
    /// # Errors
    /// As [`cut`](Self::cut).
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.boot += 1;
        let mut machine = self.start(Moment::Opening(Duration::ZERO))?;
        loop {
            match machine.next(None).with_context(|| self.place())? {
                Event::Line(line) if line.starts_with("START ") => {
                    self.begin(&line)?;
                    return machine.cut();
                }
                Event::Line(line) => self.note(&line).with_context(|| self.place())?,
                Event::Off | Event::Time => {
                    bail!("{}: the machine ended before it had checked", self.place())
                }
            }
        }
    }

    fn place(&self) -> String {
        format!("{self}, boot {}", self.boot)
    }

    fn start(&self, moment: Moment) -> anyhow::Result<Machine> {
        let join = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let history: Vec<_> = self.history.iter().map(|(boot, at)| format!("{boot}:{}", join(at))).collect();
        let mut options = vec![
            ("pmem", format!("{}@{}", self.fs.store(), self.fs.place())),
            ("expect", self.fs.expected().to_owned()),
            ("engine", self.engine.clone()),
            ("seed", self.seed.to_string()),
            ("boot", self.boot.to_string()),
            ("history", history.join(";")),
            ("acknowledged", join(&self.acknowledged)),
        ];
        if let Moment::Stopping(writes, _) = moment {
            options.push(("stop-after", writes.to_string()));
        }
        // Never again later: a file system that is gone must be noticed.
        let memory = self.fs.memory();
        let on_each = |act: fn(Fs, u32) -> String| -> String {
            (0..memory.count()).map(|device| act(self.fs, device)).collect()
        };
        let make = if self.boot == 1 { on_each(job::make) } else { String::new() };
        let script = make + &on_each(job::attach) + &job::guest("load", &options);
        self.runner.boot(self.image, memory, &self.state, &script)
    }

    fn run(&mut self, machine: &mut Machine, moment: Moment) -> anyhow::Result<()> {
        let (mut deadline, mut told, mut stopping, mut started) = (None, 0, false, false);
        loop {
            match machine.next(deadline)? {
                Event::Line(line) => {
                    let word = line.split(' ').next().unwrap_or_default();
                    match (word, moment) {
                        ("OPENING", Moment::Opening(after)) => deadline = Some(Instant::now() + after),
                        ("START", _) => {
                            self.begin(&line)?;
                            started = true;
                            if let Moment::Load(after) = moment {
                                deadline = Some(Instant::now() + after);
                            }
                        }
                        ("STOPPING", Moment::Stopping(_, after)) => {
                            stopping = true;
                            deadline = Some(Instant::now() + after);
                        }
                        _ => self.note(&line)?,
                    }
                    told += u64::from(word == "ACK");
                    if !matches!(moment, Moment::Acknowledgement(at) if told == at) {
                        continue;
                    }
                }
                Event::Time => {}
                Event::Off => {
                    ensure!(stopping, "the machine went off by itself");
                    self.tally.stopped += 1;
                    return Ok(());
                }
            }
            break;
        }
        machine.cut()?;
        // What it had said before counts.
        while let Event::Line(line) = machine.next(None)? {
            if line.starts_with("START ") {
                self.begin(&line)?;
                started = true;
            } else {
                self.note(&line)?;
            }
        }
        match (started, stopping) {
            (false, _) => self.tally.opening += 1,
            (true, false) => self.tally.load += 1,
            (true, true) => self.tally.stopping += 1,
        }
        Ok(())
    }

    /// `START n0 n1 n2 n3`: the store was checked, and the clients go on from there.
    fn begin(&mut self, line: &str) -> anyhow::Result<()> {
        let numbers: Vec<u64> = line.split(' ').skip(1).map(str::parse).collect::<Result<_, _>>()?;
        let numbers: [u64; CLIENTS] = numbers.try_into().map_err(|_| anyhow::anyhow!("{line:?}"))?;
        for (at, known) in numbers.iter().zip(self.acknowledged) {
            ensure!(*at >= known, "{line:?} is behind what was acknowledged: {:?}", self.acknowledged);
        }
        self.acknowledged = numbers;
        self.history.push((self.boot, numbers));
        self.tally.checks += 1;
        Ok(())
    }

    fn note(&mut self, line: &str) -> anyhow::Result<()> {
        if let Some(wrong) = line.strip_prefix("FAIL ") {
            bail!("{wrong}");
        }
        if let Some((client, number)) = acknowledgement(line) {
            ensure!(number >= self.acknowledged[client], "{line:?} goes backwards");
            self.acknowledged[client] = number;
        }
        Ok(())
    }
}

impl std::fmt::Display for Cuts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}, seed {}", self.engine, self.fs.name(), self.seed)
    }
}

/// `ACK i n`; whatever else the console mixed in makes it no acknowledgement, which only weakens the check.
fn acknowledgement(line: &str) -> Option<(usize, u64)> {
    let (client, number) = line.strip_prefix("ACK ")?.split_once(' ')?;
    let client: usize = client.parse().ok()?;
    (client < CLIENTS).then_some(())?;
    Some((client, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_read_whole_or_not_at_all() {
        assert_eq!(acknowledgement("ACK 3 120"), Some((3, 120)));
        for other in ["ACK 4 1", "ACK 3", "ACK 3 12[    1.2] usb", "START 1 2 3 4", "ACK x 1", "ACK 1 1 1"] {
            assert_eq!(acknowledgement(other), None, "{other:?}");
        }
    }

    #[test]
    fn every_kind_of_moment_is_chosen() {
        let mut random = Random::new(1);
        let moments: Vec<_> = (0..200).map(|_| Moment::choose(&mut random)).collect();
        let count = |wanted: fn(&Moment) -> bool| moments.iter().filter(|moment| wanted(moment)).count();
        assert!(count(|moment| matches!(moment, Moment::Opening(_))) > 10);
        assert!(count(|moment| matches!(moment, Moment::Acknowledgement(_))) > 50);
        assert!(count(|moment| matches!(moment, Moment::Load(_))) > 20);
        assert!(count(|moment| matches!(moment, Moment::Stopping(..))) > 10);
    }
}
