//! The litmus test `clock`: a store's time elapses, whatever somebody sets the clock on the wall to, and whatever restarts.

use std::sync::Arc;

use anyhow::ensure;
use terrace_engine::clock::Clock;
use terrace_engine::{Durability, Expiry, Reply};
use terrace_testkit::clocks::Clocks;
use terrace_testkit::sweep::{Media, MediaKind, Opening, Subject};

use super::detect::Finding;
use super::directed::{Client, START_US, set};
use crate::contents::{blank, media_of};

const SECOND_US: i64 = 1_000_000;
const HOUR_US: i64 = 3_600 * SECOND_US;
const YEAR_US: i64 = 365 * 24 * HOUR_US;

/// A store, the machine that it runs on, and what its time should be.
struct Bed<'a> {
    subject: &'a dyn Subject,
    media: Media,
    clocks: Arc<Clocks>,
    client: Option<Client>,
    expected_ms: u64,
    wrong: Option<String>,
}

impl Bed<'_> {
    fn open(&mut self, fresh: bool) -> anyhow::Result<()> {
        let clock: Arc<dyn Clock> = self.clocks.clone();
        let opening = Opening { durability: Durability::Sync, clock, fresh, evict: false, variant: 0 };
        self.client = Some(Client::open_as(self.subject, &self.media, opening)?);
        Ok(())
    }
    fn passes(&mut self, seconds: u64) {
        self.clocks.advance_us(seconds * 1_000_000);
        self.expected_ms += seconds * 1000;
    }
    fn reboots(&mut self, seconds: u64) {
        self.clocks.reboot(seconds * 1_000_000);
        self.expected_ms += seconds * 1000;
    }
    /// Whoever serves clients asks for the time, and the next step keeps what was seen.
    fn looks(&mut self, when: &str) {
        let Some(client) = &self.client else { return };
        let now_ms = client.store.time().now_ms;
        client.store.step();
        if now_ms != self.expected_ms {
            let off = i128::from(now_ms) - i128::from(self.expected_ms);
            self.wrong.get_or_insert(format!("{when}, the store's time is {off} ms off"));
        }
    }
    fn lock(&mut self, key: &str, seconds: u64) -> anyhow::Result<()> {
        let Some(client) = &mut self.client else { return Ok(()) };
        let at = client.store.time().now_ms + seconds * 1000;
        let reply = client.run(key, |batch| set(batch, b"held", Expiry::At(at)));
        ensure!(matches!(reply, Some((Reply::Stored { .. }, _))), "a set is answered {reply:?}");
        Ok(())
    }
    fn holds(&mut self, key: &str, held: bool, when: &str) {
        let Some(client) = &mut self.client else { return };
        let found = matches!(client.get(key), Some((Reply::Hit { .. }, _)));
        if found != held {
            let how = if found { "is there" } else { "is gone" };
            self.wrong.get_or_insert(format!("{when}, {key} {how}"));
        }
    }
    fn closes(&mut self) -> anyhow::Result<()> {
        self.client.take().map_or(Ok(()), |client| Ok(client.close()?))
    }
}

pub(super) fn clock(subject: &dyn Subject) -> anyhow::Result<Finding> {
    let mut wrong = None;
    for kind in [MediaKind::Byte, MediaKind::Block] {
        let media = media_of(kind, &blank(subject, kind));
        let clocks = Arc::new(Clocks::new(START_US));
        let expected_ms = START_US / 1000;
        let mut bed = Bed { subject, media, clocks, client: None, expected_ms, wrong: None };
        run(&mut bed)?;
        wrong = wrong.or(bed.wrong.map(|wrong| format!("{kind} media: {wrong}")));
    }
    Ok(Finding { wrong, tried: "2 stores".into() })
}

fn run(bed: &mut Bed<'_>) -> anyhow::Result<()> {
    bed.open(true)?;
    bed.lock("first", 60)?;
    bed.clocks.set_wall(-HOUR_US / 6);
    bed.passes(30);
    bed.looks("the clock set back by ten minutes");
    bed.holds("first", true, "after half its time");
    bed.passes(31);
    bed.holds("first", false, "after all its time");

    bed.lock("second", 60)?;
    bed.client = None;
    bed.clocks.set_wall(YEAR_US);
    bed.passes(1);
    bed.open(false)?;
    bed.looks("the process dead, and the clock set forward by a year");
    bed.holds("first", false, "after a crash");
    bed.holds("second", true, "a second after a crash");

    bed.closes()?;
    bed.clocks.reboot(0);
    bed.clocks.set_wall(-HOUR_US);
    bed.open(false)?;
    bed.looks("the machine started with a clock that was set back");
    bed.holds("second", true, "after a clean stop");
    bed.passes(60);
    bed.holds("second", false, "after all its time");

    bed.lock("third", 60)?;
    bed.clocks.set_wall(-2 * HOUR_US);
    bed.looks("the clock set back by hours");
    bed.client = None;
    bed.reboots(20);
    bed.open(false)?;
    bed.looks("the clock set back, and the machine started again");
    bed.holds("third", true, "after a third of its time");
    bed.passes(41);
    bed.holds("third", false, "after all its time");
    bed.closes()
}
