//! Dumps in a server's directory: which are its own, and what happens to the others.
//!
//! # Invariants
//! - No file that terrace did not write is replaced or removed: before a snapshot takes the place of somebody's dump, that has
//!   another name.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::rdb::OWN_AUX;

/// An auxiliary field of Redis's that snapshots from before [`OWN_AUX`] lack.
const REDIS_AUX: &[u8] = b"used-mem";
/// An auxiliary field that they have.
const OLD_OWN_AUX: &[u8] = b"ctime";
/// Auxiliary fields lie within so many bytes.
const HEAD_BYTES: u64 = 512;
/// Names that are tried for a dump that has to make room.
const NAMES: u32 = 1000;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dump {
    None,
    Ours,
    Foreign,
}

fn look(path: &Path) -> io::Result<Dump> {
    let mut head = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Dump::None),
        opened => opened?.take(HEAD_BYTES).read_to_end(&mut head)?,
    };
    let has = |field: &[u8]| head.windows(field.len()).any(|window| window == field);
    let ours =
        head.starts_with(b"REDIS") && (has(OWN_AUX.as_bytes()) || (has(OLD_OWN_AUX) && !has(REDIS_AUX)));
    Ok(if ours { Dump::Ours } else { Dump::Foreign })
}

/// A server begins: says what lies there that it will not load, and removes what a snapshot left that a crash ended.
pub(super) fn begin(dir: &Path, name: &str) {
    let path = dir.join(name);
    if look(&path).is_ok_and(|dump| dump == Dump::Foreign) {
        tracing::warn!(
            "{} was not written by terrace and is not loaded (redis-cli --pipe and RESTORE bring data in); a snapshot moves it aside first",
            path.display()
        );
    }
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix("temp-")?.strip_suffix(".rdb")?.parse().ok());
        let is_left = number.is_some_and(|process: u32| {
            process == std::process::id() || !Path::new(&format!("/proc/{process}")).exists()
        });
        // One that was cut off before its head was written holds nothing.
        let is_empty = entry.metadata().is_ok_and(|about| about.is_file() && about.len() == 0);
        if is_left && (is_empty || look(&entry.path()).is_ok_and(|dump| dump == Dump::Ours)) {
            let _gone = fs::remove_file(entry.path());
        }
    }
}

/// A snapshot is about to take this place: somebody's dump gets another name.
///
/// # Errors
/// If it can't have one; then it is still where it was.
pub(super) fn make_room(path: &Path) -> io::Result<()> {
    if look(path)? != Dump::Foreign {
        return Ok(());
    }
    let aside = |number: u32| -> PathBuf {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let number = if number == 0 { String::new() } else { format!("-{number}") };
        path.with_file_name(format!("{stem}.before-terrace{number}.rdb"))
    };
    for number in 0..NAMES {
        let kept = aside(number);
        // A second name, so that there is no moment without the file; the snapshot then takes the first one.
        match fs::hard_link(path, &kept) {
            Ok(()) => {
                tracing::warn!(
                    "{} was not written by terrace: it is kept as {}",
                    path.display(),
                    kept.display()
                );
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                let text = format!(
                    "{} was not written by terrace and can't be kept under another name ({error}): move it away",
                    path.display()
                );
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
    Err(io::Error::new(
        ErrorKind::AlreadyExists,
        format!("{}: move the dumps beside it away", path.display()),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::rdb::RdbFile;
    use super::*;

    #[test]
    fn somebodys_dump_is_kept_and_what_a_crash_left_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dump.rdb");
        make_room(&path).unwrap();
        let redis =
            b"REDIS0010\xfa\x09redis-ver\x067.0.15\xfa\x05ctime\xc2\0\0\0\0\xfa\x08used-mem\xc2\0\0\0\0\xff";
        for kept in ["dump.before-terrace.rdb", "dump.before-terrace-1.rdb"] {
            fs::write(&path, redis).unwrap();
            make_room(&path).unwrap();
            assert_eq!(fs::read(dir.path().join(kept)).unwrap(), redis);
            fs::remove_file(&path).unwrap();
        }
        RdbFile::create(&path, 7).unwrap().finish().unwrap();
        make_room(&path).unwrap();
        assert_eq!(look(&path).unwrap(), Dump::Ours);
        let own = format!("temp-{}.rdb", std::process::id());
        fs::copy(&path, dir.path().join(&own)).unwrap();
        fs::write(dir.path().join("temp-4294967295.rdb"), redis).unwrap();
        begin(dir.path(), "dump.rdb");
        assert!(!dir.path().join(own).exists());
        assert!(dir.path().join("temp-4294967295.rdb").exists(), "Redis writes such files, too");
    }
}
