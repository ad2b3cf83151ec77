//! Records in DRAM only: the ceiling to compare with, and the smallest space there is.
//!
//! ```text
//!   address --> heap record (words)        in-place update where the new record fits
//!                                           else a new one; the old one is freed once every session has passed
//! ```
//!
//! An [`Address`](terrace_index::Address) is the heap pointer itself: user-space pointers have 47 bits here. Nothing survives the process except
//! through a clean stop, which the library that opens this space takes care of.
//!
//! A full store that evicts goes round the index as CLOCK does (`evict.rs`): what was used since the last round stays, and no more
//! leaves than the writes that wait have need of.
//!
//! # Thread safety
//! A record is written only inside the index's critical section for its key. Readers copy under its version: the writer
//! sets bit 63, rewrites, stores the new version; a reader that saw the bit, or another version afterwards, starts again.
//!
//! # Invariants
//! A record that left the index is freed only after an epoch that began later has been passed by every session, and while nobody searches
//! the index for victims.

mod allocated;
mod evict;
mod open;
mod record;
mod space;

pub use open::open;
pub use space::DramSpace;
