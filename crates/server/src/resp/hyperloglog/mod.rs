//! HyperLogLogs: strings in Redis's own format, so that those that Redis wrote are understood.

mod dense;
mod estimate;
mod hash;
mod sparse;
mod value;

pub(super) mod commands;
pub(super) mod debug;

const NO_SUCH_VALUE: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";
const CORRUPTED: &str = "INVALIDOBJ Corrupted HLL object detected";
