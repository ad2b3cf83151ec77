//! A client that came while the store was opened.
//!
//! What it sends is read to know how many answers it waits for, and never kept beyond a few KiB: a command that is longer is
//! answered and its connection closed.

use std::io::{self, ErrorKind};
use std::time::Instant;

use terrace_protocol::resp::{Encoder, Limits, Parser, Version};

use super::Progress;
use crate::accept::{MEMCACHED, REDIS};
use crate::listener::Accepted;
use crate::options::ServerOptions;
use crate::worker::Transport;

/// Bytes kept of an unfinished command, and of answers that a client does not read.
const KEPT_BYTES: usize = 8 << 10;
/// Reads at one go.
const READS_MAX: usize = 1024;
const LOADING: &str = "LOADING Redis is loading the dataset in memory";
const MEMCACHED_LOADING: &[u8] = b"SERVER_ERROR loading: the store is being recovered\r\n";

/// What all are told by.
pub(super) struct Told {
    progress: &'static Progress,
    started: Instant,
    protected: bool,
    /// Redis's clients must log in, or memcached's.
    login: [bool; 2],
}

impl Told {
    pub fn new(options: &ServerOptions, progress: &'static Progress) -> Self {
        let redis =
            !options.requirepass.is_empty() || options.acl_file.is_some() || !options.users.is_empty();
        let login = [redis, options.memcached_users.is_some()];
        Self { progress, started: Instant::now(), protected: options.protected_mode, login }
    }
}

pub(super) struct Client {
    transport: Transport,
    is_redis: bool,
    /// The protected mode keeps it out.
    denied: bool,
    parser: Parser,
    input: Vec<u8>,
    output: Vec<u8>,
    /// It gets no more answers than it has.
    closing: bool,
    /// It was told so: what it still sends is thrown away until it closes.
    ended: bool,
}

impl Client {
    pub fn new(accepted: Accepted, is_redis: bool, told: &Told) -> Self {
        let denied = told.protected && !accepted.remote.is_local() && !told.login[usize::from(!is_redis)];
        let limits = Limits { args_max: KEPT_BYTES, bulk_bytes_max: KEPT_BYTES };
        Self {
            transport: accepted.transport,
            is_redis,
            denied,
            parser: Parser::new(limits),
            input: Vec::new(),
            output: Vec::new(),
            closing: false,
            ended: false,
        }
    }

    pub fn source(&mut self) -> &mut dyn mio::event::Source {
        self.transport.source()
    }

    /// There are too many: it is told at once.
    pub fn send_away(mut self) {
        self.refuse();
        // A fresh connection has room for it; if not, it is closed all the same.
        let _ = self.flush();
    }

    fn refuse(&mut self) {
        match (self.denied, self.is_redis) {
            (true, true) => self.output.extend_from_slice(REDIS.denied.as_bytes()),
            (true, false) => self.output.extend_from_slice(MEMCACHED.denied.as_bytes()),
            (false, true) => Encoder::new(&mut self.output, Version::Resp2).error(LOADING.as_bytes()),
            (false, false) => self.output.extend_from_slice(MEMCACHED_LOADING),
        }
        self.closing = true;
    }

    /// Reads and answers what is there; `false`: it is to be closed.
    pub fn goes_on(&mut self, told: &Told) -> bool {
        if self.denied && !self.closing {
            self.refuse();
        }
        let mut buffer = [0; KEPT_BYTES];
        for _ in 0..READS_MAX {
            if self.flush().is_err() || self.output.len() > KEPT_BYTES {
                return false;
            }
            if self.closing && self.output.is_empty() && !self.ended {
                self.ended = true;
                if self.transport.shut_down().is_err() {
                    return false;
                }
            }
            match self.transport.read(&mut buffer) {
                Ok(0) => return false,
                // Closed with bytes unread the connection would lose its last answer.
                Ok(_) if self.closing => {}
                Ok(bytes) => self.take(&buffer[..bytes], told),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        // It sends faster than it is read, and others wait.
        false
    }

    fn take(&mut self, bytes: &[u8], told: &Told) {
        if !self.is_redis {
            // What a line is followed by can't be told from the next without reading it.
            return self.refuse();
        }
        self.input.extend_from_slice(bytes);
        let mut taken = 0;
        while !self.closing {
            match self.parser.next(&self.input[taken..]) {
                Ok(Some(length)) => {
                    let args = self.parser.args(&self.input[taken..]);
                    let name = args.get(0).unwrap_or_default();
                    let mut encoder = Encoder::new(&mut self.output, Version::Resp2);
                    if args.is_empty() {
                        // An empty line has no answer.
                    } else if name.eq_ignore_ascii_case(b"quit") {
                        encoder.simple("OK");
                        self.closing = true;
                    } else if name.eq_ignore_ascii_case(b"info") && !told.login[0] {
                        encoder.bulk(told.progress.info(told.started).as_bytes());
                    } else {
                        encoder.error(LOADING.as_bytes());
                    }
                    taken += length;
                }
                Ok(None) => break,
                Err(_) => self.refuse(),
            }
        }
        self.input.drain(..taken);
        if self.input.len() > KEPT_BYTES {
            self.refuse();
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.transport.write(&self.output) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
