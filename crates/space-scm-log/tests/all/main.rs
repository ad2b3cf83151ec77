//! The engines by themselves: what they answer, and crashes that are chosen. The crash sweep over them is `proof`'s, as every engine's.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod bonsai_schedules;
mod conformance;
mod let_go;
mod mended;
mod ranges;
mod repaired;
mod schedules;
mod support;
mod swapped;
mod zeroed;
