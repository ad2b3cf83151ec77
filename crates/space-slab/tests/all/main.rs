//! Tests of whole stores over slabs. One program, since each would compile the engine anew.

mod blind;
mod conformance;
mod large;
mod partitions;
mod placement;
mod policies;
mod snapshot;
mod swap;
