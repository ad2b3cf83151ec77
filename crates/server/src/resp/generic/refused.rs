//! Commands that are known and refused, with the reason.

use crate::resp::call::{Call, Outcome};

/// `SWAPDB`.
pub(in crate::resp) fn swapdb(_: &mut Call<'_>) -> Outcome {
    Err("ERR SWAPDB is not supported: records are kept with the number of their database".into())
}
