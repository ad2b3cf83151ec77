//! What explorations of spaces over blocks share (`--cfg shuttle`): a tier slow enough to be caught in the middle of anything, and a
//! machine small enough to explore.

mod medium;
mod world;

pub use medium::Medium;
pub use world::{BYSTANDER, Bug, READER, WRITER, World};
