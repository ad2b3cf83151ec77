//! The seam between the machine and the places where records live: a role a file.
//!
//! ```text
//!   Space = Records        where a record lies, get and put       every engine's own
//!         + Background     steps, expiry, eviction, the end       every engine's own
//!         + Sizing         what is where, resizing                every engine's own
//!         + LargeValues    values longer than a record holds      or: InlineOnly
//!         + DeviceReads    reads that a session waits for         or: ReadAtOnce
//!         + Durable        media, syncs, recovery                 or: InDram
//! ```
//!
//! HeterMM's two calls (section 3.2) are the heart of [`Records`]: `get_value(address)` is [`Records::fetch`],
//! `set_value(address, key, value) -> address` is [`Records::put`]. Everything else is what a prototype leaves out: room that is
//! made before a critical section, device reads that don't block, values of any size, background steps, recovery.
//!
//! An engine that lacks a role says so by a marker, and implements nothing of it.

mod background;
mod durable;
mod in_dram;
mod large;
mod reads;
mod records;
mod sizing;

pub use background::{Background, Context, FoundKeys, FoundRecords, Replaced};
pub use durable::{Counted, Durable, Entries, Found, SeeEntry};
pub use in_dram::{InDram, ReadAtOnce};
pub use large::{Former, InlineOnly, LargeValues};
pub use reads::{Arrival, Arrived, DeviceReads};
pub use records::{Class, Fetch, GivenUp, Limits, Records, Room, Under, Want};
pub use sizing::Sizing;

/// All roles together: what the machine needs of a place where records live.
pub trait Space: Records + LargeValues + DeviceReads + Background + Durable + Sizing {}

impl<S: Records + LargeValues + DeviceReads + Background + Durable + Sizing> Space for S {}
