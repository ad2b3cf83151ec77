//! What the kernel's share of a request is, by the way sockets are served: epoll, or io_uring.
//!
//! ```text
//!   event_loops epoll 127.0.0.1:7000             readiness, then one read and one write a connection (as the server does)
//!   event_loops uring 127.0.0.1:7000             multishot receives into provided buffers, sends queued, one enter a turn
//! ```
//! It answers Redis's GET with as many bytes as the last SET brought, whatever the key, and keeps nothing: what it costs is the least
//! that any server could cost with that event loop. One thread. `cargo xtask request-cost --servers loop-epoll,loop-uring` measures both.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use mio::{Events, Interest, Poll, Token};

fn main() -> io::Result<()> {
    let usage = || io::Error::other("usage: event_loops epoll|uring ADDRESS");
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, address] = &words[..] else { return Err(usage()) };
    let address: SocketAddr = address.parse().map_err(|_| usage())?;
    let answers = Answers::default();
    match kind.as_str() {
        "epoll" => epoll(address, answers),
        "uring" => uring(address, answers),
        _ => Err(usage()),
    }
}

/// One read takes at most this much.
const READ_BYTES: usize = 256 << 10;

/// What is answered.
#[derive(Default)]
struct Answers {
    /// The answer to a GET.
    value: Vec<u8>,
    value_bytes: usize,
}

impl Answers {
    fn set(&mut self, value_bytes: usize) {
        if self.value_bytes != value_bytes {
            self.value_bytes = value_bytes;
            self.value = format!("${value_bytes}\r\n").into_bytes();
            self.value.resize(self.value.len() + value_bytes, b'v');
            self.value.extend_from_slice(b"\r\n");
        }
    }

    /// Answers the whole requests at the beginning of `bytes`; returns their length.
    fn answer(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let mut done = 0;
        while let Some(Request { words, last, length }) = request(&bytes[done..]) {
            if words == 2 {
                out.extend_from_slice(&self.value);
            } else {
                self.set(last);
                out.extend_from_slice(b"+OK\r\n");
            }
            done += length;
        }
        done
    }

    /// The same, for bytes behind what was left over earlier.
    fn hear(&mut self, left: &mut Vec<u8>, bytes: &[u8], out: &mut Vec<u8>) {
        if left.is_empty() {
            let done = self.answer(bytes, out);
            left.extend_from_slice(&bytes[done..]);
        } else {
            left.extend_from_slice(bytes);
            let done = self.answer(left, out);
            left.drain(..done);
        }
    }
}

struct Request {
    words: usize,
    /// Bytes of the last word.
    last: usize,
    /// Bytes of the whole.
    length: usize,
}

/// The request at the beginning of `bytes`; `None` while it is not whole.
fn request(bytes: &[u8]) -> Option<Request> {
    let (words, mut at) = number(bytes)?;
    let mut last = 0;
    for _ in 0..words {
        let (length, header) = number(bytes.get(at..)?)?;
        at += header + length + 2;
        last = length;
    }
    (at <= bytes.len()).then_some(Request { words, last, length: at })
}

/// The number of a line like `*3` or `$12`, and the line's length.
fn number(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let digits = bytes.get(1..end.checked_sub(1)?)?;
    Some((digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit.wrapping_sub(b'0') % 10)), end + 1))
}

#[derive(Default)]
struct Bytes {
    left: Vec<u8>,
    out: Vec<u8>,
}

fn epoll(address: SocketAddr, mut answers: Answers) -> io::Result<()> {
    const LISTENER: Token = Token(usize::MAX);
    let mut poll = Poll::new()?;
    let mut listener = mio::net::TcpListener::bind(address)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut all: Vec<Option<(mio::net::TcpStream, Bytes)>> = Vec::new();
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; READ_BYTES];
    let mut answered = Vec::new();
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            let Token(i) = event.token();
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let both = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut stream, Token(all.len()), both)?;
                    all.push(Some((stream, Bytes::default())));
                }
                continue;
            }
            let Some((stream, bytes)) = &mut all[i] else { continue };
            let over = loop {
                match stream.read(&mut buffer) {
                    Ok(0) => break true,
                    Ok(n) => {
                        answers.hear(&mut bytes.left, &buffer[..n], &mut bytes.out);
                        if n < buffer.len() {
                            break event.is_read_closed();
                        }
                    }
                    Err(error) => break error.kind() != ErrorKind::WouldBlock,
                }
            };
            if over {
                all[i] = None;
            } else {
                answered.push(i);
            }
        }
        for i in answered.drain(..) {
            let Some((stream, bytes)) = &mut all[i] else { continue };
            if !bytes.out.is_empty()
                && let Ok(n) = stream.write(&bytes.out)
            {
                bytes.out.drain(..n);
            }
        }
    }
}

/// What a completion is of, in its upper half; the lower is a connection.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1 << 32;
const SEND: u64 = 2 << 32;

/// Buffers that the kernel fills as bytes come.
struct Provided {
    /// The ring by which they are lent, page-aligned.
    ring: *mut BufRingEntry,
    memory: Vec<u8>,
    tail: u16,
}

const GROUP: u16 = 0;
const BUFFERS: u16 = 512;
const BUFFER_BYTES: usize = 16 << 10;

impl Provided {
    fn new(uring: &IoUring) -> io::Result<Self> {
        let layout =
            std::alloc::Layout::from_size_align(usize::from(BUFFERS) * size_of::<BufRingEntry>(), 4096)
                .map_err(io::Error::other)?;
        // SAFETY: the layout's size is not zero.
        let ring = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<BufRingEntry>();
        if ring.is_null() {
            return Err(ErrorKind::OutOfMemory.into());
        }
        // SAFETY: the ring has room for so many entries, is page-aligned, and is never freed.
        unsafe { uring.submitter().register_buf_ring_with_flags(ring as u64, BUFFERS, GROUP, 0) }?;
        let mut provided = Self { ring, memory: vec![0; usize::from(BUFFERS) * BUFFER_BYTES], tail: 0 };
        (0..BUFFERS).for_each(|id| provided.lend(id));
        Ok(provided)
    }

    fn lend(&mut self, id: u16) {
        let at = usize::from(id) * BUFFER_BYTES;
        // SAFETY: the index is within the ring, whose entries only this thread writes; the kernel reads those before the tail.
        let entry = unsafe { &mut *self.ring.add(usize::from(self.tail % BUFFERS)) };
        entry.set_addr(self.memory[at..].as_ptr() as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the ring's own address; the tail lies in its first entry and is aligned.
        let tail = unsafe { &*BufRingEntry::tail(self.ring).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }

    fn bytes(&self, id: u16, length: usize) -> &[u8] {
        &self.memory[usize::from(id) * BUFFER_BYTES..][..length]
    }
}

struct Submitted {
    stream: std::net::TcpStream,
    bytes: Bytes,
    /// Bytes on their way; they don't move.
    sending: Vec<u8>,
    sent: usize,
    is_queued: bool,
}

fn push(uring: &mut IoUring, entry: &squeue::Entry) -> io::Result<()> {
    // SAFETY: what entries point to (`sending`, provided buffers) stays where it is until they complete.
    while unsafe { uring.submission().push(entry) }.is_err() {
        uring.submit()?;
    }
    Ok(())
}

fn receive(fd: i32, i: usize) -> squeue::Entry {
    opcode::RecvMulti::new(Fd(fd), GROUP).build().user_data(RECEIVE | i as u64)
}

fn send(one: &Submitted, i: usize) -> squeue::Entry {
    let bytes = &one.sending[one.sent..];
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let send = opcode::Send::new(Fd(one.stream.as_raw_fd()), bytes.as_ptr(), length);
    send.build().user_data(SEND | i as u64)
}

fn uring(address: SocketAddr, mut answers: Answers) -> io::Result<()> {
    let mut uring: IoUring =
        IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(8192).build(2048)?;
    let mut provided = Provided::new(&uring)?;
    let listener = TcpListener::bind(address)?;
    let accept = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).build().user_data(ACCEPT);
    push(&mut uring, &accept)?;
    let mut all: Vec<Option<Submitted>> = Vec::new();
    let mut answered = Vec::new();
    let mut done: Vec<cqueue::Entry> = Vec::new();
    loop {
        uring.submit_and_wait(1)?;
        done.extend(uring.completion());
        for entry in done.drain(..) {
            let (kind, i) = (entry.user_data() >> 32 << 32, entry.user_data() as u32 as usize);
            match kind {
                RECEIVE => {
                    let Some(one) = &mut all[i] else { continue };
                    if let (Some(id), length @ 1..) = (cqueue::buffer_select(entry.flags()), entry.result()) {
                        answers.hear(
                            &mut one.bytes.left,
                            provided.bytes(id, length as usize),
                            &mut one.bytes.out,
                        );
                        provided.lend(id);
                        if !one.is_queued {
                            one.is_queued = true;
                            answered.push(i);
                        }
                    }
                    if !cqueue::more(entry.flags()) {
                        // Out of buffers: again. Anything else is its end.
                        if entry.result() > 0 || entry.result() == -(libc::ENOBUFS) {
                            push(&mut uring, &receive(one.stream.as_raw_fd(), i))?;
                        } else if one.sending.is_empty() {
                            all[i] = None;
                        }
                    }
                }
                SEND => {
                    let Some(one) = &mut all[i] else { continue };
                    one.sent += usize::try_from(entry.result()).unwrap_or(one.sending.len());
                    if one.sent < one.sending.len() {
                        push(&mut uring, &send(one, i))?;
                    } else {
                        one.sending.clear();
                        one.sent = 0;
                        if !one.bytes.out.is_empty() && !one.is_queued {
                            one.is_queued = true;
                            answered.push(i);
                        }
                    }
                }
                _ => {
                    if let Ok(fd) = u32::try_from(entry.result()) {
                        use std::os::fd::{FromRawFd as _, OwnedFd};
                        // SAFETY: the kernel has just opened it for this completion; nobody else owns it.
                        let stream: std::net::TcpStream = unsafe { OwnedFd::from_raw_fd(fd as i32) }.into();
                        stream.set_nodelay(true)?;
                        push(&mut uring, &receive(fd as i32, all.len()))?;
                        let (bytes, sending) = (Bytes::default(), Vec::new());
                        all.push(Some(Submitted { stream, bytes, sending, sent: 0, is_queued: false }));
                    }
                }
            }
        }
        for i in answered.drain(..) {
            let Some(one) = &mut all[i] else { continue };
            one.is_queued = false;
            if one.sending.is_empty() && !one.bytes.out.is_empty() {
                std::mem::swap(&mut one.sending, &mut one.bytes.out);
                push(&mut uring, &send(one, i))?;
            }
        }
    }
}
