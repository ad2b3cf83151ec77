//! Records in a heap of persistent memory, with their index in DRAM: the *hybrid* port of Redis and Memcached (`PAPER.md`). Or with
//! their index in the heap, too: `table`.
//!
//! ```text
//!   DRAM   index --> start of a chunk        page table: class, taken chunks
//!            |
//!   PMem   manifest | intents | runs | [ page header | chunk | chunk | .. ][ page .. ] ..
//!                                                       '-- word | head | record
//!
//!   set:   take a chunk of the session's run --> fill, fence --> swing the index --> free the old chunk, fence --> epoch --> take
//! ```
//!
//! A record is durable before the index leads to it, and a chunk is free before anybody misses its record: no answer waits, no log is
//! kept. An opening reads the chunks' fronts and builds any index from them.
//!
//! | file | what |
//! |---|---|
//! | `layout`, `medium`, `manifest` | the format, and where its parts lie |
//! | `fill`, `step`, `format` | what is stored there, and in which order |
//! | `pages`, `session` | which chunks are taken, and by whom |
//! | `map`, `objects`, `extents` | the same of chunks as long as their records need, in place of slabs |
//! | `space`, `read`, `large` | records, and values too long for one |
//! | `background` | free chunks, what has expired, victims, pages for other classes |
//! | `recover` | opening what is there |
//! | `resize` | growing and shrinking |
//! | `inspect`, `inspect_index`, `inspect_map`, `rebuild`, `overlay` | reading and mending it without opening it |
//! | `table` | an index in the heap: the *fully persistent* port |
//! | `learn` | which chunks are taken, of a heap with its index |

#![forbid(unsafe_code)]

mod background;
mod extents;
mod fill;
mod format;
pub mod inspect;
pub mod inspect_index;
mod inspect_map;
mod large;
mod layout;
mod learn;
mod manifest;
mod map;
mod medium;
mod objects;
mod open;
mod overlay;
mod pages;
mod read;
pub mod rebuild;
mod recover;
mod resize;
#[cfg(all(test, shuttle))]
mod schedules;
mod session;
mod space;
mod step;
mod sync;
mod table;

pub use layout::{Front, StoredPage};
pub use medium::{Geometry, Granularity, INDEX_LOAD};
pub use open::{Opening, limits, open, stored_bytes};
pub use space::HeapSpace;
