//! Small files, one idea each.

use super::{Failure, SourceFile};

const LINES_MAX: usize = 600;
/// Tables of cases are easier to read in one place.
const TEST_LINES_MAX: usize = 900;

/// Rust files over the limit.
pub(super) fn check(file: &SourceFile) -> Option<Failure> {
    if !file.is("rs") {
        return None;
    }
    let lines = file.text.lines().count();
    let is_test = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
    let limit = if is_test { TEST_LINES_MAX } else { LINES_MAX };
    (lines > limit).then(|| {
        Failure::new(
            &file.path,
            format!("{lines} lines, at most {limit} are allowed: split it so that each file holds one idea"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_lines(path: &str, lines: usize) -> Option<Failure> {
        check(&SourceFile::new(path, &"x\n".repeat(lines)))
    }

    #[test]
    fn the_limits() {
        assert_eq!(of_lines("crates/a/src/lib.rs", 600), None);
        assert!(of_lines("crates/a/src/lib.rs", 601).is_some());
        assert_eq!(of_lines("crates/a/tests/all.rs", 900), None);
        assert!(of_lines("crates/a/tests/all.rs", 901).is_some());
        assert!(of_lines("crates/a/src/b/tests.rs", 901).is_some());
        assert_eq!(of_lines("docs/long.md", 5000), None);
    }
}
