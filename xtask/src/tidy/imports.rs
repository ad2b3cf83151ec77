//! Imports run downwards only.
//!
//! ```text
//!   7  cli    (proof imports any; nobody imports it)
//!   6  server      bench         (never each other)
//!   5  terrace
//!   4  space-*     engine-*      (never each other)
//!   3  blocks
//!   2  engine                                               testkit: imports 2 and below; others use it in tests only
//!   1  media-sim   log   index   (never each other)
//!   0  sync  media   (never each other)                      protocol: imports none of ours; 6 and above import it
//! ```
//!
//! `durability-model` imports none of ours, and nobody imports it.

use serde::Deserialize;

use super::Failure;

/// A crate of the workspace and what it imports.
#[derive(Deserialize)]
pub(super) struct Crate {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `None`: a normal dependency; else `dev` or `build`.
    kind: Option<String>,
    /// Present for dependencies inside the workspace.
    path: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
}

/// What a crate is, as far as the rule goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Part of the stack, at this height.
    Layer(u32),
    Protocol,
    Testkit,
    Proof,
    Model,
    Xtask,
}

/// Reads the output of `cargo metadata`.
pub(super) fn parse(metadata: &str) -> anyhow::Result<Vec<Crate>> {
    Ok(serde_json::from_str::<Metadata>(metadata)?.packages)
}

/// Every import against the table above.
pub(super) fn check(crates: &[Crate]) -> Vec<Failure> {
    let mut failures = Vec::new();
    for krate in crates {
        let Some(role) = role(&krate.name) else {
            failures.push(Failure::new(
                &krate.name,
                "this crate has no place in the import order: add it to `role` in xtask/src/tidy/imports.rs \
                 and to ARCHITECTURE.md",
            ));
            continue;
        };
        for dependency in krate.dependencies.iter().filter(|d| d.path.is_some()) {
            // An unplaced dependency is reported once, as a crate.
            let Some(to) = self::role(&dependency.name) else { continue };
            let in_tests = dependency.kind.as_deref() == Some("dev");
            if let Some(why) = refusal(role, to, in_tests) {
                failures.push(Failure::new(
                    &krate.name,
                    format!(
                        "must not import {}: {why}. Move what you need to a crate that both may import \
                         (see the dependency rule in ARCHITECTURE.md)",
                        dependency.name
                    ),
                ));
            }
        }
    }
    failures
}

fn role(name: &str) -> Option<Role> {
    let short = name.strip_prefix("terrace-").unwrap_or(name);
    Some(match short {
        "sync" | "media" => Role::Layer(0),
        "media-sim" | "log" | "index" | "policy" => Role::Layer(1),
        "engine" => Role::Layer(2),
        "blocks" => Role::Layer(3),
        "pmem-slots" => Role::Layer(4),
        "terrace" => Role::Layer(6),
        "server" | "bench" => Role::Layer(7),
        "cli" => Role::Layer(8),
        // It exists to test every engine: nobody imports it, and it imports anything, testkit included.
        "proof" => Role::Proof,
        // The protocol on paper: it must not lean on what it is compared with, nor that on it.
        "durability-model" => Role::Model,
        "protocol" => Role::Protocol,
        "testkit" => Role::Testkit,
        "xtask" => Role::Xtask,
        _ if short.starts_with("space-") || short.starts_with("engine-") => Role::Layer(5),
        _ => return None,
    })
}

/// Why `from` must not import `to`, if so.
fn refusal(from: Role, to: Role, in_tests: bool) -> Option<&'static str> {
    match (from, to) {
        (_, Role::Xtask) => Some("nobody imports xtask"),
        (Role::Model, _) => Some("the model says what the product must do, and imports none of it"),
        (_, Role::Model) => Some("nobody imports the model"),
        (Role::Xtask | Role::Proof, _) => None,
        (_, Role::Proof) => Some("nobody imports proof"),
        (_, Role::Testkit) => (!in_tests).then_some("testkit is a dev-dependency, never a normal one"),
        (Role::Protocol, _) => Some("protocol is bytes to commands and imports none of our crates"),
        (Role::Testkit, Role::Layer(0..=2)) => None,
        (Role::Testkit, _) => {
            Some("testkit imports engine and below; what opens an engine lives in that engine's tests")
        }
        (Role::Layer(7..), Role::Protocol) => None,
        (Role::Layer(_), Role::Protocol) => Some("engines know nothing of protocols; server translates"),
        // The crash explorer runs the log and the engines from their own tests.
        (Role::Layer(_), Role::Layer(1)) if in_tests => None,
        (Role::Layer(5), Role::Layer(5)) => Some("a space never imports a space"),
        (Role::Layer(from), Role::Layer(to)) if to < from => None,
        (Role::Layer(_), Role::Layer(_)) => Some("imports run downwards only"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn importing(name: &str, to: &str, kind: Option<&str>) -> Vec<Failure> {
        let kind = kind.map_or("null".into(), |k| format!("{k:?}"));
        let json = format!(
            r#"{{"packages": [{{"name": {name:?}, "dependencies": [
                {{"name": {to:?}, "kind": {kind}, "path": "crates/x"}},
                {{"name": "serde", "kind": null}}
            ]}}]}}"#
        );
        check(&parse(&json).unwrap())
    }

    #[test]
    fn downwards_is_fine() {
        for (from, to) in [
            ("terrace-log", "terrace-media"),
            ("terrace-index", "terrace-media"),
            ("terrace-engine", "terrace-index"),
            ("terrace-space-dram", "terrace-engine"),
            ("terrace-blocks", "terrace-engine"),
            ("terrace-space-hybrid-log", "terrace-blocks"),
            ("terrace", "terrace-space-hybrid-log"),
            ("terrace-server", "terrace-protocol"),
            ("terrace-cli", "terrace-server"),
            ("terrace-testkit", "terrace-engine"),
            ("xtask", "terrace-testkit"),
            ("terrace-proof", "terrace-testkit"),
            ("terrace-proof", "terrace-server"),
        ] {
            assert_eq!(importing(from, to, None), [], "{from} -> {to}");
        }
    }

    #[test]
    fn every_forbidden_direction_is_caught() {
        for (from, to) in [
            ("terrace-media", "terrace-log"),
            ("terrace-log", "terrace-index"),
            ("terrace-index", "terrace-engine"),
            ("terrace-engine", "terrace-space-dram"),
            ("terrace-engine", "terrace-blocks"),
            ("terrace-blocks", "terrace-space-hybrid-log"),
            ("terrace-testkit", "terrace-blocks"),
            ("terrace-engine", "terrace-protocol"),
            ("terrace-engine", "terrace-server"),
            ("terrace-space-dram", "terrace-space-hybrid-log"),
            ("terrace-space-dram", "terrace"),
            ("terrace", "terrace-protocol"),
            ("terrace-protocol", "terrace-media"),
            ("terrace-protocol", "terrace-engine"),
            ("terrace-server", "terrace-bench"),
            ("terrace-server", "terrace-cli"),
            ("terrace-testkit", "terrace-space-dram"),
            ("terrace-testkit", "terrace"),
            ("terrace-engine", "terrace-testkit"),
            ("terrace-cli", "xtask"),
            ("terrace-cli", "terrace-proof"),
            ("terrace-durability-model", "terrace-log"),
            ("terrace-proof", "terrace-durability-model"),
        ] {
            assert_eq!(importing(from, to, None).len(), 1, "{from} -> {to}");
        }
    }

    #[test]
    fn tests_may_use_testkit_and_the_simulator_but_not_climb() {
        assert_eq!(importing("terrace-engine", "terrace-testkit", Some("dev")), []);
        assert_eq!(importing("terrace-log", "terrace-media-sim", Some("dev")), []);
        assert_eq!(importing("terrace-engine", "terrace-server", Some("dev")).len(), 1);
        assert_eq!(importing("terrace-space-dram", "terrace-space-slab", Some("dev")).len(), 1);
        assert_eq!(importing("terrace-engine", "terrace-testkit", Some("build")).len(), 1);
    }

    #[test]
    fn a_crate_without_a_place_is_reported() {
        let failures = importing("terrace-newcomer", "terrace-media", None);
        assert!(failures[0].text.contains("no place"), "{failures:?}");
    }
}
