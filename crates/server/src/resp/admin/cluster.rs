//! `CLUSTER` and its like, as a server answers that is not part of a cluster.

use super::super::call::{Call, Outcome};

/// `CLUSTER …`, `READONLY`, `READWRITE`, `ASKING`.
pub(in crate::resp) fn cluster_disabled(_call: &mut Call<'_>) -> Outcome {
    Err("ERR This instance has cluster support disabled".into())
}

/// `MODULE LIST`: there is none.
pub(in crate::resp) fn module_list(call: &mut Call<'_>) -> Outcome {
    call.late(|answer| answer.encoder.array(0))
}
