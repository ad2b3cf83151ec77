//! Lines of prose in the documentation are as long as one reads, and as reviews show.

use super::{Failure, SourceFile};

/// Characters of a line of prose at most.
const LINE_MAX: usize = 120;

/// Every line of every Markdown file, but code, tables and what can't be broken.
pub(super) fn check(file: &SourceFile) -> Vec<Failure> {
    if !file.is("md") {
        return Vec::new();
    }
    let mut in_code = false;
    let mut failures = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        let is_other = in_code || line.starts_with(['|', '#']) || line.starts_with("<!--");
        let length = line.chars().count();
        if !is_other && length > LINE_MAX && can_be_broken(line) {
            failures.push(Failure::new(
                format!("{}:{}", file.path, number + 1),
                format!("a line of prose of {length} characters: break it, at {LINE_MAX} at most"),
            ));
        }
    }
    failures
}

/// Whether there is a space outside of inline code to break the line at.
fn can_be_broken(line: &str) -> bool {
    line.trim().split('`').step_by(2).any(|text| text.trim().contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prose_is_found_and_nothing_else() {
        let long = "word ".repeat(30);
        let found = |text: &str| check(&SourceFile::new("docs/a.md", text)).len();
        assert_eq!(found(&format!("{long}\n\n- {long}\n")), 2);
        assert_eq!(
            found(&format!("```\n{long}\n```\n| {long} |\n## {long}\n`{long}`:\n{}", "é".repeat(120))),
            0
        );
        assert!(check(&SourceFile::new("a.rs", &long)).is_empty());
    }
}
