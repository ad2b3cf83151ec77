//! What the reference keeps for a key.

/// What is known of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The store told.
    Exactly(u64),
    /// The record may have been written again since, without changing its value.
    AtLeast(u64),
    /// The record was written again since.
    Above(u64),
}

/// A record of the reference.
#[derive(Clone, Debug)]
pub struct Record {
    /// The value.
    pub value: Vec<u8>,
    /// memcached's flags.
    pub flags: u32,
    /// When it expires, in milliseconds since the Unix epoch; 0 for never.
    pub expire_at: u64,
    /// What is known of its version.
    pub version: Known,
    /// A protocol's own state.
    pub state: u8,
    /// A cas token of a client's choosing, 0 for none.
    pub token: u64,
}

impl Known {
    /// Whether this version fits.
    pub fn admits(self, version: u64) -> bool {
        match self {
            Self::Exactly(known) => version == known,
            Self::AtLeast(known) => version >= known,
            Self::Above(known) => version > known,
        }
    }
    /// The version is known not to be below this.
    pub fn floor(self) -> u64 {
        let (Self::Exactly(known) | Self::AtLeast(known) | Self::Above(known)) = self;
        known
    }
    /// The answer to "is it this version?", if that is known.
    pub fn equals(self, version: u64) -> Option<bool> {
        match self {
            Self::Exactly(known) => Some(version == known),
            _ if !self.admits(version) => Some(false),
            _ => None,
        }
    }
}

impl Record {
    /// Whether it is there for those who ask.
    pub fn is_live(&self, now_ms: u64) -> bool {
        self.expire_at == 0 || self.expire_at > now_ms
    }
}
