//! The product's tests on each machine: what it makes of the media, and whether what it serves outlives its process.

use std::path::Path;

use anyhow::ensure;

use super::image::Image;
use super::job::{self, Fs};
use super::machine::{Event, Runner};
use super::topology::{Memory, Topology};

/// One boot: a machine, what is done to it first, and what it is then.
struct Case {
    name: &'static str,
    memory: Memory,
    prepare: String,
    what: &'static str,
    place: &'static str,
}

fn cases(topology: Topology) -> Vec<Case> {
    let on = |fs: Fs| job::make(fs, 0) + &job::attach(fs, 0);
    let ext4 = Fs::Ext4;
    let both = || on(ext4) + &job::make(ext4, 1) + &job::attach(ext4, 1);
    let case = |name, memory, prepare, what, place| Case { name, memory, prepare, what, place };
    match topology {
        Topology::Pmem => vec![
            case("ext4 with DAX", Memory::Nvdimm, on(ext4), "ext4", ext4.place()),
            case("device DAX", Memory::Nvdimm, on(Fs::Devdax), "devdax", Fs::Devdax.place()),
        ],
        Topology::Numa => vec![case("two nodes", Memory::TwoNodes, both(), "numa", ext4.place())],
        Topology::Slow => vec![
            case("a slow node without processors", Memory::SlowNode, on(ext4), "slow", ext4.place()),
            case("an NVDIMM as memory", Memory::NvdimmNode, job::to_memory(), "kmem", ext4.place()),
        ],
        Topology::Virtio => vec![case("virtio-pmem", Memory::Virtio, job::virtio(), "virtio", ext4.place())],
        Topology::All => [Topology::Pmem, Topology::Numa, Topology::Slow, Topology::Virtio]
            .into_iter()
            .flat_map(cases)
            .collect(),
    }
}

/// Boots the machines of a topology; `tests` are test programs in the image that run on ext4 with DAX. Tells how many
/// checks passed and which failed.
///
/// # Errors
/// If a machine can't be run.
pub fn run(
    runner: &Runner,
    image: &Image,
    cache: &Path,
    topology: Topology,
    tests: &[String],
    say: &dyn Fn(&str),
) -> anyhow::Result<(u32, Vec<String>)> {
    let (mut passed, mut failed) = (0, Vec::new());
    for case in cases(topology) {
        let state = tempfile::tempdir_in(cache)?;
        let options = [("what", case.what.to_owned()), ("place", case.place.to_owned())];
        let mut script = case.prepare + &job::guest("probe", &options);
        if case.what == "ext4" {
            script.push_str(&on_dax(tests));
        }
        let mut machine = runner.boot(image, case.memory, state.path(), &script)?;
        let (before, mut probed) = (passed + failed.len() as u32, false);
        loop {
            match machine.next(None)? {
                Event::Line(line) => {
                    if let Some(name) = line.strip_prefix("PASS ") {
                        passed += 1;
                        say(&format!("{}: {name}", case.name));
                    } else if let Some(wrong) = line.strip_prefix("FAIL ") {
                        failed.push(format!("{}: {wrong}", case.name));
                    }
                    probed |= line.starts_with("PROBED ");
                }
                Event::Off => break,
                Event::Time => {}
            }
        }
        if !probed || passed + failed.len() as u32 == before {
            failed.push(format!("{}: the machine ended before its checks did", case.name));
        }
        say(&format!("{}: {:.0} s", case.name, machine.elapsed().as_secs_f64()));
        if !failed.is_empty() {
            let kept = state.keep();
            failed.push(format!("{}: its console is in {}", case.name, kept.join("console.txt").display()));
        }
    }
    ensure!(passed > 0 || !failed.is_empty(), "nothing was checked");
    Ok((passed, failed))
}

/// Runs the test programs with their temporary files on the DAX mount.
fn on_dax(tests: &[String]) -> String {
    let run = |test: &String| {
        format!(
            "if TMPDIR=/mnt/pmem0 {test} --test-threads 2 >/run/{test}.txt 2>&1; then echo \"@@PASS {test} on DAX: $(tail -2 /run/{test}.txt | head -1)\"; \
             else grep -E '^(---- |test .*FAILED|thread .*panicked|assertion|  (left|right))' /run/{test}.txt | head -40 | sed 's/^/@@FAIL {test}: /'; fi\n"
        )
    };
    tests.iter().map(run).collect()
}
