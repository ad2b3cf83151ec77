//! The proof that an acknowledged write survives: every engine of the product under every test of the promise.
//!
//! ```text
//!   subjects     every engine, tiny, on simulated media         (a new engine joins here, with one line)
//!      |
//!   crash_sweep  seeded histories crashed everywhere
//!   sick         devices that fail and lie; images with rotten bytes
//!
//!   histories    the real server, loaded and killed again and again; all that its clients saw, checked
//!   fuzz         parsers, decoders, recovery and histories, fed with mangled bytes
//!   torture      the real server, its power cut again and again
//!   dax_guest    the real server on real DAX, inside the virtual machine of `cargo xtask dax-vm`
//!   week         the real server under published workloads: what ordinary life costs
//!   planted      a library of bugs, each put into a copy of the product and caught
//!   sites        the same, with each flush, fence and sync left out in turn
//! ```
//!
//! The tools themselves are libraries below (`media-sim`, `testkit`); this crate knows the engines and gives each tool its
//! command. `cargo xtask NAME` runs them; `docs/recovery.md` says what each shows.
#![forbid(unsafe_code)]

mod contents;
pub mod crash_sweep;
pub mod dax_guest;
pub mod fuzz;
pub mod histories;
pub mod planted;
pub mod sick;
pub mod sites;
pub mod subjects;
pub mod torture;
pub mod week;
