//! What a test reads from the environment, so that a failure can be repeated and a run made longer.

/// A number from the environment.
///
/// # Panics
/// If the variable is set to something else.
pub fn variable(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Err(_) => default,
        Ok(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => panic!("{name}={text:?} is no number"),
        },
    }
}

/// The seeds of a random model test: `TERRACE_MODEL_SEED` alone, or the first few.
///
/// # Panics
/// As [`variable`].
pub fn model_seeds(default_count: u64) -> std::ops::Range<u64> {
    match variable("TERRACE_MODEL_SEED", u64::MAX) {
        u64::MAX => 1..1 + default_count,
        seed => seed..seed + 1,
    }
}

/// The steps of each: `TERRACE_MODEL_STEPS`.
///
/// # Panics
/// As [`variable`].
pub fn model_steps(default: u64) -> usize {
    variable("TERRACE_MODEL_STEPS", default) as usize
}
