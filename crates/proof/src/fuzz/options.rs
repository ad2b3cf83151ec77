//! What people write: sizes, tiers, modes. Accepted or refused with what was expected, and the text that was given in it.

use terrace::{Size, TierSpec};
use terrace_engine::Durability;

use super::Target;

/// Sizes, tiers and durability modes.
pub(super) static OPTIONS: Target = Target {
    name: "options",
    corpus: "options",
    about: "sizes, tiers and modes as people write them",
    bytes_max: 100,
    words: &[
        "MiB",
        "GiB",
        "TB",
        "kib",
        "%",
        "@",
        "node:",
        "batch:",
        "sync",
        "none",
        ".",
        "e308",
        "-",
        "inf",
        "nan",
        "18446744073709551615",
    ],
    run,
};

fn run(input: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    let told = |what: &str, refused: Option<String>| match refused {
        // However it is quoted, a refusal is more than the text alone.
        Some(error) if error.len() < 10 => Err(format!("{what} {text:?} is refused with {error:?}")),
        _ => Ok(()),
    };
    told("size", text.parse::<Size>().err())?;
    told("tier", text.parse::<TierSpec>().err())?;
    told("mode", text.parse::<Durability>().err().map(|error| error.to_string()))?;
    if let Ok(Size::Percent(percent)) = text.parse()
        && !(percent.is_finite() && percent >= 0.0)
    {
        return Err(format!("{percent} percent from {text:?}"));
    }
    if let Ok(Size::Bytes(bytes)) = text.parse()
        && bytes.to_string().parse() != Ok(Size::Bytes(bytes))
    {
        return Err(format!("{bytes} bytes from {text:?} don't read back"));
    }
    let mode: Result<Durability, _> = text.parse();
    if let Ok(mode) = mode
        && mode.to_string().parse().ok() != Some(mode)
    {
        return Err(format!("{mode} from {text:?} does not read back"));
    }
    Ok(())
}
