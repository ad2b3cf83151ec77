//! `CONFIG GET`, bounded: each of its patterns is compared with every parameter's name.

use super::call::{Call, Outcome};
use super::{config, glob};
use crate::effort::TOO_MUCH;

/// What a byte of the patterns takes: it is read anew for each parameter, of which there are about as many.
const BYTE_STEPS: u64 = 128;
/// A pattern costs as much as so many bytes, however short it is.
const PATTERN_BYTES: usize = 8;
/// A request of so many bytes has a turn of its own.
const ALONE_BYTES: usize = 512;

/// `CONFIG GET pattern …`.
pub(super) fn config_get(call: &mut Call<'_>) -> Outcome {
    call.args.from(2).try_for_each(glob::check)?;
    let bytes = call.args.bytes() + call.args.len() * PATTERN_BYTES;
    call.client.pausing |= bytes > ALONE_BYTES;
    if !call.client.effort.take(bytes as u64 * BYTE_STEPS) {
        return Err(TOO_MUCH.into());
    }
    config::get(call)
}
