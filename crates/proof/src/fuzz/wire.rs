//! Bytes as a network delivers them: in pieces of any size.

/// Inputs up to this length are cut in two at every byte.
const EVERY_CUT: usize = 200;

/// Calls `check` with the input in single bytes, then in two pieces, cut at each place (at 16 places, if it is long).
///
/// # Errors
/// The first that `check` answers.
pub(super) fn splits(
    input: &[u8],
    mut check: impl FnMut(&[&[u8]]) -> Result<(), String>,
) -> Result<(), String> {
    check(&input.chunks(1).collect::<Vec<_>>())?;
    check(&input.chunks(7).collect::<Vec<_>>())?;
    let step = if input.len() <= EVERY_CUT { 1 } else { input.len() / 16 };
    for cut in (1..input.len()).step_by(step) {
        check(&[&input[..cut], &input[cut..]]).map_err(|error| format!("cut at {cut}: {error}"))?;
    }
    Ok(())
}
