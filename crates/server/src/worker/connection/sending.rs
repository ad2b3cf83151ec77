//! What a connection sends: answers, what others have for it, and the rest of both that the socket did not take.

use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::Ordering::Relaxed;

use terrace_engine::Batch;

use super::super::Transport;
use super::{Connection, KEEP_BYTES};
use crate::output::Output;
use crate::protocol::Context;
use crate::registry::flag;
use crate::shared::Counters;

/// Pieces of answers in one system call; the kernel takes 1024.
const PIECES_MAX: usize = 512;

impl Connection {
    /// Sends what others had for it when its next commands came, before these are answered: whoever was answered before them has
    /// told it by then, and so a client may take the answer to a PING for the end of what others did. All that it asked for before
    /// is answered, so invalidations go, too.
    pub(super) fn tell_first(&mut self, ctx: &Context<'_>) {
        if !self.entry.has_pushes() || self.inside || self.closing {
            return;
        }
        let mut bytes = Vec::new();
        self.entry.take_pushes(true, &mut bytes);
        let sent = self.send_pushes(&bytes, ctx);
        Counters::add(&ctx.shared.counters.bytes_out, sent);
        Counters::add(&ctx.shared.counters.writes, usize::from(sent > 0));
    }

    /// Sends what others have for it; returns the bytes sent. Never inside of an answer: answers are written in one piece.
    pub fn look(&mut self, ctx: &Context<'_>, scratch: &mut Output) -> usize {
        self.entry.looked_at();
        self.asleep = false;
        if self.entry.is_killed() && !self.broken {
            Counters::add(&ctx.shared.counters.closed_output, self.entry.has(flag::OVERRUN).into());
            self.broken = true;
        }
        if self.broken || self.closing || self.inside {
            return 0;
        }
        scratch.bytes.clear();
        self.entry.take_pushes(!self.waiting, &mut scratch.bytes);
        self.send_pushes(&scratch.bytes, ctx)
    }

    /// Sends bytes that are no answer behind all that is unsent; returns how many of them were sent.
    fn send_pushes(&mut self, bytes: &[u8], ctx: &Context<'_>) -> usize {
        let is_full = self.output.len() > self.sent;
        let sent = if is_full { 0 } else { self.write(bytes) };
        if sent < bytes.len() && !self.broken {
            self.output.extend_from_slice(&bytes[sent..]);
        }
        self.bound_output(0, ctx);
        self.tell_unsent();
        sent
    }

    /// Lets those who push know how much stands in front of it.
    pub(super) fn tell_unsent(&self) {
        self.entry.output_bytes.store(self.output.len() - self.sent, Relaxed);
    }

    /// Ends it if its unsent bytes, with so many more, are too many. It is not read while they are many, so only answers to
    /// a few large requests come so far, and messages that nobody asked for.
    pub fn bound_output(&mut self, more: usize, ctx: &Context<'_>) {
        let limits = &ctx.shared.limits;
        let subscribed = self.protocol.is_subscribed();
        let bound = if subscribed { &*limits.subscriber_output_bytes } else { &limits.output_bytes };
        let unsent = self.output.len() - self.sent + more;
        if unsent > 0 && bound.get().is_some_and(|max| unsent as u64 > max) && !self.broken {
            tracing::warn!(bytes = unsent, "a client does not read its answers; closing");
            Counters::add(&ctx.shared.counters.closed_output, 1);
            self.end();
        }
    }

    /// Sends what is left over; returns the bytes sent.
    pub fn flush(&mut self, now_ms: u64) -> usize {
        if self.stream.has_unsent() && !self.broken {
            self.broken = self.stream.flush().is_err();
            self.active_ms = now_ms;
        }
        if self.output.len() == self.sent || self.broken {
            return 0;
        }
        self.active_ms = now_ms;
        let output = std::mem::take(&mut self.output);
        let sent = self.write(&output[self.sent..]);
        self.sent += sent;
        if self.sent < output.len() {
            self.output = output;
            if self.sent > self.output.len() / 2 {
                // A peer that reads just fast enough never lets it run empty.
                self.output.consume(self.sent);
                self.sent = 0;
            }
        } else {
            self.sent = 0;
            if output.capacity() <= KEEP_BYTES {
                self.output = output;
                self.output.clear();
            }
        }
        self.tell_unsent();
        sent
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.try_write(|stream| stream.write(&bytes[sent..])) {
                Some(n) => sent += n,
                None => break,
            }
        }
        sent
    }

    /// Sends answers, those that are lent from where they are; returns the bytes sent.
    pub(super) fn send(&mut self, answers: &Output, batch: &Batch) -> usize {
        if answers.lent.is_empty() {
            return self.write(&answers.bytes);
        }
        let mut pieces: Vec<IoSlice<'_>> = answers.pieces(batch).map(IoSlice::new).collect();
        let mut left = &mut pieces[..];
        let mut sent = 0;
        while !left.is_empty() {
            let now = left.len().min(PIECES_MAX);
            let Some(n) = self.try_write(|stream| stream.write_vectored(&left[..now])) else { break };
            sent += n;
            IoSlice::advance_slices(&mut left, n);
        }
        sent
    }

    /// Bytes written by one attempt; `None` if the socket is full or broken.
    fn try_write(&mut self, mut write: impl FnMut(&mut Transport) -> io::Result<usize>) -> Option<usize> {
        loop {
            match write(&mut self.stream) {
                Ok(0) => self.broken = true,
                Ok(n) => return Some(n),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => self.broken = error.kind() != ErrorKind::WouldBlock,
            }
            return None;
        }
    }

    /// Says that no more will be sent. Dropping the stream would do; but with unread bytes in the socket that resets the
    /// connection, and the peer may lose answers that are still on their way.
    pub fn shut_down(&mut self, scratch: &mut [u8]) {
        if self.broken {
            return;
        }
        if self.stream.shut_down().is_ok() {
            // What a client sent behind QUIT or behind its mistake, within reason.
            for _ in 0..16 {
                match self.stream.read(scratch) {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => break,
                }
            }
        }
    }
}
