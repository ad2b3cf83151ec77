//! media-sim.
