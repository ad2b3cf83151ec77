//! Small scenarios for what a crash can't show: damage, failing devices, space that never comes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use terrace_engine::clock::ManualClock;
use terrace_engine::{
    Batch, Condition, Durability, Expiry, OpError, OpKind, Reply, Session, Store, StoreError,
};
use terrace_media::Superblock;
use terrace_media_sim::{Access, Fault, FaultKind};
use terrace_testkit::sweep::{Media, MediaKind, Opening, Subject};

use super::detect::Finding;
use crate::contents::{blank, contents_of, media_of};

pub(super) const START_US: u64 = 1_800_000_000_000_000;
/// Background steps after which an answer that is still awaited never comes.
const STEPS_MAX: u32 = 10_000;

/// One session of a store.
pub(super) struct Client {
    pub session: Box<dyn Session>,
    pub store: Box<dyn Store>,
}

impl Client {
    fn open(subject: &dyn Subject, media: &Media, fresh: bool) -> Result<Self, StoreError> {
        let clock = Arc::new(ManualClock::new(START_US));
        Self::open_as(
            subject,
            media,
            Opening { durability: Durability::Sync, clock, fresh, evict: false, variant: 0 },
        )
    }

    pub fn open_as(subject: &dyn Subject, media: &Media, opening: Opening) -> Result<Self, StoreError> {
        let store = subject.open(media, opening)?;
        Ok(Self { session: store.session()?, store })
    }

    /// Executes one operation; its answer and the value that came with it. `None` if the answer never comes.
    pub fn run(&mut self, key: &str, kind: impl FnOnce(&mut Batch) -> OpKind) -> Option<(Reply, Vec<u8>)> {
        ask(&mut *self.session, &*self.store, key, kind)
    }

    pub fn set(&mut self, key: &str, value: &[u8]) -> Option<Reply> {
        self.run(key, |batch| set(batch, value, Expiry::Clear)).map(|(reply, _)| reply)
    }

    fn delete(&mut self, key: &str) -> Option<Reply> {
        let delete = |_: &mut Batch| OpKind::Delete { condition: Condition::Always, old_value: false };
        self.run(key, delete).map(|(reply, _)| reply)
    }

    pub fn get(&mut self, key: &str) -> Option<(Reply, Vec<u8>)> {
        self.run(key, |_| OpKind::Get { value: true })
    }

    pub fn close(self) -> Result<(), StoreError> {
        drop(self.session);
        self.store.close()
    }
}

/// A set of this value, whatever was there.
pub(super) fn set(batch: &mut Batch, value: &[u8], expiry: Expiry) -> OpKind {
    let value = batch.bytes(value);
    OpKind::Set { value, condition: Condition::Always, expiry, flags: None, old_value: false }
}

/// Executes one operation in a session of a store, which does its background work meanwhile; as [`Client::run`].
pub(super) fn ask(
    session: &mut dyn Session,
    store: &dyn Store,
    key: &str,
    kind: impl FnOnce(&mut Batch) -> OpKind,
) -> Option<(Reply, Vec<u8>)> {
    let mut batch = Batch::new();
    let kind = kind(&mut batch);
    batch.push(0, key.as_bytes(), kind);
    session.execute(&mut batch);
    for _ in 0..STEPS_MAX {
        if session.poll(&mut batch)
            && let Some(proof) = session.settled(&batch)
        {
            let reply = batch.reply(0, &proof);
            let value = match &reply {
                Reply::Hit { value: Some(span), .. } => batch.output(*span).to_vec(),
                _ => Vec::new(),
            };
            return Some((reply, value));
        }
        store.step();
    }
    None
}

pub(super) fn value(key: &str, round: usize, len: usize) -> Vec<u8> {
    format!("{key}.{round}.").bytes().cycle().take(len.max(8)).collect()
}

/// A store's image in which each byte in turn is flipped: the right value, or an error, never another value, and what the
/// next group of its session claims to be durable is never missing.
pub(super) fn damage(subject: &dyn Subject, kind: MediaKind) -> anyhow::Result<Finding> {
    let shape = subject.shape(kind);
    let mut tried = 0u64;
    // A store that was closed, with what it saved for the next start; the same, opened since and killed, so that its pages are scanned;
    // and one that was killed, which has a log.
    for (closed, killed) in [(true, false), (true, true), (false, true)] {
        let media = media_of(kind, &blank(subject, kind));
        let mut client = Client::open(subject, &media, true)?;
        let mut expected: BTreeMap<String, Option<Vec<u8>>> = BTreeMap::new();
        let rounds = if closed { 6 } else { 2 };
        for round in 0..rounds {
            for n in 0..8 {
                let key = format!("key{n}");
                if n == 3 && round == rounds - 1 {
                    client.delete(&key).context("a delete is not answered")?;
                    expected.insert(key, None);
                    continue;
                }
                let len = if n == 5 { shape.large_bytes } else { 20 + n * shape.inline_bytes / 10 };
                let value = value(&key, round, len);
                client.set(&key, &value).context("a set is not answered")?;
                expected.insert(key, Some(value));
            }
        }
        if closed {
            client.close()?;
            if killed {
                drop(Client::open(subject, &media, false)?);
            }
        } else {
            // What the last groups say is not claimed by any later one: these are sacrificed.
            for _ in 0..4 {
                client.set("tail", b"tail").context("a set is not answered")?;
            }
            drop(client);
        }
        let image = contents_of(&media);
        for (medium, bytes) in image.iter().enumerate() {
            let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
            for at in used.iter().step_by(if kind == MediaKind::Byte { 1 } else { 3 }) {
                tried += 1;
                let mut damaged = image.clone();
                damaged[medium][*at] ^= 1 << (tried % 8);
                if let Some(wrong) = wrong(subject, &media_of(kind, &damaged), &expected) {
                    let wrong = format!(
                        "byte {at} of medium {medium} flipped, closed {closed}, killed {killed}: {wrong}"
                    );
                    return Ok(Finding { wrong: Some(wrong), tried: format!("{tried} images") });
                }
            }
        }
    }
    Ok(Finding { wrong: None, tried: format!("{tried} images") })
}

fn wrong(
    subject: &dyn Subject,
    media: &Media,
    expected: &BTreeMap<String, Option<Vec<u8>>>,
) -> Option<String> {
    let mut client = Client::open(subject, media, false).ok()?;
    for (key, expected) in expected {
        match (client.get(key), expected) {
            (Some((Reply::Hit { .. }, value)), Some(expected)) if value == *expected => {}
            (Some((Reply::Miss, _)), None) | (Some((Reply::Error(_), _)), _) => {}
            (got, _) => return Some(format!("{key} is answered {:?}", got.map(|(reply, _)| reply))),
        }
    }
    None
}

/// Every byte of a superblock flipped.
pub(super) fn damaged_superblock() -> Finding {
    let block = Superblock {
        engine: "hetermm".into(),
        options: vec![1, 2, 3],
        identity: [7; 16],
        hash_seed: 9,
        media_bytes: 1 << 20,
        created_ms: 5,
    };
    let mut tried = 0;
    if let Ok(bytes) = block.encode() {
        for at in 0..bytes.len() {
            tried += 1;
            let mut damaged = bytes;
            damaged[at] ^= 1 << (at % 8);
            if let Ok(decoded) = Superblock::decode(&damaged) {
                let wrong = format!("byte {at} flipped: it decodes to {decoded:?}");
                return Finding { wrong: Some(wrong), tried: format!("{tried} images") };
            }
        }
    }
    Finding { wrong: None, tried: format!("{tried} images") }
}

/// Operation `n` of a device fails, for every `n`: what is acknowledged afterwards, or was before, is there after the restart.
pub(super) fn sick(subject: &dyn Subject) -> anyhow::Result<Finding> {
    let mut tried = 0;
    for access in [Access::Sync, Access::Write] {
        for on_log in [true, false] {
            for after in 0..12 {
                tried += 1;
                if let Some(wrong) = sick_once(subject, access, on_log, after)? {
                    let which = if on_log { "log" } else { "data" };
                    let wrong = format!("{access:?} {after} of the {which} device fails: {wrong}");
                    return Ok(Finding { wrong: Some(wrong), tried: format!("{tried} devices") });
                }
            }
        }
    }
    Ok(Finding { wrong: None, tried: format!("{tried} devices") })
}

fn sick_once(
    subject: &dyn Subject,
    access: Access,
    on_log: bool,
    after: u64,
) -> anyhow::Result<Option<String>> {
    let media = media_of(MediaKind::Block, &blank(subject, MediaKind::Block));
    let Media::Block { log, data } = &media else { bail!("block media") };
    let mut client = Client::open(subject, &media, true)?;
    log.keep_history();
    data.keep_history();
    let device = if on_log { log } else { data };
    device.inject(Fault::new(access, FaultKind::Io).after(after));
    let large = subject.shape(MediaKind::Block).large_bytes;
    let mut acknowledged: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut uncertain = BTreeMap::new();
    for round in 0..40 {
        let key = format!("key{}", round % 7);
        let value = value(&key, round, if round % 5 == 0 { large } else { 300 });
        match client.set(&key, &value) {
            Some(Reply::Stored { .. }) if !uncertain.contains_key(&key) => {
                acknowledged.insert(key, value);
            }
            Some(_) => {
                uncertain.insert(key, ());
            }
            None => return Ok(Some("an answer never comes".into())),
        }
    }
    // The process ends as a power loss would end it: nothing unsynced is there.
    std::mem::forget(client);
    log.lose_unsynced(after);
    data.lose_unsynced(after);
    log.heal();
    data.heal();
    let mut client = match Client::open(subject, &media_of(MediaKind::Block, &contents_of(&media)), false) {
        Ok(client) => client,
        Err(error) => return Ok(Some(format!("opening: {error}"))),
    };
    for (key, value) in acknowledged {
        match client.get(&key) {
            Some((Reply::Hit { .. }, got)) if got == value => {}
            // A later write of the key was answered by an error and may have happened all the same.
            Some((Reply::Hit { .. }, _)) if uncertain.contains_key(&key) => {}
            got => {
                let got = got.map(|(reply, _)| reply);
                return Ok(Some(format!("{key} was acknowledged and is answered {got:?}")));
            }
        }
    }
    Ok(None)
}

/// Few keys, many writes, a restart now and then: there is always room.
pub(super) fn space(subject: &dyn Subject, kind: MediaKind) -> anyhow::Result<Finding> {
    const WRITES: usize = 3000;
    let shape = subject.shape(kind);
    let media = media_of(kind, &blank(subject, kind));
    let mut client = Client::open(subject, &media, true)?;
    for write in 0..WRITES {
        let tried = format!("{write} writes");
        let key = format!("key{}", write % 6);
        let len = if write % 4 == 1 { shape.large_bytes / 3 } else { 10 + write % shape.inline_bytes };
        match client.set(&key, &value(&key, write, len)) {
            Some(Reply::Stored { .. }) => {}
            Some(Reply::Error(OpError::Full)) => {
                return Ok(Finding { wrong: Some("six keys fill the store".into()), tried });
            }
            got => return Ok(Finding { wrong: Some(format!("a set is answered {got:?}")), tried }),
        }
        client.store.step();
        if write % 1000 == 999 {
            client.close()?;
            client = Client::open(subject, &media, false)?;
        }
    }
    Ok(Finding { wrong: None, tried: format!("{WRITES} writes") })
}
