//! What programs say of their examples, one line for each.

use std::fmt;

/// How an example went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Passed,
    Failed,
    Skipped,
    /// No example of the library could be tried.
    LibrarySkipped,
}

/// One example.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    how: How,
    name: String,
    why: String,
}

impl Outcome {
    /// What a line says: `ok NAME`, `failed NAME: WHY` or `skipped NAME: WHY`.
    pub fn parse(line: &str) -> Option<Self> {
        let (how, rest) = line.split_once(' ')?;
        let how = match how {
            "ok" => How::Passed,
            "failed" => How::Failed,
            "skipped" => How::Skipped,
            _ => return None,
        };
        let (name, why) = rest.split_once(": ").unwrap_or((rest, ""));
        Some(Self { how, name: name.into(), why: why.into() })
    }

    /// An example that failed, or what stands for one.
    pub fn failed(name: &str, why: &str) -> Self {
        Self { how: How::Failed, name: name.into(), why: why.into() }
    }

    /// The library can't be tried here.
    pub fn library_skipped(why: String) -> Self {
        Self { how: How::LibrarySkipped, name: "every example".into(), why }
    }

    /// Whether it is more than what was hoped for.
    pub fn is_worth_a_line(&self) -> bool {
        self.how != How::Passed
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.how {
            How::Passed => "ok",
            How::Failed => "FAILED",
            How::Skipped | How::LibrarySkipped => "skipped",
        };
        write!(f, "{how:<8} {}", self.name)?;
        if !self.why.is_empty() {
            write!(f, ": {}", self.why)?;
        }
        Ok(())
    }
}

/// The examples of one library, counted.
#[derive(Debug, Default)]
pub struct Tally {
    /// Examples that gave what their documentation says.
    pub passed: usize,
    /// Examples that did not.
    pub failed: usize,
    /// Examples that were not tried.
    pub skipped: usize,
    /// Why none was tried.
    pub library_skipped: Option<String>,
}

impl Tally {
    /// Counts them.
    pub fn of(outcomes: Vec<Outcome>) -> Self {
        let mut tally = Self::default();
        for outcome in outcomes {
            match outcome.how {
                How::Passed => tally.passed += 1,
                How::Failed => tally.failed += 1,
                How::Skipped => tally.skipped += 1,
                How::LibrarySkipped => tally.library_skipped = Some(outcome.why),
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        assert_eq!(Outcome::parse("ok set and get").unwrap().how, How::Passed);
        let failed = Outcome::parse("failed a cas loop: expected 1: got 2").unwrap();
        assert_eq!(
            (failed.how, failed.name.as_str(), failed.why.as_str()),
            (How::Failed, "a cas loop", "expected 1: got 2")
        );
        assert!(failed.is_worth_a_line());
        assert_eq!(
            Outcome::parse("skipped tls: no certificate").unwrap().to_string(),
            "skipped  tls: no certificate"
        );
        assert_eq!(Outcome::parse("npm notice"), None);
        assert_eq!(Outcome::parse("ok"), None);
    }

    #[test]
    fn a_tally_counts_each_kind() {
        let lines = ["ok a", "ok b", "failed c: x", "skipped d: y"];
        let tally = Tally::of(lines.iter().filter_map(|line| Outcome::parse(line)).collect());
        assert_eq!((tally.passed, tally.failed, tally.skipped, tally.library_skipped), (2, 1, 1, None));
        let none = Tally::of(vec![Outcome::library_skipped("no go on PATH".into())]);
        assert_eq!((none.passed, none.failed, none.skipped), (0, 0, 0));
        assert_eq!(none.library_skipped.as_deref(), Some("no go on PATH"));
    }
}
