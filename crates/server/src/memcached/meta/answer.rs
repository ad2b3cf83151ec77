//! Replies to meta commands.

use std::io::Write as _;

use terrace_engine::{Meta, OpError, Reply, Span};
use terrace_protocol::memcached::meta::{Item, answer_flags, answer_status, answer_value};
use terrace_protocol::memcached::reply;

use super::codec::{BINARY_KEY, STALE, Status, TOKEN_SENT, View, seconds_left};
use super::{MetaPlanned, Verb};
use crate::memcached::DATABASE;
use crate::memcached::answer::Answers;
use crate::memcached::state::Count;

/// The flags that each command's answers give back.
const SHOWN_BY_GET: &[u8] = b"stcflhOk";
const SHOWN_BY_MISS: &[u8] = b"Ok";
const SHOWN_BY_SET: &[u8] = b"Okcs";
const SHOWN_BY_DELETE: &[u8] = b"Ok";
const SHOWN_BY_NUMBER: &[u8] = b"ctOk";

impl Answers<'_> {
    /// Appends one meta command's answer.
    pub(in crate::memcached) fn meta(&mut self, planned: MetaPlanned) {
        self.tally.add(Count::CmdMeta);
        match planned.verb {
            Verb::Get { value, touches, uses, unless } => {
                self.meta_get(planned, value, touches, uses, unless)
            }
            Verb::Set { checked } => self.meta_set(planned, checked),
            Verb::Delete { counts } => self.meta_delete(planned, counts),
            Verb::Number { down, value } => self.meta_number(planned, down, value),
            Verb::Debug => self.meta_debug(planned),
        }
    }

    fn meta_get(
        &mut self,
        planned: MetaPlanned,
        shows_value: bool,
        touches: bool,
        uses: bool,
        unless: Option<u64>,
    ) {
        let batch = self.batch;
        let (mut view, value, cas) = match self.reply(planned.op) {
            Reply::Hit { meta, value } => (View::of(&meta), value.unwrap_or_default(), meta.cas()),
            Reply::Edited { answer, meta, .. } => {
                let mut value = batch.output(answer);
                let view = View::take(&mut value);
                (view, answer.tail(value.len()), cas(&meta, &view))
            }
            Reply::Error(error) => return self.meta_error(error),
            _ => (View::default(), Span::default(), 0),
        };
        let key = batch.input(batch.op(planned.op).key);
        if view.status == Status::Absent {
            self.tally.add(Count::CmdGet);
            self.tally.add(Count::GetMisses);
            self.missed(planned.op);
            let item = Item { binary_key: planned.base64, ..Item::default() };
            return self.brief(planned, b"EN", planned.quiet, SHOWN_BY_MISS, &item);
        }
        self.tally.add(if touches { Count::CmdTouch } else { Count::CmdGet });
        self.tally.add(if touches { Count::TouchHits } else { Count::GetHits });
        self.found(planned.op, view.value_bytes);
        let is_known = view.status != Status::Created && unless == Some(view.cas);
        let shows_value = shows_value && !is_known;
        if shows_value {
            view.value_bytes = value.len() as u64;
            answer_value(self.out, view.value_bytes);
        } else {
            answer_status(self.out, b"HD");
        }
        let mut item = self.item(&view, cas, view.state & BINARY_KEY != 0);
        if let Some(accesses) = self.accesses {
            let access = accesses.of(DATABASE, key, self.ctx.now_ms);
            (item.fetched, item.idle) = (access.fetched, access.idle);
            if uses {
                accesses.fetched(DATABASE, key, self.ctx.now_ms);
            }
        }
        answer_flags(self.out, batch.input(planned.flags), SHOWN_BY_GET, key, &item);
        for (shown, text) in
            [(view.state & TOKEN_SENT != 0, b" Z"), (view.state & STALE != 0, b" X"), (view.won, b" W")]
        {
            if shown {
                self.out.extend_from_slice(text);
            }
        }
        self.out.extend_from_slice(b"\r\n");
        if shows_value {
            self.value(value);
        }
    }

    fn meta_set(&mut self, planned: MetaPlanned, checked: bool) {
        self.tally.add(Count::CmdSet);
        let mut value_bytes = self.sent(planned.op);
        let (status, cas) = match self.reply(planned.op) {
            Reply::Stored { version, .. } => (b"HD", version),
            Reply::Length(length) => {
                value_bytes = length;
                (b"HD", 0)
            }
            // A cas token that is not the record's, or (of a set) no record.
            Reply::NotStored { present: false, .. } if checked => (b"NF", 0),
            Reply::NotStored { present: true, .. } if checked || self.compared(planned.op) => (b"EX", 0),
            Reply::Edited { answer, meta, .. } => {
                let view = View::take(&mut self.batch.output(answer));
                value_bytes = view.value_bytes;
                match view.status {
                    Status::Absent => (b"NF", 0),
                    Status::Mismatch => (b"EX", 0),
                    Status::NotStored => (b"NS", 0),
                    _ => (b"HD", meta.cas()),
                }
            }
            Reply::Error(error) if self.joins_too_much(planned.op, error) => (b"NS", 0),
            Reply::Error(error) => return self.meta_error(error),
            _ => (b"NS", 0),
        };
        if checked {
            self.tally.add(match status {
                b"HD" => Count::CasHits,
                b"NF" => Count::CasMisses,
                _ => Count::CasBadval,
            });
        }
        let stored = status == b"HD";
        if stored {
            self.stored(planned.op);
        }
        self.mutated(
            planned.op,
            match status {
                b"HD" => "stored",
                b"EX" => "exists",
                b"NF" => "not_found",
                _ => "not_stored",
            },
        );
        let item = Item { cas, value_bytes, binary_key: planned.base64, ..Item::default() };
        self.brief(planned, status, planned.quiet && stored, SHOWN_BY_SET, &item);
    }

    /// How long a value the client sent; 0 of an edit, which tells itself.
    fn sent(&self, op: usize) -> u64 {
        use terrace_engine::OpKind;
        match self.batch.op(op).kind {
            OpKind::Set { value, .. } | OpKind::Append { value, .. } => value.len() as u64,
            _ => 0,
        }
    }

    /// Whether an append was to compare a cas token.
    fn compared(&self, op: usize) -> bool {
        use terrace_engine::{Condition, OpKind};
        matches!(self.batch.op(op).kind, OpKind::Append { condition: Condition::Version(_), .. })
    }

    fn meta_delete(&mut self, planned: MetaPlanned, counts: bool) {
        let mut bytes = 0;
        let status = match self.reply(planned.op) {
            Reply::Deleted { old } => {
                bytes = old.map_or(0, |old| old.len() as u64);
                b"HD"
            }
            Reply::Edited { answer, .. } => {
                let view = View::take(&mut self.batch.output(answer));
                bytes = view.value_bytes;
                match view.status {
                    Status::Absent => b"NF",
                    Status::Mismatch => b"EX",
                    _ => b"HD",
                }
            }
            Reply::NotStored { .. } => b"EX",
            Reply::Error(error) => return self.meta_error(error),
            _ => b"NF",
        };
        if status != b"HD" {
            self.tally.add(Count::DeleteMisses);
        } else if counts {
            self.tally.add(Count::DeleteHits);
            self.deleted(planned.op, "md", bytes);
        }
        let item = Item { binary_key: planned.base64, ..Item::default() };
        self.brief(planned, status, planned.quiet && status == b"HD", SHOWN_BY_DELETE, &item);
    }

    fn meta_number(&mut self, planned: MetaPlanned, down: bool, shows_value: bool) {
        let batch = self.batch;
        let (answer, meta) = match self.reply(planned.op) {
            Reply::Edited { answer, meta, .. } => (answer, meta),
            Reply::Error(error) => return self.meta_error(error),
            _ => return,
        };
        let mut number = batch.output(answer);
        let view = View::take(&mut number);
        let (hits, misses) =
            if down { (Count::DecrHits, Count::DecrMisses) } else { (Count::IncrHits, Count::IncrMisses) };
        let item = self.item(&view, cas(&meta, &view), planned.base64);
        let status = match view.status {
            Status::NotNumber => return self.out.extend_from_slice(reply::NOT_A_NUMBER),
            Status::Absent => {
                self.tally.add(misses);
                return self.brief(planned, b"NF", false, SHOWN_BY_MISS, &item);
            }
            Status::Mismatch => return self.brief(planned, b"EX", false, SHOWN_BY_MISS, &item),
            status => status,
        };
        if status == Status::Found {
            self.tally.add(hits);
        }
        if planned.quiet {
            return;
        }
        if shows_value {
            answer_value(self.out, view.value_bytes);
        } else {
            answer_status(self.out, b"HD");
        }
        let key = batch.input(batch.op(planned.op).key);
        answer_flags(self.out, batch.input(planned.flags), SHOWN_BY_NUMBER, key, &item);
        self.out.extend_from_slice(b"\r\n");
        if shows_value {
            self.out.extend_from_slice(number);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    /// What is known of a record, for people. There are no slab classes: all are in class 1, as elsewhere.
    fn meta_debug(&mut self, planned: MetaPlanned) {
        let meta = match self.reply(planned.op) {
            Reply::Hit { meta, .. } => meta,
            Reply::Error(error) => return self.meta_error(error),
            _ => return self.out.extend_from_slice(b"EN\r\n"),
        };
        let key = self.batch.input(self.batch.op(planned.op).key);
        self.out.extend_from_slice(b"ME ");
        if meta.state & BINARY_KEY != 0 {
            terrace_protocol::memcached::encode_key(key, self.out);
        } else {
            self.out.extend_from_slice(key);
        }
        let now_ms = self.ctx.now_ms;
        let access = self.accesses.map(|accesses| accesses.of(DATABASE, key, now_ms));
        let left = seconds_left(meta.expire_at, now_ms);
        // Writing to a Vec can't fail.
        let _ = match meta.expire_at {
            0 => write!(self.out, " exp=-1"),
            _ => write!(self.out, " exp={left}"),
        };
        let _ = write!(
            self.out,
            " la={} cas={} fetch={} cls=1 size={}\r\n",
            access.map_or(0, |access| access.idle),
            meta.cas(),
            if access.is_some_and(|access| access.fetched) { "yes" } else { "no" },
            key.len() as u64 + meta.value_bytes,
        );
    }

    /// An answer without a value.
    fn brief(&mut self, planned: MetaPlanned, status: &[u8; 2], silent: bool, shown: &[u8], item: &Item) {
        if silent {
            return;
        }
        let key = self.batch.input(self.batch.op(planned.op).key);
        answer_status(self.out, status);
        answer_flags(self.out, self.batch.input(planned.flags), shown, key, item);
        self.out.extend_from_slice(b"\r\n");
    }

    fn item(&self, view: &View, cas: u64, binary_key: bool) -> Item {
        let left = seconds_left(view.expire_at, self.ctx.now_ms);
        Item {
            value_bytes: view.value_bytes,
            ttl: (view.expire_at != 0).then_some(left),
            cas,
            flags: view.flags,
            fetched: false,
            idle: 0,
            binary_key,
        }
    }

    /// Errors are told however quiet the client wants it.
    fn meta_error(&mut self, error: OpError) {
        self.error(error, false);
    }
}

/// The cas token afterwards; of a record that the command let expire, the one before.
fn cas(meta: &Meta, view: &View) -> u64 {
    if meta.version == 0 { view.cas } else { meta.cas() }
}
