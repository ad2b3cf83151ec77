//! Commands that are known and refused, with the reason.

use crate::resp::call::{Call, Outcome};

/// `SORT`, `SORT_RO`: they sort lists and sets.
pub(in crate::resp) fn sort(call: &mut Call<'_>) -> Outcome {
    Err(format!(
        "ERR {} is not supported: it sorts lists and sets, and this server has strings only",
        call.name
    )
    .into())
}
