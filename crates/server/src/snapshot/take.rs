//! Taking one: what the thread of a snapshot does.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use terrace_engine::DATABASES;
use terrace_engine::clock::Time;

use super::dumps;
use super::rdb::RdbFile;
use super::reader::Reader;
use super::spill::Spill;
use crate::registry::{NOTED_BYTES_MAX, NOTED_KEYS_MAX, Notes, Registry, want};
use crate::shared::{Shared, wall_clock_ms};

/// So many notes are read again while the iteration goes on.
const MANY: usize = 8192;
/// So few are left to the moment in which everything waits.
const FEW: usize = 256;
/// Rounds in which they may become few; the moment takes longer if they don't.
const ROUNDS_MAX: usize = 16;
/// Times that it begins anew because databases were flushed or swapped.
const BEGINNINGS_MAX: usize = 10;
/// Times that the workers are asked to rest.
const CLOSINGS_MAX: usize = 30;

/// Takes a snapshot into the place that the options name.
///
/// # Errors
/// In words for people; there is no file then but the one that was there.
pub(super) fn take(shared: &Shared) -> Result<(), String> {
    let dir = Path::new(&shared.options.dir);
    let path = dir.join(&shared.options.dbfilename);
    let begun = Instant::now();
    tracing::info!(path = %path.display(), "a snapshot begins");
    let told = |error: io::Error| format!("{}: {error}", path.display());
    let temporary = Temporary(dir.join(format!("temp-{}.rdb", std::process::id())));
    // A store in memory may have made none.
    std::fs::create_dir_all(dir).map_err(told)?;
    // One that a server of the same number left when it was killed.
    let _none = std::fs::remove_file(&temporary.0);
    let (keys, bytes) = write(shared, &temporary.0).map_err(told)?;
    dumps::make_room(&path).map_err(told)?;
    std::fs::rename(&temporary.0, &path).map_err(told)?;
    std::fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(told)?;
    let seconds = begun.elapsed().as_secs_f64();
    tracing::info!(path = %path.display(), keys, bytes, seconds, "the snapshot is written");
    Ok(())
}

/// A file that is removed, if it is still there.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _moved = std::fs::remove_file(&self.0);
    }
}

/// Writes it to the file; how many keys and bytes.
fn write(shared: &Shared, path: &Path) -> io::Result<(u64, u64)> {
    // First, for what can't be written should fail soon.
    let mut file = RdbFile::create(path, wall_clock_ms() / 1000)?;
    let (reader, time) = {
        let _noting = Noting::begin(&shared.connections);
        let taken = (0..BEGINNINGS_MAX).find_map(|_| read_all(shared).transpose());
        taken.unwrap_or_else(|| {
            let text = format!("databases were flushed or swapped {BEGINNINGS_MAX} times while it was taken");
            Err(io::Error::other(text))
        })?
    };
    let Reader { spill, damaged, .. } = reader;
    if damaged > 0 {
        tracing::warn!(damaged, "records that were damaged on their medium are not in the snapshot");
    }
    let keys = spill.merge(&mut file, time, || stops(shared))?;
    Ok((keys, file.finish()?))
}

/// Reads everything; the spill then shows the store as it was at the time that is told. `None` if a database was flushed or
/// swapped meanwhile.
fn read_all(shared: &Shared) -> io::Result<Option<(Reader, Time)>> {
    let store = &shared.store;
    let noted = &shared.connections.noted;
    let session = store.session().map_err(io::Error::other)?;
    let mut reader = Reader::new(session, Spill::create(Path::new(&shared.options.dir), store.len_all())?);
    // What is written from here on is noted: nobody is still busy who has not seen that it must be.
    drop(hold(shared)?);
    let _old = noted.take();
    for db in (0..DATABASES as u8).filter(|db| store.len(*db) > 0) {
        let mut cursor = 0;
        loop {
            cursor = reader.step(db, cursor)?;
            if noted.len() >= MANY && !read_again(&mut reader, noted.take())? {
                return Ok(None);
            }
            if stops(shared) {
                return Err(io::Error::other("the server is shutting down"));
            }
            if cursor == 0 {
                break;
            }
        }
    }
    for _ in 0..ROUNDS_MAX {
        let notes = noted.take();
        let few = notes.keys.len() <= FEW;
        if !read_again(&mut reader, notes)? {
            return Ok(None);
        }
        if few {
            break;
        }
    }
    let closed = hold(shared)?;
    let time = store.time();
    let is_whole = read_again(&mut reader, noted.take())?;
    drop(closed);
    reader.sync()?;
    Ok(is_whole.then_some((reader, time)))
}

/// Reads noted keys again; `false` if a database was flushed or swapped.
fn read_again(reader: &mut Reader, notes: Notes) -> io::Result<bool> {
    if notes.overflowed {
        let text = format!(
            "more than {NOTED_KEYS_MAX} keys, or {} MiB of them, were written faster than they could be read again",
            NOTED_BYTES_MAX >> 20
        );
        return Err(io::Error::other(text));
    }
    if notes.whole {
        return Ok(false);
    }
    reader.read(notes.keys)?;
    Ok(true)
}

/// Has all workers rest.
fn hold(shared: &Shared) -> io::Result<super::gate::Closed<'_>> {
    for _ in 0..CLOSINGS_MAX {
        if stops(shared) {
            return Err(io::Error::other("the server is shutting down"));
        }
        if let Some(closed) = shared.snapshots.gate.close(&shared.connections, || stops(shared)) {
            return Ok(closed);
        }
        shared.snapshots.gate.leave_open(|| stops(shared));
    }
    Err(io::Error::other("what is in flight does not end: a device is very slow"))
}

fn stops(shared: &Shared) -> bool {
    shared.stopping.load(Relaxed)
}

/// Has keys that are written noted.
struct Noting<'a>(&'a Registry);

impl<'a> Noting<'a> {
    fn begin(connections: &'a Registry) -> Self {
        connections.want(want::NOTES, true);
        Self(connections)
    }
}

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        self.0.want(want::NOTES, false);
        // A worker may add some more: they are few, and taken when the next one begins.
        let _done = self.0.noted.take();
    }
}
