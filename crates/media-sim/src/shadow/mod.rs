//! Power loss for a process with real threads: every medium twice, as the caches see it and as the outage leaves it.
//!
//! ```text
//!   server ---- stores, writes ----> live   what the process sees; SIGKILL leaves it as it was
//!      '------- fences, syncs -----> kept   what is durable: changed by a fence or a sync alone
//!
//!   SIGKILL, then merge(live, kept): each word (sector) in which they differ is taken from either  -->  crash image
//! ```
//!
//! The explorer beside this module crashes one recorded history everywhere, in one process. Here the threads, sockets and
//! timing are real, and a run meets one crash. What a cut can't show: a word stored to twice between two fences is found in
//! its first or last state, never in the middle one; the explorer covers that.

mod block;
mod merge;
mod outage;
mod region;
mod sabotage;

pub use block::ShadowBlock;
pub use merge::{Grain, Merged, Style, merge};
pub use outage::Outage;
pub use region::ShadowRegion;
pub use sabotage::{Omit, Sabotage};
