//! Answers as bytes, in either version of the protocol.

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// What a connection starts with.
    #[default]
    Resp2,
    /// Chosen by `HELLO 3`: has maps, sets, booleans, doubles and one null.
    Resp3,
}

impl Version {
    /// 2 or 3.
    pub fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Appends answers to a buffer. Types that RESP2 lacks are written as Redis writes them there.
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
}

impl<'a> Encoder<'a> {
    /// An encoder that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, version: Version) -> Self {
        Self { out, version }
    }

    /// The version it writes.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Writes this version from now on.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// What was written, to append bytes that are encoded already, or to take an answer back.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Begins a push of `len` elements: what comes without having been asked for. RESP2 gets an array.
    pub fn push(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.length(b'*', len),
            Version::Resp3 => self.length(b'>', len),
        }
    }

    /// A status such as `OK`; must hold no line break.
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']), "a status is one line");
        self.line(b'+', text.as_bytes());
    }

    /// An error: its code, such as `ERR`, then a space and its text. Line breaks become spaces.
    pub fn error(&mut self, text: &[u8]) {
        self.out.push(b'-');
        self.out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    /// A whole number.
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// A string of any bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.begin_bulk(bytes.len());
        self.out.extend_from_slice(bytes);
        self.end_bulk();
    }

    /// The head of a string whose bytes, so many, the caller sends behind it: see [`end_bulk`](Self::end_bulk).
    pub fn begin_bulk(&mut self, len: usize) {
        self.length(b'$', len);
    }

    /// What comes behind the bytes of a string.
    pub fn end_bulk(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// The answer for something that is not there.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The answer for an array that is not there.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"*-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// Begins an array of `len` elements, which must follow.
    pub fn array(&mut self, len: usize) {
        self.length(b'*', len);
    }

    /// Begins a map of `len` keys, each followed by its value; RESP2 gets a flat array.
    pub fn map(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.length(b'*', len * 2),
            Version::Resp3 => self.length(b'%', len),
        }
    }

    /// Begins a set of `len` elements; RESP2 gets an array.
    pub fn set(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.length(b'*', len),
            Version::Resp3 => self.length(b'~', len),
        }
    }

    /// True or false; RESP2 gets 1 or 0.
    pub fn boolean(&mut self, value: bool) {
        match self.version {
            Version::Resp2 => self.integer(value.into()),
            Version::Resp3 => self.out.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" }),
        }
    }

    /// A floating-point number, in the shortest form that reads back the same; RESP2 gets a string.
    pub fn double(&mut self, value: f64) {
        let text = if value.is_nan() {
            "nan".to_owned()
        } else if value != 0.0 && value.is_finite() && !(1e-5..1e17).contains(&value.abs()) {
            format!("{value:e}")
        } else {
            value.to_string()
        };
        self.decimal(text.as_bytes());
    }

    /// A number with a point as its digits; RESP2 gets a string.
    pub fn decimal(&mut self, digits: &[u8]) {
        match self.version {
            Version::Resp2 => self.bulk(digits),
            Version::Resp3 => self.line(b',', digits),
        }
    }

    /// Text for people, to be shown as it is; RESP2 gets a string.
    pub fn verbatim(&mut self, text: &[u8]) {
        match self.version {
            Version::Resp2 => self.bulk(text),
            Version::Resp3 => {
                self.length(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, kind: u8, number: i64) {
        self.line(kind, itoa::Buffer::new().format(number).as_bytes());
    }

    fn length(&mut self, kind: u8, len: usize) {
        self.line(kind, itoa::Buffer::new().format(len).as_bytes());
    }
}
