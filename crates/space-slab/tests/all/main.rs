//! Tests of whole stores over slabs. One program, since each would compile the engine anew.

mod beside;
mod blind;
mod conformance;
mod expiry;
mod growth;
mod keys;
mod large;
mod partitions;
mod placement;
mod policies;
mod reads;
mod snapshot;
mod swap;
