//! `terrace reproduce` without a paper: a report of all of them. What is counted of each is enough for that.

use std::process::Command;

/// A part of each study that takes no time.
const PARTS: [(&str, &str); 5] =
    [("hetermm", "H2"), ("tac", "T1"), ("porting", "P5"), ("scmkv", "S4"), ("bonsai", "B5")];

#[test]
fn a_report_of_all_papers_stands_alone() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let only = PARTS.map(|(_, part)| part).join(",");
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.current_dir(dir.path()).args(["reproduce", "--only", &only, "--runs", "1"]);
        command.args(["--scale", "0.002"]).args(arguments).output().unwrap()
    };
    let done = run(&[]);
    let printed = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let page = std::fs::read_to_string(dir.path().join("reproduce.html")).unwrap();
    let rows = std::fs::read_to_string(dir.path().join("reproduce.json")).unwrap();
    for (name, part) in PARTS {
        assert!(printed.contains(&format!("\n{name}: ")), "no table of {name}: {printed}");
        assert!(page.contains(&format!("<h2 id=\"{name}\">")) && page.contains(&format!("<td>{part}</td>")));
        assert!(
            rows.contains(&format!("\"name\": \"{name}\"")) && rows.contains(&format!("\"id\": \"{part}\""))
        );
    }
    for loads in ["http", "src=", "url(", "@import", "<script", "<link"] {
        assert!(!page.contains(loads), "the page has {loads}");
    }
    // Figures of T1 are drawn in it.
    assert!(page.contains("<svg ") && page.contains("terrace 0.") && page.contains("scale 0.002"));
    assert!(rows.contains("\"version\"") && rows.contains("\"cores\"") && rows.contains("\"scale\": 0.002"));

    let done = run(&["--json", "-", "--html", "other.html"]);
    assert_eq!(done.stdout.first(), Some(&b'{'), "nothing but the object is printed");
    assert!(dir.path().join("other.html").is_file());
}

#[test]
fn parts_that_no_paper_has_are_refused_with_those_there_are() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    let done = command.args(["reproduce", "--only", "T1,X1"]).output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(
        !done.status.success() && told.contains("X1") && told.contains("H7") && told.contains("aim"),
        "{told}"
    );
}
