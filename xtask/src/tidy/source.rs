//! Rules about the text itself: where `unsafe` may live, no `allow`, no paths of somebody's machine.

use super::{Failure, SourceFile};

/// Crates that may hold `unsafe`; spaces may too, in their layout modules.
const UNSAFE_CRATES: [&str; 4] = ["crates/media", "crates/log", "crates/index", "crates/blocks"];

// Pieced together, so that this file doesn't match itself.
const ALLOW: [&str; 2] = [concat!("#[", "allow("), concat!("#![", "allow(")];
const FORBID: &str = concat!("#![", "forbid(unsafe_code)]");
const MACHINE_PATHS: [&str; 5] = [
    concat!("/", "work/"),
    concat!("/", "tmp/"),
    concat!("/", "home/"),
    concat!("/", "root/"),
    concat!("/", "Users/"),
];

/// Crate roots that should forbid `unsafe` and don't.
pub(super) fn check_forbids(files: &[SourceFile]) -> Vec<Failure> {
    files
        .iter()
        .filter(|file| {
            let parts: Vec<&str> = file.path.split('/').collect();
            let krate = match parts.as_slice() {
                ["crates", name, "src", "lib.rs" | "main.rs"] => format!("crates/{name}"),
                ["xtask", "src", "main.rs"] => "xtask".into(),
                _ => return false,
            };
            let may = UNSAFE_CRATES.contains(&krate.as_str()) || krate.starts_with("crates/space-");
            !may && !file.text.lines().any(|line| line.trim() == FORBID)
        })
        .map(|file| {
            Failure::new(
                &file.path,
                format!("this crate must not use unsafe: put {FORBID} under the crate's documentation"),
            )
        })
        .collect()
}

/// Lines of one file that break a rule.
pub(super) fn check(file: &SourceFile) -> Vec<Failure> {
    let mut failures = Vec::new();
    // A lock file holds only what cargo wrote.
    if file.path.ends_with("Cargo.lock") {
        return failures;
    }
    for (number, line) in file.text.lines().enumerate() {
        let place = || format!("{}:{}", file.path, number + 1);
        let code = line.trim_start();
        if file.is("rs") && !code.starts_with("//") && ALLOW.iter().any(|allow| code.contains(allow)) {
            failures.push(Failure::new(
                place(),
                "an allow stays when its reason is gone: mend the cause, or use #[expect(lint, reason = \"..\")]",
            ));
        }
        if let Some(path) = MACHINE_PATHS.iter().find(|path| names_path(line, path)) {
            failures.push(Failure::new(
                place(),
                format!(
                    "names {path}, a path of somebody's machine: use a relative path, an option or tempfile"
                ),
            ));
        }
    }
    failures
}

/// Whether `path` stands in `line` as an absolute path, rather than inside another one or a URL.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|before: char| before.is_alphanumeric() || "./-_}".contains(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_rust(text: &str) -> usize {
        check(&SourceFile::new("crates/a/src/lib.rs", text)).len()
    }

    #[test]
    fn allows_are_caught_and_expects_are_not() {
        assert_eq!(in_rust(&format!("    {}dead_code)]\nfn f() {{}}", ALLOW[0])), 1);
        assert_eq!(in_rust(&format!("{}dead_code)]", ALLOW[1])), 1);
        assert_eq!(in_rust(&format!("#[inline] {}dead_code)] fn f() {{}}", ALLOW[0])), 1);
        assert_eq!(in_rust("#[expect(dead_code, reason = \"soon\")]"), 0);
        assert_eq!(in_rust(&format!("// {} is not used here", ALLOW[0])), 0);
        assert_eq!(check(&SourceFile::new("docs/style.md", ALLOW[0])).len(), 0);
    }

    #[test]
    fn machine_paths_are_caught_anywhere() {
        for path in MACHINE_PATHS {
            assert_eq!(in_rust(&format!("let dir = \"{path}data\";")), 1, "{path}");
            assert_eq!(check(&SourceFile::new("docs/run.md", &format!("cd {path}x"))).len(), 1, "{path}");
            assert_eq!(in_rust(&format!("// see https://example.com{path}x")), 0, "{path}");
            assert_eq!(in_rust(&format!("let dir = \"target{path}data\";")), 0, "{path}");
        }
    }

    #[test]
    fn crates_that_must_forbid_unsafe() {
        let forbids = |path: &str, text: &str| check_forbids(&[SourceFile::new(path, text)]).len();
        for path in [
            "crates/engine/src/lib.rs",
            "crates/cli/src/main.rs",
            "xtask/src/main.rs",
            "crates/media-sim/src/lib.rs",
        ] {
            assert_eq!(forbids(path, "//! A crate.\n"), 1, "{path}");
            assert_eq!(forbids(path, &format!("// {FORBID}\n")), 1, "{path}");
            assert_eq!(forbids(path, &format!("//! A crate.\n{FORBID}\n")), 0, "{path}");
        }
        for path in ["crates/media/src/lib.rs", "crates/space-slab/src/lib.rs", "crates/engine/src/op.rs"] {
            assert_eq!(forbids(path, ""), 0, "{path}");
        }
    }
}
