//! PMem slabs: warm records, each in a slot of whole 256-byte granules; immutable, durable, checksummed.
//!
//! ```text
//!   DRAM  slab table: class, use, live slots     taken, seen, staged, gone: a bit a slot each
//!           |
//!   PMem  [ header | slot | slot | .. ][ header | slot | .. ][ header, not used yet ] ..
//!                     '-- commit word | head | record
//!
//!   take --> fill: stream, fence, commit words, fence --> swing --> .. --> let go --> epoch, barrier --> clear, fence --> take
//! ```
//!
//! | file | what |
//! |---|---|
//! | `layout` | the format |
//! | `medium` | the part of a region that the slabs lie in |
//! | `fill`, `free`, `format`, `grow` | what is stored there, and in which order |
//! | `slab`, `bits` | the table in DRAM: which slots are taken, and whose |
//! | `homes` | where records of slots lie in pages, too |
//! | `read` | fetching a record |
//! | `size` | more slabs, and fewer |
//! | `scan` | opening what is there |

#![forbid(unsafe_code)]

mod bits;
mod fill;
mod format;
mod free;
mod grow;
mod homes;
mod layout;
mod medium;
mod read;
mod scan;
mod size;
mod slab;
#[cfg(test)]
mod sweep;
mod sync;

pub use bits::Bits;
pub use layout::{SlotHead, StoredSlot};
pub use medium::{Area, Medium};
pub use slab::{Fills, NONE, PmemSlab, PmemSlabs};
