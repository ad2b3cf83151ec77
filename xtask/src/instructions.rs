//! `cargo xtask instructions`: what an operation costs inside `Session::execute`, in instructions, which don't drift as times do.
//!
//! ```text
//!   crates/terrace/examples/execute.rs  --- under callgrind, which counts in `execute` and dumps at each mark
//!   docs/benchmarks.md                  --- the table that was recorded: compared, or written with --write
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow, bail, ensure};

/// Counts the instructions of operations inside `Session::execute` and compares them with the table in docs/benchmarks.md.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write the table in place of comparing with it.
    #[arg(long)]
    write: bool,
    /// Engines to count; all by default.
    #[arg(long, value_delimiter = ',', default_values_t = ENGINES.map(String::from))]
    engines: Vec<String>,
    /// The example `execute`, built already.
    #[arg(long)]
    driver: Option<PathBuf>,
    /// Leave callgrind's files in this directory, for `callgrind_annotate`: the second file of two, and every other one from
    /// there on, is of a case.
    #[arg(long)]
    keep: Option<PathBuf>,
}

const ENGINES: [&str; 3] = ["dram", "hetermm", "tac"];
const PAGE: &str = "docs/benchmarks.md";
/// Before the table in the page.
const BEGIN: &str = "<!-- cargo xtask instructions --write -->\n";
/// Behind it.
const END: &str = "<!-- end -->";
/// Runs of an engine at most.
const RUNS: usize = 3;
/// What a count may differ from the recorded one, in percent.
const TOLERANCE: f64 = 2.0;
/// The same of operations by which tables grow and shrink: which of them do is a matter of the store's seed.
const TOLERANCE_OF_RESIZES: f64 = 5.0;

/// A row of the table: engine, lengths of key and value, operation.
type Row = (String, String, String);
/// The columns: operations in a batch, and instructions for an operation.
type Counts = BTreeMap<u64, f64>;

/// Counts, and compares or writes.
///
/// # Errors
/// If the driver can't be built or run.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: skipped: valgrind is absent");
        return Ok(ExitCode::SUCCESS);
    }
    let driver = arguments.driver.clone().map_or_else(build, Ok)?;
    let temporary = tempfile::tempdir_in(target())?;
    let files = arguments.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(files)?;
    let page = std::fs::read_to_string(PAGE)?;
    let (before, recorded, after) = parts(&page)?;
    let runs = |engine: &String| -> anyhow::Result<Vec<(Row, Counts)>> {
        let mut counted = Vec::new();
        // Each store hashes by a seed of its own, and so its tables grow at other operations: the least of a few runs counts.
        for run in 0..RUNS {
            if run > 0 && !arguments.write && compare(&counted, recorded).is_empty() {
                break;
            }
            count(&driver, engine, files, &mut counted)?;
        }
        Ok(counted)
    };
    // Engines side by side: counts don't depend on what else the machine does.
    let counted: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = arguments.engines.iter().map(|engine| scope.spawn(|| runs(engine))).collect();
        all.into_iter().map(|one| one.join()).collect()
    });
    let mut rows = Vec::new();
    for engine in counted {
        rows.append(&mut engine.map_err(|_| anyhow!("counting panicked"))??);
    }
    if arguments.write {
        ensure!(arguments.engines.len() == ENGINES.len(), "--write takes all engines");
        std::fs::write(PAGE, format!("{before}{}{after}", table(&rows)?))?;
        println!("{PAGE}: written");
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", table(&rows)?);
    let made_by = made_by()?;
    if !recorded.contains(&made_by) {
        println!(
            "instructions: not compared: {PAGE} has counts of another compiler, library or processor than {made_by}"
        );
        return Ok(ExitCode::SUCCESS);
    }
    let differing = compare(&rows, recorded);
    differing.iter().for_each(|line| println!("{line}"));
    if differing.is_empty() {
        println!(
            "instructions: all within {TOLERANCE}% of {PAGE}, {TOLERANCE_OF_RESIZES}% where tables grow and shrink"
        );
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "instructions: further than {TOLERANCE}% from {PAGE} ({TOLERANCE_OF_RESIZES}% where tables grow and shrink): look why, or `cargo xtask instructions --write`"
    );
    Ok(ExitCode::FAILURE)
}

fn build() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "terrace", "--example", "execute"])
        .status()?;
    ensure!(built.success(), "the driver was not built");
    Ok(target().join("release/examples/execute"))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()).into()
}

/// Runs the driver with an engine and appends its rows, or makes those that are there the least of both.
fn count(driver: &Path, engine: &str, files: &Path, rows: &mut Vec<(Row, Counts)>) -> anyhow::Result<()> {
    // On a disk: in memory the store would promise less, and have no log.
    let dir = tempfile::tempdir_in(files)?;
    let out = files.join(format!("callgrind.{engine}"));
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg("--toggle-collect=*Session for terrace_engine::core::Core*>::execute")
        .arg("--dump-before=execute::mark")
        .arg(driver)
        .arg(engine)
        .arg(dir.path())
        .output()
        .context("running valgrind")?;
    if !output.status.success() {
        bail!("{engine} under valgrind: {}", String::from_utf8_lossy(&output.stderr));
    }
    for (i, line) in String::from_utf8(output.stdout)?.lines().enumerate() {
        let fields: Vec<&str> = line.split(' ').collect();
        let &[key, value, batch, operation, operations] = &fields[..] else {
            bail!("{engine}: {line:?} is no case");
        };
        // The first dump is of what came before the first case.
        let dump = std::fs::read_to_string(format!("{}.{}", out.display(), 2 * i + 2))?;
        let total =
            dump.lines().find_map(|line| line.strip_prefix("summary: ")).context("a dump has no sum")?;
        let each = total.trim().parse::<f64>()? / operations.parse::<f64>()?;
        ensure!(each > 0.0, "{engine}: nothing was counted: is the driver built without symbols?");
        let row = (engine.to_owned(), format!("{key} + {value}"), operation.to_lowercase());
        let at = match rows.iter().position(|(known, _)| *known == row) {
            Some(at) => at,
            None => {
                rows.push((row, Counts::new()));
                rows.len() - 1
            }
        };
        rows[at].1.entry(batch.parse()?).and_modify(|least| *least = each.min(*least)).or_insert(each);
    }
    Ok(())
}

/// The page before the table, the table, and the page behind it.
fn parts(page: &str) -> anyhow::Result<(&str, &str, &str)> {
    let begin = page.find(BEGIN).with_context(|| format!("{PAGE} has no line {BEGIN:?}"))? + BEGIN.len();
    let end = begin + page[begin..].find(END).with_context(|| format!("{PAGE} has no line {END:?}"))?;
    Ok((&page[..begin], &page[begin..end], &page[end..]))
}

fn table(rows: &[(Row, Counts)]) -> anyhow::Result<String> {
    let mut text = format!("Recorded with {}.\n\n", made_by()?);
    let batches: Vec<u64> =
        rows.first().map(|(_, counts)| counts.keys().copied().collect()).unwrap_or_default();
    text.push_str("| engine | bytes of key + value | operation |");
    batches.iter().for_each(|batch| _ = write!(text, " batch of {batch} |"));
    text.push_str("\n|---|---|---|");
    batches.iter().for_each(|_| text.push_str("---:|"));
    for ((engine, bytes, operation), counts) in rows {
        write!(text, "\n| {engine} | {bytes} | {operation} |")?;
        batches.iter().for_each(|batch| _ = write!(text, " {:.0} |", counts.get(batch).unwrap_or(&0.0)));
    }
    text.push_str("\n\n");
    Ok(text)
}

/// What counts depend on beside the sources: compiler, C library (it copies memory) and processor (it copies by what that can).
fn made_by() -> anyhow::Result<String> {
    let said = |program: &str, argument: &str| -> anyhow::Result<String> {
        let output =
            Command::new(program).arg(argument).output().with_context(|| format!("running {program}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    };
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let found = processor.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            (field.trim() == name).then(|| value.trim())
        });
        found.unwrap_or("unknown")
    };
    // Names alone may be those of many.
    let processor =
        format!("{} (model {}, stepping {})", field("model name"), field("model"), field("stepping"));
    Ok(format!("{}, {}, {processor}", said("rustc", "--version")?, said("getconf", "GNU_LIBC_VERSION")?))
}

/// Rows whose counts are not those of the recorded table, a line each.
fn compare(rows: &[(Row, Counts)], recorded: &str) -> Vec<String> {
    let mut differing = Vec::new();
    for ((engine, bytes, operation), counts) in rows {
        let front = format!("| {engine} | {bytes} | {operation} | ");
        let line = recorded.lines().find_map(|line| line.strip_prefix(&front)).unwrap_or_default();
        let before: Vec<Option<f64>> = line.split('|').map(|field| field.trim().parse().ok()).collect();
        let resizes = ["set", "delete"].contains(&operation.as_str());
        let tolerance = if resizes { TOLERANCE_OF_RESIZES } else { TOLERANCE };
        // A batch of so many bytes would flush a page itself where the log fills: told, and not compared.
        let waits = ["set", "update"].contains(&operation.as_str()) && bytes.ends_with("+ 1000");
        for (i, (batch, now)) in counts.iter().enumerate().filter(|(_, (batch, _))| !waits || **batch < 64) {
            match before.get(i).copied().flatten() {
                Some(before) if (now / before - 1.0).abs() * 100.0 <= tolerance => {}
                before => differing.push(format!(
                    "{engine} {bytes} {operation}, batch of {batch}: {now:.0} instructions, recorded {}",
                    before.map_or("nothing".into(), |before| format!("{before:.0}"))
                )),
            }
        }
    }
    differing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told() {
        let row = |engine: &str| (engine.to_owned(), "8 + 64".to_owned(), "get".to_owned());
        let rows = [(row("dram"), Counts::from([(1, 100.0), (16, 50.0)]))];
        let recorded = |one, sixteen| format!("| dram | 8 + 64 | get | {one} | {sixteen} |\n");
        assert_eq!(compare(&rows, &recorded(101, 50)), [""; 0]);
        assert_eq!(compare(&rows, &recorded(110, 50)).len(), 1, "better is told, too");
        assert_eq!(compare(&rows, &recorded(90, 40)).len(), 2);
        assert_eq!(compare(&rows, "").len(), 2, "a row that is not recorded");
        let grows =
            [(("dram".into(), "8 + 64".into(), "set".into()), Counts::from([(1, 104.0), (16, 106.0)]))];
        assert_eq!(compare(&grows, "| dram | 8 + 64 | set | 100 | 100 |\n").len(), 1);
    }
}
