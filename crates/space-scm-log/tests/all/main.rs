//! The engine by itself, in crashes that are chosen. The crash sweep over it is `proof`'s, as every engine's.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod conformance;
mod mended;
mod ranges;
mod schedules;
mod support;
