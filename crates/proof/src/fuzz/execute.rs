//! Runs one input: a panic, an error and too much memory are all violations.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use parking_lot::Mutex;

use super::Target;

/// Memory that one input may take beyond what there was: targets are bounded by their input and by the small images
/// that they open, so that more means a length that was believed.
const BYTES_MAX: usize = 256 << 20;

/// Measures memory; the program that is run decides how, for it has the allocator.
#[derive(Clone, Copy)]
pub struct Meter {
    /// Forgets the peak; answers the bytes allocated now.
    pub start: fn() -> usize,
    /// The most bytes allocated since.
    pub peak: fn() -> usize,
}

/// Measures nothing.
pub const NO_METER: Meter = Meter { start: || 0, peak: || 0 };

/// Where the last panic was, and what it said.
static PANICKED: Mutex<String> = Mutex::new(String::new());

/// Runs an input (cut off at the target's longest) under a target.
///
/// # Errors
/// The violated property.
pub fn execute(target: &Target, input: &[u8], meter: Meter) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|panic| *PANICKED.lock() = panic.to_string())));
    let input = &input[..input.len().min(target.bytes_max)];
    let before = (meter.start)();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let taken = (meter.peak)().saturating_sub(before);
    match outcome {
        Err(_) => Err(format!("a panic: {}", PANICKED.lock())),
        Ok(Ok(())) if taken > BYTES_MAX => {
            Err(format!("took {taken} bytes of memory for {} of input", input.len()))
        }
        Ok(result) => result,
    }
}
