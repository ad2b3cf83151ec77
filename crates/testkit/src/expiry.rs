//! What it costs to expire keys, and that counts are exact meanwhile: of any engine over block media. A failure panics.

#![expect(clippy::expect_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::{Batch, Condition, Expiry, OpError, OpKind, Progress, Reply, Session, Store};
use terrace_media::BlockDevice;
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock};

use crate::rng::Rng;

/// A block of the tier, and of the log, that these tests are meant for.
pub const BLOCK_BYTES: usize = 64 << 10;
/// DRAM for records: about a quarter of what is written.
pub const DRAM_BYTES: u64 = 8 * BLOCK_BYTES as u64;
/// Of the log.
pub const LOG_BYTES: usize = 24 * BLOCK_BYTES;
const DATA_BYTES: usize = 10 << 20;
const KEYS: u64 = 2000;
const VALUE_BYTES: usize = 1000;
/// When a store begins.
const START_US: u64 = 1_800_000_000_000_000;
/// Steps without work after which a store is quiet.
const IDLE_STEPS: usize = 20;
const STEPS_MAX: usize = 100_000;
/// How long after its time a key may be counted.
const LATE_MS: u64 = 5_000;

/// The media of a store.
pub struct Media {
    /// The log's.
    pub log: SimBlock,
    /// The tier's.
    pub data: SimBlock,
}

impl Media {
    fn new() -> Self {
        let blank = |bytes| SimBlock::from_image(vec![0; bytes]);
        Self { log: blank(LOG_BYTES), data: blank(DATA_BYTES) }
    }
    /// What a process that was killed leaves.
    fn copy(&self) -> Self {
        let copy = |block: &SimBlock| SimBlock::from_image(block.to_bytes());
        Self { log: copy(&self.log), data: copy(&self.data) }
    }
    /// Bytes read and written so far.
    fn traffic(&self) -> (u64, u64) {
        let (log, data) = (self.log.counters().snapshot(), self.data.counters().snapshot());
        (log.read_bytes + data.read_bytes, log.write_bytes + data.write_bytes)
    }
}

/// Opens a store on media, a new one or the one that is there.
pub type Open<'a> = &'a dyn Fn(&Media, &Arc<ManualClock>, bool) -> Box<dyn Store>;

struct World<'a> {
    open: Open<'a>,
    media: Media,
    clock: Arc<ManualClock>,
    store: Option<Box<dyn Store>>,
    /// The deadline of each key that was set, 0 for none.
    deadlines: Vec<u64>,
}

impl<'a> World<'a> {
    fn new(open: Open<'a>) -> Self {
        let (media, clock) = (Media::new(), Arc::new(ManualClock::new(START_US)));
        let store = Some(open(&media, &clock, true));
        Self { open, media, clock, store, deadlines: Vec::new() }
    }
    fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("a store between restarts")
    }
    fn now_ms(&self) -> u64 {
        self.store().time().now_ms
    }
    /// Works until there is nothing to do.
    fn quiet(&self) {
        let mut idle = 0;
        for _ in 0..STEPS_MAX {
            idle = if self.store().step() == Progress::Worked { 0 } else { idle + 1 };
            if idle == IDLE_STEPS {
                return;
            }
        }
        panic!("there is always something to do");
    }
    fn advance(&self, ms: u64) {
        self.clock.advance_us(ms * 1000);
        self.quiet();
    }
    fn set(&mut self, session: &mut dyn Session, key: u64, fill: u8, ttl_ms: Option<u64>) {
        let expire_at = ttl_ms.map_or(0, |ttl| self.now_ms() + ttl);
        let expiry = ttl_ms.map_or(Expiry::Clear, |_| Expiry::At(expire_at));
        assert!(put(session, key, fill, expiry), "key {key} is refused");
        let at = key as usize;
        self.deadlines.resize(self.deadlines.len().max(at + 1), 1);
        self.deadlines[at] = expire_at;
        self.store().step();
    }
    fn set_all(
        &mut self,
        keys: impl Iterator<Item = u64>,
        fill: u8,
        mut ttl_ms: impl FnMut() -> Option<u64>,
    ) {
        let mut session = self.store().session().expect("a session");
        keys.for_each(|key| self.set(&mut *session, key, fill, ttl_ms()));
        drop(session);
        self.quiet();
    }
    fn live(&self, now_ms: u64) -> u64 {
        self.deadlines.iter().filter(|&&at| at == 0 || at > now_ms).count() as u64
    }
    /// The count is right, but for keys whose time has just come.
    fn check_count(&self) {
        let (now, len) = (self.now_ms(), self.store().len(0));
        let (least, most) = (self.live(now), self.live(now.saturating_sub(LATE_MS)));
        assert!(
            (least..=most).contains(&len),
            "{len} keys are counted, {least} are there, and were {most} not long ago"
        );
    }
    /// The keys that are there are those whose time has not come.
    fn check_keys(&self) {
        let mut session = self.store().session().expect("a session");
        let now = self.now_ms();
        for (key, &at) in self.deadlines.iter().enumerate() {
            let mut batch = Batch::new();
            batch.push(0, &(key as u64).to_be_bytes(), OpKind::Get { value: false });
            session.execute(&mut batch);
            let proof = session.wait(&mut batch);
            let is_there = matches!(batch.reply(0, &proof), Reply::Hit { .. });
            assert_eq!(is_there, at == 0 || at > now, "key {key}: expires at {at}, and it is {now}");
        }
    }
    fn kill(&mut self) {
        let left = self.media.copy();
        self.store = None;
        self.media = left;
        self.store = Some((self.open)(&self.media, &self.clock, false));
    }
    fn stop(&mut self) {
        self.store().close().expect("a clean stop");
        self.store = Some((self.open)(&self.media, &self.clock, false));
    }
}

/// Whether the store takes it.
fn put(session: &mut dyn Session, key: u64, fill: u8, expiry: Expiry) -> bool {
    let mut batch = Batch::new();
    let value = batch.bytes(&[fill; VALUE_BYTES]);
    let set = OpKind::Set { value, condition: Condition::Always, expiry, flags: Some(0), old_value: false };
    batch.push(0, &key.to_be_bytes(), set);
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    let reply = batch.reply(0, &proof);
    assert!(matches!(reply, Reply::Stored { .. } | Reply::Error(OpError::Full)), "key {key}: {reply:?}");
    matches!(reply, Reply::Stored { .. })
}

/// To expire every key reads at most a tenth of them, and writes less.
///
/// # Panics
/// If it does not, or a count is wrong.
pub fn costs_little(open: Open<'_>) {
    let mut world = World::new(open);
    let mut rng = Rng::new(1);
    world.set_all(0..KEYS, 7, || Some(rng.between(10_000, 60_000)));
    let before = world.media.traffic();
    for _ in 0..65 {
        world.advance(1000);
        world.check_count();
    }
    let (store, after) = (world.store(), world.media.traffic());
    assert_eq!((store.len(0), store.expiring(0), store.stats().expired), (0, 0, KEYS));
    assert_eq!(store.stats().tombstones, 0, "no older version can come back");
    let (read, written) = (after.0 - before.0, after.1 - before.1);
    let most = KEYS * VALUE_BYTES as u64 / 10;
    assert!(read <= most && written < most, "{read} bytes read and {written} written to expire {KEYS} keys");
    world.kill();
    assert_eq!(world.store().len(0), 0, "nothing comes back");
}

/// A key that is set anew before its time, always for as long, leaves no older version that outlives it.
///
/// # Panics
/// If it costs more than that.
pub fn refreshed_keys_cost_little(open: Open<'_>) {
    let mut world = World::new(open);
    for round in 0..3 {
        // Each is read before: what is set without a look at what it replaces may be older than that.
        world.check_keys();
        world.set_all(0..KEYS, round, || Some(30_000));
        world.advance(10_000);
    }
    let before = world.media.traffic();
    world.advance(40_000);
    let after = world.media.traffic();
    assert_eq!(world.store().len(0), 0);
    let (read, written) = (after.0 - before.0, after.1 - before.1);
    let most = KEYS * VALUE_BYTES as u64 / 10;
    assert!(read <= most && written < most, "{read} bytes read and {written} written");
}

/// A tier that is full of what has expired takes writes, though what is due is looked for in whole seconds.
///
/// # Panics
/// If a write is refused.
pub fn what_has_expired_makes_room(open: Open<'_>) {
    const MANY: u64 = (DATA_BYTES * 7 / 10 / VALUE_BYTES) as u64;
    let mut world = World::new(open);
    world.set_all(0..MANY, 1, || Some(40_001));
    // Less than a second after their time, and the clock stands still from here on.
    world.advance(40_100);
    world.set_all(MANY..2 * MANY, 2, || None);
    world.check_keys();
}

/// An opening counts no key whose time has passed, after a kill at once, after a clean stop soon.
///
/// # Panics
/// If it does.
pub fn openings_count_exactly(open: Open<'_>) {
    let mut world = World::new(open);
    let mut rng = Rng::new(2);
    world.set_all(0..KEYS, 7, || Some(rng.between(10_000, 120_000)));
    for round in 0..4 {
        world.clock.advance_us(21_000_000);
        if round % 2 == 0 {
            world.kill();
            let (len, live) = (world.store().len(0), world.live(world.now_ms()));
            assert_eq!((len, world.store().expiring(0)), (live, live), "after a kill");
        } else {
            world.stop();
        }
        let before = world.media.traffic().0;
        world.quiet();
        world.check_count();
        let read = world.media.traffic().0 - before;
        // After a clean stop what was hot may come up again.
        let most = KEYS * VALUE_BYTES as u64 / 10;
        assert!(round % 2 == 1 || read <= most, "{read} bytes read after an opening");
    }
    world.check_keys();
    world.advance(60_000);
    assert_eq!((world.store().len(0), world.store().expiring(0)), (0, 0));
}

/// Reads that fail for once while keys that must be read expire forget none of them.
///
/// # Panics
/// If they do.
pub fn failed_reads_forget_nothing(open: Open<'_>) {
    let mut world = World::new(open);
    world.set_all(0..KEYS / 2, 1, || None);
    world.set_all(0..KEYS / 2, 2, || Some(20_000));
    world.set_all(KEYS..KEYS + KEYS / 2, 3, || None);
    for after in [0, 1, 2, 40, 300, 600] {
        world.media.data.inject(Fault::new(Access::Read, FaultKind::Io).after(after));
    }
    for _ in 0..40 {
        world.advance(1000);
    }
    assert!(world.media.data.faults_fired() > 2, "reads fail");
    let live = world.live(world.now_ms());
    assert_eq!((world.store().len(0), world.store().expiring(0)), (live, 0));
}

/// What has expired over an older version that has no time never gives way to that.
///
/// # Panics
/// If it does.
pub fn older_versions_stay_hidden(open: Open<'_>) {
    const CHURN: u64 = KEYS;
    let mut world = World::new(open);
    // Every other of the first keys gets a newer version with a time; the others keep the pages of the older ones.
    world.set_all(0..KEYS / 2, 1, || None);
    world.set_all((0..KEYS / 2).step_by(4), 2, || Some(20_000));
    world.set_all((2..KEYS / 2).step_by(4), 2, || Some(60_000));
    world.set_all(CHURN..CHURN + KEYS / 2, 3, || None);
    world.advance(30_000);
    world.check_count();
    world.check_keys();
    // The time of some comes while nobody looks.
    world.clock.advance_us(40_000_000);
    world.kill();
    world.check_keys();
    // The pages of the newer ones go.
    for round in 0..3 {
        world.set_all(CHURN..CHURN + KEYS / 2, 4 + round, || None);
        world.kill();
        world.check_count();
        world.check_keys();
    }
}

/// A store that has said that it is full hears of what has expired since, though nobody works but who writes.
///
/// # Panics
/// If a write is refused then.
pub fn a_full_store_looks_again_before_it_refuses(open: Open<'_>) {
    let mut world = World::new(open);
    let mut session = world.store().session().expect("a session");
    let expire_at = world.now_ms() + 40_001;
    let keys = (0..STEPS_MAX as u64).take_while(|&key| {
        let stored = put(&mut *session, key, 1, Expiry::At(expire_at));
        world.store().step();
        stored
    });
    let keys = keys.count() as u64;
    assert!(keys > DATA_BYTES as u64 / VALUE_BYTES as u64 / 2 && keys < STEPS_MAX as u64, "{keys} keys");
    assert!(!put(&mut *session, keys, 1, Expiry::Clear), "all of them live");
    world.clock.advance_us(40_100_000);
    drop(session);
    let mut session = world.store().session().expect("a session");
    for key in keys..keys + KEYS {
        assert!(put(&mut *session, key, 2, Expiry::Clear), "key {key} is refused");
    }
    drop(session);
    world.quiet();
    world.deadlines = vec![1; keys as usize];
    world.deadlines.resize((keys + KEYS) as usize, 0);
    world.check_keys();
}
