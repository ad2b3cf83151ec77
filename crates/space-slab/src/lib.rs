//! Three tiers, each record in the one that its temperature earns. So far: how temperature is kept, as pure code.
//!
//! ```text
//!   a get --> Policy::touched(access word, now)        a few instructions, no allocation, no list
//!                        |
//!   tier's slots         v
//!   [access][access][access][access]..  <-- hand, list or sample: Policy::victim --> the slot to empty next
//!                                                                       |
//!   record below, its count (word, or Sketch if on the SSD) --> Gate::admits(count, victim's count, thresholds)
//!                                                                       |
//!                                                            up, or stays where it is
//! ```
//!
//! The design of the whole is in `docs/tac.md`; what stands here is its section 4. The same code runs under the trace
//! simulator (`terrace bench trace`).

#![forbid(unsafe_code)]

pub mod policy;
