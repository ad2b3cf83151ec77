//! Tests of whole stores over the hybrid log. One program, since each would compile the engine anew.

mod conformance;
mod expiry;
mod hot_set;
mod left_over;
mod many_blocks;
mod openings;
mod reclaim;
mod snapshot;
mod strays;
