//! Relative links in the documentation lead somewhere.

use std::collections::BTreeSet;

use super::{Failure, SourceFile};

/// Every relative link of every Markdown file against the files there are.
pub(super) fn check(files: &[SourceFile], paths: &BTreeSet<String>) -> Vec<Failure> {
    let mut failures = Vec::new();
    for file in files.iter().filter(|f| f.is("md")) {
        let mut in_code = false;
        for (number, line) in file.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
                continue;
            }
            if in_code {
                continue;
            }
            for target in targets(line) {
                if !leads_somewhere(&file.path, target, paths) {
                    failures.push(Failure::new(
                        format!("{}:{}", file.path, number + 1),
                        format!("the link to {target:?} leads nowhere: correct the path or drop the link"),
                    ));
                }
            }
        }
    }
    failures
}

/// What stands between `](` and `)`, outside inline code.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    // Odd pieces between backticks are code.
    for text in line.split('`').step_by(2) {
        let mut rest = text;
        while let Some(start) = rest.find("](") {
            rest = &rest[start + 2..];
            let Some(end) = rest.find(')') else { break };
            // A title may follow the target.
            found.push(rest[..end].split_whitespace().next().unwrap_or(""));
            rest = &rest[end..];
        }
    }
    // A reference definition: `[name]: target`.
    if let Some((name, target)) = line.split_once("]: ")
        && name.starts_with('[')
        && !name.contains('`')
    {
        found.push(target.split_whitespace().next().unwrap_or(""));
    }
    found
}

fn leads_somewhere(from: &str, target: &str, paths: &BTreeSet<String>) -> bool {
    if target.contains("://") || target.starts_with("mailto:") || target.starts_with('#') {
        return true;
    }
    let target = target.split('#').next().unwrap_or("");
    let mut at: Vec<&str> = from.split('/').collect();
    at.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if at.pop().is_none() {
                    return false;
                }
            }
            _ => at.push(part),
        }
    }
    let path = at.join("/");
    let directory = format!("{path}/");
    !target.is_empty()
        && (paths.contains(&path)
            || path.is_empty()
            || paths.range(directory.clone()..).next().is_some_and(|p| p.starts_with(&directory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(text: &str) -> usize {
        let paths = ["README.md", "docs/a.md", "docs/formats/log.md"].map(String::from).into();
        check(&[SourceFile::new("docs/a.md", text)], &paths).len()
    }

    #[test]
    fn live_links_pass() {
        for text in [
            "[up](../README.md)",
            "[itself](a.md#part) and [a directory](formats/) [root](..)",
            "[web](https://example.com/x.md) [part](#part)",
            "`[code](nowhere.md)`",
            "```\n[code](nowhere.md)\n```",
            "[ref]: formats/log.md",
        ] {
            assert_eq!(dead(text), 0, "{text}");
        }
    }

    #[test]
    fn dead_links_are_caught() {
        for text in [
            "[gone](gone.md)",
            "fine [up](../README.md), [gone](../gone.md#part)",
            "[prefix of a directory](form)",
            "[outside](../../README.md)",
            "[empty]()",
            "[ref]: gone.md",
            "```\ncode\n```\n[after code](gone.md)",
            "`code` [after](gone.md \"title\")",
        ] {
            assert_eq!(dead(text), 1, "{text}");
        }
    }
}
