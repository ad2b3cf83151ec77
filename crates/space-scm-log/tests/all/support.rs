//! What the tests share: a tiny store, sessions that are held at a fence, and crashes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{
    Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Progress, Reply, Session, Settled, Store,
    StoreError,
};
use terrace_media::{AnyRegion, ByteRegion, Counters, caller};
use terrace_media_sim::snapshot::Model;
use terrace_media_sim::trace::Position;
use terrace_media_sim::{Crash, CrashImage, Explorer, Recorder, SimRegion, Statistics, Trace};
use terrace_space_scm_log::inspect::examine;
use terrace_space_scm_log::{Geometry, Opening, open, open_ordered};

pub const PAGE_BYTES: usize = 1024;
pub const BYTES: u64 = 44 << 10;

thread_local!(static BUCKETS: Cell<u64> = const { Cell::new(4) });
// Bytes of a page of nodes, and of the store.
thread_local!(static NODES: Cell<Option<(usize, u64)>> = const { Cell::new(None) });

/// What a test's stores measure. They have few buckets, so that most have a chain, unless [`use_buckets`] or [`use_nodes`] says otherwise.
pub fn geometry() -> Geometry {
    if let Some((page_bytes, bytes)) = NODES.get() {
        return Geometry { page_bytes, buckets: 0, bytes };
    }
    Geometry { page_bytes: PAGE_BYTES, buckets: BUCKETS.get(), bytes: BYTES }
}
/// Nodes in the order of keys in place of a table, in this test: five of eight records in a page.
pub fn use_nodes() {
    NODES.set(Some((2 * PAGE_BYTES, 80 << 10)));
}
/// The same with nodes of forty records.
pub fn use_long_nodes() {
    NODES.set(Some((32 << 10, 640 << 10)));
}
fn has_nodes() -> bool {
    NODES.get().is_some()
}
/// So many buckets, in this test.
pub fn use_buckets(buckets: u64) {
    BUCKETS.set(buckets);
}
pub const START_MS: u64 = 1_800_000_000_000;
pub const STORE_ID: u64 = 9;
pub const HASHER: KeyHasher = KeyHasher::new(7);

/// What a key is to be: a value, or gone.
pub type State = Option<Vec<u8>>;
pub type States = BTreeMap<String, State>;

pub fn value(text: &str) -> State {
    Some(text.as_bytes().to_vec())
}

/// A text again and again, so many bytes of it.
pub fn filled(text: &str, bytes: usize) -> State {
    Some(text.bytes().cycle().take(bytes).collect())
}

/// Opens a store whose time begins at so many milliseconds.
pub fn open_at(region: impl ByteRegion, fresh: bool, now_ms: u64) -> Box<dyn Store> {
    try_open_at(region, fresh, now_ms).unwrap()
}

/// The same of one that may refuse.
pub fn try_open_at(region: impl ByteRegion, fresh: bool, now_ms: u64) -> Result<Box<dyn Store>, StoreError> {
    let machine = MachineOptions {
        engine: if has_nodes() { "bonsai" } else { "scmkv" },
        durability: Durability::Sync,
        immediate: true,
        evict: false,
        sessions: 4,
        hasher: HASHER,
        clock: Arc::new(ManualClock::new(now_ms * 1000)),
        threads: 1,
        recovery_keys: usize::MAX,
    };
    let opening = Opening {
        geometry: geometry(),
        wanted_bytes: 0,
        dram_bytes: 8 * geometry().page_bytes as u64,
        store_id: STORE_ID,
        fresh,
        machine,
        description: String::new(),
        progress: &|_, _| {},
        far: None,
    };
    let region = AnyRegion::of(region);
    if has_nodes() { open_ordered(&region, 0, opening) } else { open(&region, 0, opening) }
}

pub fn open_again(region: impl ByteRegion) -> Box<dyn Store> {
    open_at(region, false, START_MS)
}

/// A store's background, so many steps of it. Rounds begin after eight in which nothing is to be done.
pub fn steps(store: &dyn Store, count: usize) {
    for _ in 0..count {
        store.step();
    }
}

/// Until nothing is left to do: rounds are over, and pages counted.
pub fn rest(store: &dyn Store) {
    let mut quiet = 0;
    for _ in 0..10_000 {
        quiet = if store.step() == Progress::Idle { quiet + 1 } else { 0 };
        if quiet > 20 {
            return;
        }
    }
    panic!("there is always something to do");
}

/// Pages that sessions can take.
pub fn free_pages(store: &dyn Store) -> usize {
    let tier = store.stats().tiers.pop().unwrap();
    (tier.capacity_bytes - tier.used_bytes) as usize / geometry().page_bytes
}

/// A number that the engine tells of itself.
pub fn detail(store: &dyn Store, name: &str) -> u64 {
    let details = store.stats().engine_details;
    details.into_iter().find(|(of, _)| *of == name).unwrap().1
}

/// A session.
pub struct Client(pub Box<dyn Session>);

impl Client {
    pub fn of(store: &dyn Store) -> Self {
        Self(store.session().unwrap())
    }
    /// Runs a batch, and says whether it may be answered.
    pub fn run(&mut self, batch: &mut Batch) -> Option<Settled> {
        self.0.execute(batch);
        self.0.settled(batch)
    }
    /// Writes keys, of several in one step, and is answered.
    pub fn write(&mut self, keys: &[(&str, State)]) {
        let mut batch = writes(keys, Expiry::Clear);
        let proof = self.run(&mut batch).unwrap_or_else(|| panic!("{keys:?} is not answered"));
        for i in 0..keys.len() {
            let reply = batch.reply(i, &proof);
            let is_done = matches!(reply, Reply::Stored { .. } | Reply::Deleted { .. } | Reply::Miss);
            assert!(is_done, "{keys:?}: {reply:?}");
        }
    }
    pub fn set(&mut self, key: &str, value: State) {
        self.write(&[(key, value)]);
    }
    /// Writes them, and must not be answered yet.
    pub fn write_in_vain(&mut self, keys: &[(&str, State)]) {
        let mut batch = writes(keys, Expiry::Clear);
        assert!(self.run(&mut batch).is_none(), "{keys:?} is answered, and what it rests on is not safe");
    }
    pub fn get(&mut self, key: &str) -> State {
        let mut batch = Batch::new();
        batch.push(0, key.as_bytes(), OpKind::Get { value: true });
        let proof = self.run(&mut batch).unwrap_or_else(|| panic!("{key}: no answer"));
        match batch.reply(0, &proof) {
            Reply::Hit { value, .. } => Some(batch.output(value.unwrap()).to_vec()),
            Reply::Miss => None,
            other => panic!("{key}: {other:?}"),
        }
    }
}

pub fn writes(keys: &[(&str, State)], expiry: Expiry) -> Batch {
    let mut batch = Batch::new();
    if keys.len() > 1 {
        batch.begin_atomic();
    }
    let (condition, old_value) = (Condition::Always, false);
    for (key, state) in keys {
        let kind = match state {
            Some(value) => {
                let value = batch.bytes(value);
                OpKind::Set { value, condition, expiry, flags: Some(0), old_value }
            }
            None => OpKind::Delete { condition, old_value },
        };
        batch.push(0, key.as_bytes(), kind);
    }
    if keys.len() > 1 {
        batch.end_atomic();
    }
    batch
}

/// Where a thread stops: before a fence of a source file, or a store around the cache, with so many before it.
struct Hold {
    file: &'static str,
    what: What,
    before: usize,
    reached: Sender<()>,
    go_on: Receiver<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    Fence,
    Stream,
}

thread_local!(static HOLD: RefCell<Option<Hold>> = const { RefCell::new(None) });

/// Stops here, if this is the place.
fn hold_up(what: What) {
    let at = caller::noted();
    let hold = HOLD.with_borrow_mut(|hold| {
        let here = hold.as_mut().filter(|hold| hold.what == what && at.file().ends_with(hold.file))?;
        match here.before.checked_sub(1) {
            Some(left) => {
                here.before = left;
                None
            }
            None => hold.take(),
        }
    });
    if let Some(hold) = hold {
        hold.reached.send(()).unwrap();
        // A test that has failed does not say so.
        let _ = hold.go_on.recv();
    }
    caller::note(at);
}

/// A region whose fences, and stores around the cache, can be held up.
pub struct Gated(pub SimRegion);

impl ByteRegion for Gated {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn load_u64(&self, offset: u64) -> u64 {
        self.0.load_u64(offset)
    }
    fn store_u64(&self, offset: u64, value: u64) {
        self.0.store_u64(offset, value);
    }
    fn read(&self, offset: u64, out: &mut [u8]) {
        self.0.read(offset, out);
    }
    fn prefetch(&self, offset: u64, len: usize) {
        self.0.prefetch(offset, len);
    }
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.0.write(offset, bytes);
    }
    fn write_nt(&self, offset: u64, bytes: &[u8]) {
        hold_up(What::Stream);
        self.0.write_nt(offset, bytes);
    }
    fn flush(&self, offset: u64, len: usize) {
        self.0.flush(offset, len);
    }
    fn fence(&self) {
        hold_up(What::Fence);
        self.0.fence();
    }
    fn asks_for_callers(&self) -> bool {
        true
    }
    fn counters(&self) -> &Counters {
        self.0.counters()
    }
}

/// Work that another thread is in the middle of.
pub struct Held<T> {
    go_on: Sender<()>,
    thread: JoinHandle<T>,
}

impl<T> Held<T> {
    /// Lets it go on, and waits for its end.
    pub fn go_on(self) -> T {
        self.go_on.send(()).unwrap();
        self.thread.join().unwrap()
    }
}

/// Where a batch's group becomes durable.
pub const GROUPS: (&str, What) = ("log/src/writer.rs", What::Fence);
/// Where a block that leaves its chain has its header cleared, the copy first.
pub const HEADERS: (&str, What) = ("log/src/log.rs", What::Stream);

/// Begins work in another thread. When this returns it stands before a fence, or a store, of that file, with so many of them behind it.
pub fn held_before<T: Send + 'static>(
    (file, what): (&'static str, What),
    before: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Held<T> {
    let ((reached, is_reached), (go_on, goes_on)) = (channel(), channel());
    let thread = std::thread::spawn(move || {
        HOLD.set(Some(Hold { file, what, before, reached, go_on: goes_on }));
        let done = work();
        HOLD.set(None);
        done
    });
    assert!(is_reached.recv().is_ok(), "{file} is not reached");
    Held { go_on, thread }
}

/// A write that is held before its group is durable.
pub fn write_held(mut client: Client, keys: &[(&'static str, State)]) -> Held<(Client, Batch)> {
    let mut batch = writes(keys, Expiry::Clear);
    held_before(GROUPS, 0, move || {
        client.0.execute(&mut batch);
        (client, batch)
    })
}

/// A store whose crashes are to be tried.
pub struct Life {
    pub recorder: Recorder,
    pub region: SimRegion,
    pub store: Arc<dyn Store>,
}

impl Life {
    pub fn new() -> Self {
        let blank = SimRegion::from_image(vec![0; geometry().bytes as usize]);
        open_at(blank.clone(), true, START_MS).close().unwrap();
        Self::from(blank.to_bytes())
    }
    /// One that begins with this content.
    pub fn from(bytes: Vec<u8>) -> Self {
        let recorder = Recorder::new();
        let region = recorder.region(bytes);
        let store = open_at(Gated(region.clone()), false, START_MS);
        Self { recorder, region, store: store.into() }
    }
    pub fn client(&self) -> Client {
        Client::of(&*self.store)
    }
    /// So many sessions, each of which has begun a block with a key of its own: what they write next is one group and one fence.
    pub fn clients<const N: usize>(&self) -> [Client; N] {
        let mut clients = std::array::from_fn(|_| self.client());
        for (i, client) in clients.iter_mut().enumerate() {
            client.set(&format!("first{i}"), value("there"));
        }
        rest(&*self.store);
        clients
    }
    /// Where in the region these bytes stand first.
    pub fn place_of(&self, bytes: &[u8]) -> Option<usize> {
        self.region.to_bytes().windows(bytes.len()).position(|window| window == bytes)
    }
    /// How often a value stands in the region.
    pub fn copies_of(&self, value: &State) -> usize {
        let (all, value) = (self.region.to_bytes(), value.as_ref().unwrap());
        all.windows(value.len()).filter(|window| window == value).count()
    }
    pub fn position(&self) -> Position {
        self.recorder.position()
    }
    /// Lets a round come, and gives the positions within it.
    pub fn a_round(&self) -> std::ops::Range<Position> {
        let (from, rounds) = (self.position(), detail(&*self.store, "scm_rounds"));
        while detail(&*self.store, "scm_rounds") == rounds {
            self.store.step();
        }
        from..self.position() + 1
    }
}

/// The states of keys as a store answers them, and of those that [`Life::clients`] wrote.
pub fn states(client: &mut Client, keys: impl IntoIterator<Item = impl Into<String>>) -> States {
    let firsts = (0..4).map(|i| format!("first{i}"));
    keys.into_iter()
        .map(Into::into)
        .chain(firsts)
        .map(|key| {
            let state = client.get(&key);
            (key, state)
        })
        .collect()
}

/// Crashes at all points of parts of the history, with up to so many choices of what survives.
pub fn crash_within(
    trace: &Trace,
    parts: impl IntoIterator<Item = Range<Position>>,
    images: u64,
    check: impl FnMut(Position, &CrashImage) -> Result<(), String>,
) -> Statistics {
    crash_as(Model::Prefix, trace, parts, images, check)
}

/// The same where words of a line get there in any order.
pub fn crash_strictly(
    trace: &Trace,
    parts: impl IntoIterator<Item = Range<Position>>,
    images: u64,
    check: impl FnMut(Position, &CrashImage) -> Result<(), String>,
) -> Statistics {
    crash_as(Model::Strict, trace, parts, images, check)
}

fn crash_as(
    model: Model,
    trace: &Trace,
    parts: impl IntoIterator<Item = Range<Position>>,
    images: u64,
    mut check: impl FnMut(Position, &CrashImage) -> Result<(), String>,
) -> Statistics {
    let parts = parts.into_iter().collect();
    let explorer = Explorer::new(1).model(model).within(parts).images_per_point(images).store_sample(0);
    let explored = explorer.explore(trace, |point, image| check(point.position, image));
    explored.unwrap_or_else(|failure| panic!("{failure}"))
}

/// Power is lost at the end of the history: every choice of what survives of lines that are not durable, or a thousand of them.
pub fn power_lost(trace: &Trace, mut check: impl FnMut(&CrashImage) -> Result<(), String>) -> Statistics {
    let end = trace.len();
    let explorer = Explorer::new(1).within(once(end..end + 1).collect()).only(Crash::Power);
    let statistics =
        explorer.explore(trace, |_, image| check(image)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(statistics.images > 30, "{statistics}");
    statistics
}

fn same(what: &str, expected: &States, found: &States) -> Result<(), String> {
    let other = expected.iter().find(|(key, state)| found[*key] != **state);
    other.map_or(Ok(()), |(key, state)| {
        let text = |state: &State| state.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
        Err(format!("{what}: {key} is {:?}, and was {:?}", text(&found[key]), text(state)))
    })
}

/// Whether the table leads into a page that is free, as `docs/formats/scm.md` says: neither its line says what it holds nor has it a
/// block's header.
pub fn leads_into_free_pages(region: &SimRegion) -> Option<String> {
    let all = region.to_bytes();
    let word = |at: usize| u64::from_le_bytes(all[at..at + 8].try_into().unwrap());
    let lines = 512 + 3 * 448;
    let buckets = lines + geometry().pages() * 128;
    let pages = (buckets + geometry().buckets as usize * 8).next_multiple_of(64) + 128;
    let is_free = |place: usize| {
        let page = place / PAGE_BYTES;
        let newest = [0, 64].map(|copy| lines + page * 128 + copy).into_iter().max_by_key(|at| word(at + 8));
        all[newest.unwrap() + 16] == 0 && word(pages + page * PAGE_BYTES) == 0
    };
    for bucket in 0..geometry().buckets as usize {
        let led = word(buckets + bucket * 8);
        let place = (led & ((1 << 45) - 1)) as usize * 8;
        let elements = match led >> 45 & 3 {
            0 => continue,
            2 => (0..word(pages + place) >> 32).map(|i| word(pages + place + 16 + i as usize * 8)).collect(),
            _ => Vec::new(),
        };
        let entries = elements.into_iter().map(|element| (element & ((1 << 48) - 1)) as usize);
        if let Some(place) = entries.chain([place]).find(|place| is_free(*place)) {
            return Some(format!("bucket {bucket} leads into page {}, which is free", place / PAGE_BYTES));
        }
    }
    None
}

/// What an opening has shown stays so: nothing that leads to it is wrong, its keys are counted, and neither new keys that take whatever
/// pages are free nor another opening change it. Of what the crash cut `value_bytes` says how long the groups are that follow.
pub fn stays(
    region: &SimRegion,
    store: Box<dyn Store>,
    seen: &States,
    value_bytes: usize,
) -> Result<(), String> {
    if let Some(wrong) = leads_into_free_pages(region) {
        return Err(wrong);
    }
    let mut all = seen.clone();
    let mut clients: Vec<_> = (0..3).map(|_| Client::of(&*store)).collect();
    for round in 0..4 {
        for (i, client) in clients.iter_mut().enumerate() {
            let (key, value) = (format!("new{round}{i}"), vec![b'0' + round; value_bytes]);
            client.set(&key, Some(value.clone()));
            all.insert(key, Some(value));
        }
        same("as new keys come", seen, &states(&mut clients[0], seen.keys()))?;
        if round == 0 {
            // What stands in the log alone by now.
            let copy = SimRegion::from_image(region.to_bytes());
            let again = open_again(copy);
            same("opened again early", &all, &states(&mut Client::of(&*again), all.keys()))?;
        }
        steps(&*store, 30);
    }
    same("at rest", &all, &states(&mut clients[0], all.keys()))?;
    let count = all.values().flatten().count() as u64;
    if store.len(0) != count {
        return Err(format!("{} keys are counted, and there are {count}", store.len(0)));
    }
    drop((clients, store));
    if !has_nodes() {
        let found = examine(Arc::new(region.clone()), 0, (geometry(), STORE_ID), HASHER, &|_, _| {});
        if !found.faults.is_empty() {
            return Err(format!("{:?}", found.faults));
        }
    }
    let again = open_again(region.clone());
    same("opened again", &all, &states(&mut Client::of(&*again), all.keys()))?;
    if again.len(0) != count {
        return Err(format!("opened again {} keys are counted, and there are {count}", again.len(0)));
    }
    Ok(())
}
