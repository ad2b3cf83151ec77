use std::sync::Arc;

use parking_lot::Mutex;
use terrace_engine::record::{Head, INLINE_VALUE_BYTES, KEY_BYTES_MAX, NewRecord, RecordView};
use terrace_engine::space::*;
use terrace_engine::{Progress, StoreError, TierStats};
use terrace_index::{Address, AnyIndex, Key};
use terrace_media::Buffer;

/// Records in a `Vec` behind one lock. An address is a position, counted from 1.
pub struct VecSpace {
    inner: Mutex<Inner>,
    capacity_bytes: u64,
}

#[derive(Default)]
struct Inner {
    records: Vec<Option<Arc<[u8]>>>,
    free: Vec<usize>,
    bytes: u64,
    refused: bool,
    /// What the index gave up since the last step; and before, with the epoch that has to pass.
    released: Vec<usize>,
    waiting: Vec<(u64, usize)>,
    /// Where the next search goes on.
    cursor: usize,
}

impl VecSpace {
    pub fn new(capacity_bytes: u64) -> Self {
        Self { inner: Mutex::default(), capacity_bytes }
    }

    /// Shows the next records round the `Vec`; whether those were the last ones.
    fn look_on(&self, count: usize, mut show: impl FnMut(&RecordView<'_>)) -> bool {
        let mut inner = self.inner.lock();
        let (from, len) = (inner.cursor, inner.records.len());
        inner.cursor = if from + count < len { from + count } else { 0 };
        let next = &inner.records[from..len.min(from + count)];
        next.iter().flatten().filter_map(|record| RecordView::decode(record)).for_each(|view| show(&view));
        inner.cursor == 0
    }
}

impl Records for VecSpace {
    type Local = ();
    const TOMBSTONES: bool = false;

    fn limits(&self) -> Limits {
        let (key_bytes, inline_bytes) = (KEY_BYTES_MAX, INLINE_VALUE_BYTES);
        let (value_bytes, group_bytes) = (inline_bytes as u64, 1 << 30);
        Limits { key_bytes, inline_bytes, value_bytes, group_bytes, short_group_bytes: group_bytes }
    }
    fn attach(&self, _slot: usize) -> Result<(), StoreError> {
        Ok(())
    }
    fn fetch(&self, address: Address, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
        let record = self.inner.lock().records[address.raw() as usize - 1].clone();
        let Some(view) = record.as_deref().and_then(RecordView::decode) else { return Fetch::Differs };
        match key {
            Some(key) if key.bytes != view.key || key.db != view.head.meta.db() => return Fetch::Differs,
            Some(_) => {}
            None => out.extend_from_slice(view.key),
        }
        if want == Want::Value {
            out.extend_from_slice(view.value);
        }
        Fetch::Match(view.head)
    }
    fn prepare(&self, _local: &mut (), records: &[usize], class: Class) -> Room {
        let mut inner = self.inner.lock();
        let bytes = records.iter().sum::<usize>() as u64 * 8;
        inner.refused = class == Class::Write && inner.bytes + bytes > self.capacity_bytes;
        let none_comes = inner.released.is_empty() && inner.waiting.is_empty();
        match inner.refused {
            false => Room::Ready,
            true if none_comes => Room::Full,
            true => Room::Wait,
        }
    }
    fn fits(&self, _local: &(), _records: &[usize]) -> bool {
        true
    }
    fn put(&self, _local: &mut (), _under: Under<'_>, record: &NewRecord<'_>) -> (Address, u64) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let mut inner = self.inner.lock();
        inner.bytes += bytes.len() as u64;
        let position = inner.free.pop().unwrap_or(inner.records.len());
        let end = inner.records.len().max(position + 1);
        inner.records.resize(end, None);
        inner.records[position] = Some(bytes.into());
        (Address::new(position as u64 + 1), 0)
    }
    fn release(&self, address: Address, _head: &Head) {
        self.inner.lock().released.push(address.raw() as usize - 1);
    }
}

impl Background for VecSpace {
    /// A record that the index gave up is freed once every session has left the epoch in which it may have found it.
    fn step(&self, _index: &AnyIndex, context: &dyn Context) -> Progress {
        let Inner { records, free, bytes, released, waiting, .. } = &mut *self.inner.lock();
        if !released.is_empty() {
            let epoch = context.advance_epoch();
            waiting.extend(released.drain(..).map(|position| (epoch, position)));
        }
        let before = free.len();
        waiting.retain(|&(epoch, position)| {
            let stays = !context.epoch_passed(epoch);
            if !stays {
                *bytes -= records[position].take().map_or(0, |record| record.len() as u64);
                free.push(position);
            }
            stays
        });
        if free.len() > before { Progress::Worked } else { Progress::Idle }
    }
    fn find_expired(&self, _: &AnyIndex, context: &dyn Context, found: &mut FoundKeys<'_>) -> Progress {
        let is_round = self.look_on(64, |view| {
            let (head, db) = (view.head, view.head.meta.db());
            if head.version <= context.flush_version(db) || head.life().is_over(context.now_ms()) {
                found(db, view.key);
            }
        });
        if is_round { Progress::Idle } else { Progress::Worked }
    }
    fn find_victims(&self, _: &AnyIndex, _: &dyn Context, count: usize, found: &mut FoundKeys<'_>) {
        self.look_on(count, |view| found(view.head.meta.db(), view.key));
    }
    fn is_full(&self) -> bool {
        self.inner.lock().refused
    }
}

impl Sizing for VecSpace {
    fn tiers(&self) -> Vec<TierStats> {
        let (used_bytes, capacity_bytes) = (self.dram_bytes(), self.capacity_bytes);
        let medium = "a Vec".into();
        vec![TierStats { tier: "dram", medium, used_bytes, capacity_bytes, ..Default::default() }]
    }
    fn dram_bytes(&self) -> u64 {
        self.inner.lock().bytes
    }
}

impl ReadAtOnce for VecSpace {}
impl InDram for VecSpace {}
impl InlineOnly for VecSpace {}
