//! From a failing history to a short one.

/// Removes steps from a failing history for as long as what is left still fails, and returns it with its failure; `None` if
/// the history passes. No single step of the result can be left out.
///
/// `run` drives the engine through the steps from the beginning and explores the trace. It must be deterministic, and take
/// any subsequence: derive what a step needs from the step itself and not from its number.
pub fn shortest<T: Clone, F>(
    history: &[T],
    mut run: impl FnMut(&[T]) -> Result<(), F>,
) -> Option<(Vec<T>, F)> {
    let mut failure = run(history).err()?;
    let mut history = history.to_vec();
    let mut chunk = history.len().div_ceil(2).max(1);
    loop {
        let mut removed = false;
        let mut at = 0;
        while at < history.len() {
            let end = history.len().min(at + chunk);
            let rest = [&history[..at], &history[end..]].concat();
            match run(&rest) {
                // What followed has moved to `at`.
                Err(simpler) => (history, failure, removed) = (rest, simpler, true),
                Ok(()) => at = end,
            }
        }
        if chunk == 1 && !removed {
            return Some((history, failure));
        }
        chunk = if removed { chunk.min(history.len().max(1)) } else { chunk.div_ceil(2) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_steps_that_matter_remain() {
        let history: Vec<u32> = (0..100).collect();
        let mut runs = 0;
        let fails = |steps: &[u32]| {
            runs += 1;
            let at = |step| steps.iter().position(|other| *other == step);
            match (at(17), at(64)) {
                (Some(a), Some(b)) if a < b => Err(steps.len()),
                _ => Ok(()),
            }
        };
        assert_eq!(shortest(&history, fails), Some((vec![17, 64], 2)));
        assert!(runs < 100, "{runs} runs");
    }

    #[test]
    fn a_history_that_passes_has_no_shortest_failure() {
        assert_eq!(shortest(&[1, 2], |_| Ok::<(), ()>(())), None);
    }

    #[test]
    fn a_failure_without_any_step_is_found() {
        assert_eq!(shortest(&[1, 2, 3], |_| Err(())), Some((vec![], ())));
        assert_eq!(shortest::<u8, _>(&[], |_| Err(())), Some((vec![], ())));
    }
}
