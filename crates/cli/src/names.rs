//! Names of engines and indexes: which there are, and what was probably meant.

/// Engines that can be opened.
pub const ENGINES: [&str; 7] =
    ["tac", "hetermm", "heap-hybrid", "heap-persistent", "scmkv", "bonsai", "dram"];

/// Reads an engine's name.
pub fn engine(text: &str) -> Result<String, String> {
    known("engine", text, &ENGINES)
}

/// Reads an index's name.
pub fn index(text: &str) -> Result<String, String> {
    if let Some(about) = terrace::INDEXES.iter().find(|about| about.name == text && !about.built)
        && let Some(feature) = about.feature
    {
        return Err(format!("index {text:?} is not in this build: build terrace with --features {feature}"));
    }
    let built: Vec<&str> =
        terrace::INDEXES.iter().filter(|about| about.built).map(|about| about.name).collect();
    known("index", text, &built)
}

fn known(what: &str, text: &str, names: &[&str]) -> Result<String, String> {
    if names.contains(&text) {
        return Ok(text.to_owned());
    }
    let hint = closest(text, names.iter().copied())
        .map(|name| format!("; did you mean {name}?"))
        .unwrap_or_default();
    Err(format!("no {what} is called {text:?}: expected {}{hint}", names.join(" or ")))
}

/// The name that a misspelt one is most like, if it is like any.
pub fn closest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LIKE: f64 = 0.75;
    names
        .map(|name| (name, strsim::jaro_winkler(text, name)))
        .filter(|(_, likeness)| *likeness >= LIKE)
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_get_a_hint() {
        for name in ENGINES {
            assert_eq!(engine(name).as_deref(), Ok(name));
        }
        assert!(engine("heterm").unwrap_err().contains("did you mean hetermm?"));
        assert!(!engine("xyz").unwrap_err().contains("did you mean"));
        assert!(index("chlt").unwrap_err().contains("did you mean clht?"));
    }
}
