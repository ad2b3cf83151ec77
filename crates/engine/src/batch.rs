//! A turn's operations and their answers, in buffers that are reused from turn to turn.

use std::collections::BTreeSet;

use crate::databases::Databases;
use crate::op::{Op, OpKind, Span};
use crate::record::KEY_BYTES_MAX;
use crate::reply::{Meta, OpError, Reply};
use terrace_media::Buffer;

/// Operations to execute together, and their answers.
///
/// A batch is where prefetching, one log write and one commit come from. Fill it, hand it to
/// [`Session::execute`](crate::Session::execute), read the answers once the session says it is settled, clear it, use it again.
/// Operations take effect in order for each key.
#[derive(Default)]
pub struct Batch {
    pub(crate) input: Buffer,
    pub(crate) ops: Vec<Op>,
    /// Runs of `ops` that are atomic.
    pub(crate) atomic: Vec<Atomic>,
    pub(crate) open_atomic: Option<Atomic>,
    pub(crate) output: Buffer,
    pub(crate) replies: Vec<Reply>,
    /// Keys found by `Scan` operations: operation and span of the key in `output`.
    pub(crate) scanned: Vec<(u32, Span)>,
    /// Rows found by `Range` operations: operation and row.
    pub(crate) ranged: Vec<(u32, Row)>,
    /// See [`Batch::made_key`].
    pub(crate) made: BTreeSet<u32>,
    pub(crate) pending: Vec<crate::pending::Pending>,
    pub(crate) ticket: crate::commit::Ticket,
    /// See [`Batch::sync`].
    pub(crate) syncs: bool,
    /// See [`Batch::peek`].
    pub(crate) peeks: bool,
    /// Where the databases lay as its first operation was executed.
    pub(crate) databases: Databases,
    pub(crate) bounds: Bounds,
    /// Where execution goes on; 0 if it did not stop.
    pub(crate) stopped_at: usize,
    /// Execution does not stop before this operation.
    pub(crate) at_least: usize,
    /// About what the reads of pending operations of this part will bring.
    pub(crate) awaited_bytes: usize,
}

/// What the answers of a batch may take: see [`Batch::bound`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub stop: usize,
    pub transaction: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { stop: usize::MAX, transaction: crate::core::face::OUTPUT_BYTES_MAX }
    }
}

/// A run of operations that are one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    pub start: u32,
    pub end: u32,
    /// An error of one is the answer of all.
    pub strict: bool,
    /// The operation that must not have ended its group.
    pub after: Option<u32>,
}

/// Buffers larger than this are given back when a batch is cleared.
const KEEP_BYTES: usize = 1 << 20;

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }
    /// Empties it and keeps its buffers (large ones are freed).
    ///
    /// # Panics
    /// If operations are still pending: poll the batch to its end first. (A batch with pending operations must not be
    /// dropped either: later operations of its session on the same keys wait behind them.)
    pub fn clear(&mut self) {
        assert!(self.pending.is_empty(), "a batch with pending operations can't be cleared");
        self.input.clear();
        self.input.shrink_to(KEEP_BYTES);
        self.output.clear();
        self.output.shrink_to(KEEP_BYTES);
        self.ops.clear();
        self.atomic.clear();
        self.open_atomic = None;
        self.replies.clear();
        self.scanned.clear();
        self.ranged.clear();
        self.made.clear();
        self.ticket.clear();
        self.syncs = false;
        self.peeks = false;
        (self.stopped_at, self.at_least) = (0, 0);
    }
    /// Bounds what answers may take. Once those of this batch take more than `stop` bytes, execution stops in front of the next
    /// operation (or atomic group): see [`executed`](Self::executed). A transaction that would read, or answer with, more than
    /// `transaction` bytes is refused as a whole ([`OpError::TransactionTooLong`]). Without this call execution does not stop.
    pub fn bound(&mut self, stop: usize, transaction: usize) {
        self.bounds = Bounds { stop, transaction: transaction.min(crate::core::face::OUTPUT_BYTES_MAX) };
    }
    /// Operations that were executed: all, or those in front of which execution stopped. The others go on with the next
    /// [`Session::execute`](crate::Session::execute) of the same batch, once this part has settled.
    pub fn executed(&self) -> usize {
        if self.stopped_at == 0 { self.ops.len() } else { self.stopped_at }
    }
    /// Whether no operation is left to be executed.
    pub fn is_whole(&self) -> bool {
        self.stopped_at == 0
    }
    /// Before the next part is executed: it does not stop before this operation.
    pub fn run_to(&mut self, end: usize) {
        self.at_least = end.min(self.ops.len());
    }
    /// Before the next part is executed: the answers so far were given out, and their bytes are forgotten. (What they were, without
    /// bytes, is still known.)
    ///
    /// # Panics
    /// As [`clear`](Self::clear).
    pub fn forget_answers(&mut self) {
        assert!(self.pending.is_empty(), "answers can't be forgotten while operations are pending");
        self.output.clear();
        self.output.shrink_to(KEEP_BYTES);
        self.scanned.clear();
        self.ranged.clear();
        self.ticket.clear();
    }
    /// Whether execution is to stop in front of this operation.
    #[inline]
    pub(crate) fn stops_at(&self, i: usize) -> bool {
        self.output.len() + self.awaited_bytes > self.bounds.stop && i >= self.at_least
    }
    /// Operations in it.
    pub fn len(&self) -> usize {
        self.ops.len()
    }
    /// Whether it holds no operation.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
    /// Bytes of keys and values in it; callers bound this.
    pub fn input_bytes(&self) -> usize {
        self.input.len()
    }
    /// Copies bytes (a key or a value) in.
    ///
    /// # Panics
    /// If the batch's bytes exceed 4 GiB.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Span {
        push(&mut self.input, bytes)
    }
    /// The bytes of an input span.
    #[inline]
    pub fn input(&self, span: Span) -> &[u8] {
        slice(&self.input, span)
    }
    /// Adds an operation on a key; returns its number.
    #[inline]
    pub fn push(&mut self, db: u8, key: &[u8], kind: OpKind) -> usize {
        let key = self.bytes(key);
        self.push_op(Op { db, key, kind })
    }
    /// Adds an operation whose key was copied in before; returns its number.
    ///
    /// # Panics
    /// If the database is out of range.
    #[inline]
    pub fn push_op(&mut self, op: Op) -> usize {
        assert!((op.db as usize) < crate::op::DATABASES, "database {} out of range", op.db);
        if let OpKind::Swap { with } = op.kind {
            assert!((with as usize) < crate::op::DATABASES, "database {with} out of range");
        }
        self.ops.push(op);
        self.ops.len() - 1
    }
    /// Makes the operations pushed until [`end_atomic`](Self::end_atomic) one step, in a crash and in what others see. Each sees
    /// what those before it did. An error of one is the answer of all, and nothing is done.
    ///
    /// Any operations on single keys may be in it. All that they write must fit a quarter of DRAM and half of the log, else all answer
    /// [`OpError::GroupTooLong`]. A record is written once, so answers about one carry the version that it ends with.
    pub fn begin_atomic(&mut self) {
        self.begin(true);
    }
    /// The same, but an error of one operation leaves the others as they are: a protocol's transaction.
    pub fn begin_transaction(&mut self) {
        self.begin(false);
    }
    fn begin(&mut self, strict: bool) {
        debug_assert!(self.open_atomic.is_none(), "atomic groups don't nest");
        let start = self.ops.len() as u32;
        self.open_atomic = Some(Atomic { start, end: start, strict, after: None });
    }
    /// The group that was begun last happens only if operation `guard`, of a group before it in this batch, does not end its own
    /// group ([`Outcome::Abort`](crate::Outcome::Abort)): else its operations answer [`Reply::Aborted`], too. A whole-database
    /// operation may be such a group, alone.
    pub fn only_after(&mut self, guard: usize) {
        if let Some(group) = &mut self.open_atomic {
            debug_assert!(guard < group.start as usize, "a group waits for what comes before it");
            group.after = Some(guard as u32);
        }
    }
    /// The batch settles only once everything that was executed before it, by whichever session, is safe from power loss, whatever
    /// the store promises. (Without a log nothing can be promised, and it settles as any other.)
    pub fn sync(&mut self) {
        self.syncs = true;
    }
    /// Its reads leave no trace: no record is kept nearer because of them, and none counts as a hit or a miss. For who reads everything
    /// once.
    pub fn peek(&mut self) {
        self.peeks = true;
    }
    /// Whether a group was begun and not ended.
    pub fn is_atomic(&self) -> bool {
        self.open_atomic.is_some()
    }
    /// Ends the group begun by [`begin_atomic`](Self::begin_atomic) or [`begin_transaction`](Self::begin_transaction).
    pub fn end_atomic(&mut self) {
        if let Some(group) = self.open_atomic.take() {
            let end = self.ops.len() as u32;
            if end > group.start + 1 || (end > group.start && group.after.is_some()) {
                self.atomic.push(Atomic { end, ..group });
            }
        }
    }
    /// The group that starts there.
    pub(crate) fn group_at(&self, start: usize) -> Option<&Atomic> {
        let found = self.atomic.binary_search_by_key(&start, |group| group.start as usize);
        found.ok().and_then(|i| self.atomic.get(i))
    }
    /// Where the database of an operation lies.
    #[inline]
    pub(crate) fn place(&self, op: &Op) -> u8 {
        self.databases.place(op.db)
    }
    /// Whether what this group waits for has ended its own.
    pub(crate) fn is_aborted_at(&self, start: usize) -> bool {
        let guard = self.group_at(start).and_then(|group| group.after);
        guard.is_some_and(|guard| self.replies.get(guard as usize) == Some(&Reply::Aborted))
    }
    /// Whether an operation made a key where there was none. Known of those that were executed while somebody was to
    /// [hear of expired keys](crate::Store::hear_expired): else a set may not have looked.
    pub fn made_key(&self, i: usize) -> bool {
        self.made.contains(&(i as u32))
    }
    /// The operation with this number.
    pub fn op(&self, i: usize) -> &Op {
        &self.ops[i]
    }
    /// The answer of an operation. Needs proof that the answers may be given out: see
    /// [`Session::settled`](crate::Session::settled).
    #[inline]
    pub fn reply(&self, i: usize, proof: &Settled) -> Reply {
        proof.admit(self.replies[i])
    }
    /// Whether an operation did nothing for want of room, or because it is too long. Unlike the answer itself this may be known
    /// before the batch is settled: what was not done needs no durability.
    pub fn is_refused(&self, i: usize) -> bool {
        let refusal = |error| {
            matches!(
                error,
                OpError::Full
                    | OpError::ValueTooLong(_)
                    | OpError::GroupTooLong(_)
                    | OpError::TransactionTooLong(_)
            )
        };
        matches!(self.replies[i], Reply::Error(error) if refusal(error))
    }
    /// The bytes of an answer's span.
    #[inline]
    pub fn output(&self, span: Span) -> &[u8] {
        slice(&self.output, span)
    }
    /// The keys that `Scan` operation `i` found.
    pub fn scanned(&self, i: usize) -> impl Iterator<Item = &[u8]> {
        self.scanned
            .iter()
            .filter(move |(op, _)| *op as usize == i)
            .map(|(_, span)| slice(&self.output, *span))
    }
    /// The records that `Range` operation `i` found, in the order of their keys. Needs the same proof as
    /// [`reply`](Self::reply).
    pub fn ranged<'a>(&'a self, i: usize, _proof: &Settled) -> impl Iterator<Item = &'a Row> {
        self.ranged.iter().filter(move |(op, _)| *op as usize == i).map(|(_, row)| row)
    }
}

/// One record of a range. Spans lie in the batch's output arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key.
    pub key: Span,
    /// What is kept beside the value; of a damaged record, its version alone.
    pub meta: Meta,
    /// The value, if it was asked for and the record is sound.
    pub value: Option<Span>,
    /// The record was damaged on its medium: a read of the key answers the error.
    pub damaged: bool,
}

/// Proof that every operation of a batch is answered and that the answers are as durable as the store promised.
/// Only a session makes one; what answers a client takes one.
#[derive(Debug)]
#[must_use = "without it the answers can't be read"]
pub struct Settled {
    /// The log failed: nothing can be acknowledged, and this is answered.
    pub(crate) failed: Option<OpError>,
}

/// Bytes that are as many as all others of a batch.
const LONG_BYTES: usize = 1 << 20;

#[inline]
pub(crate) fn push(arena: &mut Buffer, bytes: &[u8]) -> Span {
    let start = arena.len();
    if bytes.len() >= LONG_BYTES {
        // Once, and with room for its key behind it: an arena that grows is twice as large, and takes three times as much meanwhile.
        arena.reserve_exact(bytes.len() + 2 * KEY_BYTES_MAX);
    }
    arena.extend_from_slice(bytes);
    span(start, bytes.len())
}

#[inline]
pub(crate) fn span(start: usize, len: usize) -> Span {
    assert!(start + len <= u32::MAX as usize, "a batch holds at most 4 GiB");
    Span { start: start as u32, len: len as u32 }
}

#[inline]
pub(crate) fn slice(arena: &[u8], span: Span) -> &[u8] {
    &arena[span.start as usize..span.start as usize + span.len as usize]
}
