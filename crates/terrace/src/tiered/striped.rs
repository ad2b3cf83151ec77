//! Memory striped over several devices: each has a superblock of its own, which says which of the store's devices it is.
//!
//! ```text
//!   device 1     | superblock: 1 of 3 | strips ...
//!   device 2     | superblock: 2 of 3 | strips ...    the strips of all together are the store's region, as one device's
//!   device 3     | superblock: 3 of 3 | strips ...    bytes would be: its superblock, log, blocks (byte.rs)
//! ```
//!
//! # Invariants
//! - A device's superblock is whole on all devices, but for the magic, before one has its magic; and the store in the strips is whole
//!   before that. So a store is finished if one device's magic is there: then all others are of this store, or nothing is opened.
//!   It holds nothing if none is.
//! - Nothing is written to any device before all were looked at.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use terrace_engine::StoreError;
use terrace_media::superblock::{MAGIC, MAKING};
use terrace_media::{
    AnyRegion, ByteRegion, DEVICES_MAX, DirLock, Homes, INTERLEAVED_BYTES, Profile, STRIP_BYTES,
    SUPERBLOCK_BYTES, StripedRegion, Superblock, SuperblockError,
};

use super::numa::{self, Layout};
use super::{Made, byte};
use crate::media_source::{FoundRegion, MediaSource};
use crate::options::{Options, Tier};
use crate::size::{Place, human_bytes};
use crate::stored::refuse_notes;

/// What the superblock of a device says beside what all superblocks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// Which it is, from 1.
    device: usize,
    /// How many there are.
    devices: usize,
    /// Bytes of a strip; as many as a page is interleaved in: one device after the other.
    strip_bytes: u64,
    /// NUMA nodes that the devices are on, as many on each: the first ones on the first.
    #[serde(default = "one_node", skip_serializing_if = "is_one")]
    nodes: usize,
    /// Bytes at the end of each device that are set aside for copies.
    #[serde(default, skip_serializing_if = "is_none")]
    copy_bytes: u64,
}

fn one_node() -> usize {
    1
}
fn is_one(nodes: &usize) -> bool {
    *nodes == 1
}
fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

impl Fields {
    fn new(device: usize, devices: usize, layout: Layout) -> Self {
        let Layout { strip_bytes, nodes, copy_bytes } = layout;
        Self { device, devices, strip_bytes, nodes, copy_bytes }
    }
    fn layout(&self) -> Layout {
        Layout { strip_bytes: self.strip_bytes, nodes: self.nodes, copy_bytes: self.copy_bytes }
    }
}

/// The superblock of a device that memory is striped over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    superblock: Superblock,
    fields: Fields,
}

impl Label {
    /// That of a device, unless it is a whole store's.
    pub(crate) fn of(superblock: &Superblock) -> Option<Self> {
        let fields: Fields = toml::from_str(std::str::from_utf8(&superblock.options).ok()?).ok()?;
        let makes_sense = (1..=fields.devices).contains(&fields.device) && fields.devices <= DEVICES_MAX;
        let fits = fields.layout().makes_sense(fields.devices, superblock.media_bytes);
        (makes_sense && fits).then(|| Self { superblock: superblock.clone(), fields })
    }

    /// Why a device is no store by itself.
    pub(crate) fn refuse_alone(&self, place: &Path) -> StoreError {
        let Fields { device, devices, .. } = self.fields;
        StoreError::Options(format!(
            "{} is device {device} of the {devices} that memory is striped over: give all of them, --pmem SIZE@PATH,SIZE@PATH... (or \
             terrace check PATH PATH...)",
            place.display()
        ))
    }

    fn is_beside(&self, other: &Self) -> bool {
        let of = |label: &Self| (label.superblock.identity, label.fields.devices, label.fields.layout());
        of(self) == of(other)
    }

    /// For people.
    fn describe(&self) -> String {
        let id = super::store_id(&self.superblock);
        let Fields { device, devices, .. } = self.fields;
        format!("device {device} of {devices} of the {} store {id:016x}", self.superblock.engine)
    }
}

/// What a device's first page is.
#[derive(Debug, PartialEq, Eq)]
enum Page {
    Blank,
    /// A store was being made, and this much was said by then.
    Unfinished(Option<Label>),
    Whole(Label),
}

/// What devices are together.
#[derive(Debug, PartialEq, Eq)]
enum Together {
    /// Nothing yet, or what was never finished.
    New,
    /// A store: which of the given is its first device, and so on, and whether a magic is missing.
    Store { order: Vec<usize>, bytes: u64, layout: Layout, unfinished: Vec<usize> },
}

/// Striped memory that was found.
pub(super) struct Striped {
    pub found: FoundRegion,
    pub devices: Devices,
    pub locks: Vec<DirLock>,
    pub made: Made,
    /// What there is to say about it.
    pub notes: Vec<String>,
}

/// The devices of striped memory in their order.
pub(super) struct Devices {
    all: Vec<(PathBuf, Arc<AnyRegion>)>,
    layout: Layout,
    /// Bytes of each.
    bytes: u64,
}

impl Devices {
    /// All of their places, for people.
    pub(super) fn place(&self) -> PathBuf {
        Self::listed(&self.all)
    }

    /// The NUMA nodes that a store of so many bytes lies on, and memory of theirs for copies; nothing where it is one.
    pub(super) fn copies(&self, store_bytes: u64) -> Result<Option<(Homes, Arc<AnyRegion>)>, StoreError> {
        self.layout.copies(&self.all, self.bytes, store_bytes)
    }

    fn listed<R>(devices: &[(PathBuf, R)]) -> PathBuf {
        let places: Vec<_> = devices.iter().map(|(path, _)| path.as_path()).collect();
        listed(&places).into()
    }

    /// Gives each its superblock: the store, whose superblock this is, is finished.
    pub(super) fn name(&self, superblock: &Superblock) -> Result<(), StoreError> {
        let mut pages = Vec::new();
        for (i, (_, region)) in self.all.iter().enumerate() {
            let fields = Fields::new(i + 1, self.all.len(), self.layout);
            let sense = |error: &dyn std::fmt::Display| StoreError::Options(format!("a superblock: {error}"));
            let options = toml::to_string(&fields).map_err(|error| sense(&error))?.into_bytes();
            let label = Superblock { options, media_bytes: region.len(), ..superblock.clone() };
            pages.push(label.encode().map_err(|error| sense(&error))?);
        }
        // The magics are last.
        for ((_, region), page) in self.all.iter().zip(&pages) {
            region.write_nt(MAKING.len() as u64, &page[MAKING.len()..]);
            region.fence();
        }
        for ((_, region), page) in self.all.iter().zip(&pages) {
            byte::store_word(&**region, std::array::from_fn(|i| page[i]));
        }
        Ok(())
    }
}

/// Finds striped memory at its places, making what is missing of a new store.
///
/// # Errors
/// As [`byte::find`], and [`StoreError::Options`] or [`StoreError::Corrupt`] if the devices are not those of one store.
pub(super) fn find(
    source: &dyn MediaSource,
    options: &Options,
    tier: &Tier,
    paths: &[PathBuf],
    profile: Option<Profile>,
) -> Result<Striped, StoreError> {
    if !(1..=DEVICES_MAX).contains(&paths.len()) {
        return Err(StoreError::Options(format!(
            "--pmem with {} places: memory is striped over {DEVICES_MAX} devices at most",
            paths.len()
        )));
    }
    refuse_twice(paths)?;
    let share = tier.bytes / paths.len() as u64;
    let (mut locks, mut held, mut made) = (Vec::new(), Vec::new(), Made::default());
    let mut find_one = |path: &PathBuf| {
        let tier = Tier { bytes: share, place: Some(Place::Path(path.clone())) };
        let (lock, region, files) = byte::find(source, options, &tier, path, profile.clone(), &held)?;
        made.join(files);
        let file = byte::file_at(path);
        if lock.is_some() && file.is_file() {
            held.extend(file.parent().and_then(|dir| dir.canonicalize().ok()));
        }
        locks.extend(lock);
        let page = page(&*region.region, &file)?;
        Ok::<_, StoreError>((file, region, page))
    };
    // What is there says whether anything may be made beside it.
    let there = |path: &&PathBuf| byte::file_at(path).exists();
    let mut devices: Vec<_> = paths
        .iter()
        .map(|path| Some(path).filter(there).map(&mut find_one).transpose())
        .collect::<Result<_, _>>()?;
    refuse_missing(paths, &devices)?;
    for (path, device) in paths.iter().zip(&mut devices) {
        if device.is_none() {
            *device = Some(find_one(path)?);
        }
    }
    let (mut found, pages): (Vec<_>, Vec<_>) =
        devices.into_iter().flatten().map(|(path, region, page)| ((path, region), page)).unzip();
    let given: Vec<_> = found.iter().map(|(path, _)| path.clone()).collect();
    let places: Vec<_> = given.iter().map(PathBuf::as_path).collect();
    let (order, bytes, layout, unfinished) = match together(&places, &pages)? {
        Together::New => {
            let bytes = refuse_new(options, &found, &pages)?;
            let strip_bytes = if options.pmem_interleaved { INTERLEAVED_BYTES } else { STRIP_BYTES };
            let (nodes, order) = numa::deal(options, &places)?;
            in_order(&mut found, &order);
            (None, bytes, Layout::new(strip_bytes, nodes, bytes), Vec::new())
        }
        Together::Store { order, bytes, layout, unfinished } => (Some(order), bytes, layout, unfinished),
    };
    let unfinished: Vec<_> = unfinished.into_iter().map(|i| found[i].1.region.clone()).collect();
    let mut notes = Vec::new();
    let is_new = order.is_none();
    if let Some(order) = order {
        notes.extend(reordered(&places, &order));
        let stored = bytes * order.len() as u64;
        if tier.bytes.abs_diff(stored) > paths.len() as u64 * SUPERBLOCK_BYTES as u64 {
            notes.push(format!(
                "pmem  the store keeps its size, {}, where {} was asked for: striped memory can't have another",
                human_bytes(stored),
                human_bytes(tier.bytes)
            ));
        }
        if let Some(nodes) = options.nodes.filter(|nodes| *nodes as usize != layout.nodes) {
            notes.push(format!(
                "pmem  the store keeps its NUMA nodes, {}, where --nodes {nodes} was given: a new one can have others",
                layout.nodes
            ));
        }
        in_order(&mut found, &order);
    }
    let (description, promises) = describe(&found, layout);
    let devices: Vec<_> = found.into_iter().map(|(path, found)| (path, found.region)).collect();
    let region = layout.strips(devices.iter().map(|(_, region)| region.clone()).collect(), bytes)?;
    if !is_new && !byte::first_page(&region, &Devices::listed(&devices))?.starts_with(&MAGIC) {
        return Err(StoreError::Corrupt(format!(
            "{}: the devices are those of one store, and the first strips, where its superblock is, hold none: nothing was changed. \
             Put the first 8192 bytes of each device back from a copy of it",
            Devices::listed(&devices).display()
        )));
    }
    unfinished.iter().for_each(|region| byte::finish_making(&**region));
    if is_new {
        // First of all the devices: what the strips hold counts for nothing then.
        devices.iter().for_each(|(_, region)| byte::store_word(&**region, MAKING));
        byte::store_word(&region, MAKING);
    }
    let found = FoundRegion::new(Arc::new(region), description, promises);
    Ok(Striped { found, devices: Devices { all: devices, layout, bytes }, locks, made, notes })
}

/// Puts things in an order, each of which is there once.
fn in_order<T>(things: &mut Vec<T>, order: &[usize]) {
    let mut all: Vec<_> = things.drain(..).map(Some).collect();
    things.extend(order.iter().filter_map(|i| all[*i].take()));
}

/// The devices of a store, in whatever order they are given, as one region, to be looked at or repaired.
///
/// # Errors
/// If they are not those of one store, and all of it.
pub(crate) fn assemble<R: ByteRegion>(
    devices: Vec<(PathBuf, Arc<R>)>,
) -> Result<(StripedRegion<R>, Vec<PathBuf>), StoreError> {
    let pages =
        devices.iter().map(|(path, region)| page(&**region, path)).collect::<Result<Vec<_>, StoreError>>()?;
    let places: Vec<_> = devices.iter().map(|(path, _)| path.as_path()).collect();
    let Together::Store { order, bytes, layout, .. } = together(&places, &pages)? else {
        return Err(StoreError::Options(format!(
            "{}: no store is striped over them, or it was never finished and holds nothing",
            listed(&places)
        )));
    };
    let regions = order.iter().map(|i| devices[*i].1.clone()).collect();
    let region = layout.strips(regions, bytes)?;
    Ok((region, order.into_iter().map(|i| devices[i].0.clone()).collect()))
}

/// What a device's first page says.
fn page<R: ByteRegion>(region: &R, place: &Path) -> Result<Page, StoreError> {
    let bytes = byte::first_page(region, place)?;
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(Page::Blank);
    }
    if bytes.starts_with(&MAKING) {
        let superblock = Superblock::decode_unfinished(&bytes).ok();
        return Ok(Page::Unfinished(superblock.and_then(|superblock| Label::of(&superblock))));
    }
    let superblock = Superblock::decode(&bytes).map_err(|error| {
        StoreError::Corrupt(format!(
            "{}: {error}; nothing was changed: if a store was here, put this page back from a copy of it",
            place.display()
        ))
    })?;
    let Some(label) = Label::of(&superblock) else {
        return Err(StoreError::Options(format!(
            "{} holds a {} store by itself, not a share of one: give it alone, or make a new store at other places",
            place.display(),
            superblock.engine
        )));
    };
    if ![STRIP_BYTES, INTERLEAVED_BYTES].contains(&label.fields.strip_bytes) {
        return Err(StoreError::Options(format!(
            "{}: strips of {} bytes, and this program knows strips of {STRIP_BYTES}, and pages of {INTERLEAVED_BYTES} that are \
             interleaved: use the terrace that it was made by",
            place.display(),
            label.fields.strip_bytes
        )));
    }
    if region.len() < label.superblock.media_bytes {
        let (actual, recorded) = (region.len(), label.superblock.media_bytes);
        let error = SuperblockError::TooShort { actual, recorded };
        return Err(StoreError::Options(format!("{}: {error}", place.display())));
    }
    Ok(Page::Whole(label))
}

/// What the devices with these first pages are together.
fn together(places: &[&Path], pages: &[Page]) -> Result<Together, StoreError> {
    let whole = |page: &Page| if let Page::Whole(label) = page { Some(label.clone()) } else { None };
    let Some(store) = pages.iter().find_map(whole) else { return Ok(Together::New) };
    let mut order = vec![None; store.fields.devices];
    let (mut unfinished, mut strange) = (Vec::new(), false);
    for (i, page) in pages.iter().enumerate() {
        let label = match page {
            Page::Whole(label) => label,
            Page::Unfinished(Some(label)) => {
                unfinished.push(i);
                label
            }
            Page::Blank | Page::Unfinished(None) => {
                strange = true;
                continue;
            }
        };
        // A device that is there twice was copied, and one of both may be older.
        strange |= !label.is_beside(&store) || order[label.fields.device - 1].replace(i).is_some();
    }
    let all: Option<Vec<usize>> = order.iter().copied().collect();
    match all {
        Some(order) if !strange => {
            let (bytes, layout) = (store.superblock.media_bytes, store.fields.layout());
            Ok(Together::Store { order, bytes, layout, unfinished })
        }
        _ => Err(refuse(places, pages, &store)),
    }
}

/// Why devices are not those of one store, and what to do.
fn refuse(places: &[&Path], pages: &[Page], store: &Label) -> StoreError {
    let mut text = format!(
        "memory is striped over {} devices, and these are not they ({} given); nothing was changed.",
        store.fields.devices,
        places.len()
    );
    let mut there = vec![false; store.fields.devices];
    for (place, page) in places.iter().zip(pages) {
        let (is, label) = match page {
            Page::Blank => ("blank".to_owned(), None),
            Page::Unfinished(None) => ("of a store that was never finished".to_owned(), None),
            Page::Unfinished(Some(label)) | Page::Whole(label) => (label.describe(), Some(label)),
        };
        let mine = label.filter(|label| label.is_beside(store));
        let twice = mine.is_some_and(|label| std::mem::replace(&mut there[label.fields.device - 1], true));
        let _ = write!(text, " {} is {is}{}.", place.display(), if twice { ", once more" } else { "" });
    }
    let missing: Vec<_> =
        (1..).zip(&there).filter(|(_, there)| !**there).map(|(i, _)| i.to_string()).collect();
    let advice = match missing.is_empty() {
        true => "Leave out what is not of this store, and copies".to_owned(),
        false => format!(
            "Missing of the store {:016x}: device {}. Put it in the place of what is not of this store, or add its place (if it \
             is lost, so is the store: put all devices back from a copy)",
            super::store_id(&store.superblock),
            missing.join(" and ")
        ),
    };
    let _ = write!(text, " {advice}; to make a new store, give places that hold none");
    StoreError::Options(text)
}

/// Refuses to make a store over something, and tells how long each device is to be.
fn refuse_new(
    options: &Options,
    found: &[(PathBuf, FoundRegion)],
    pages: &[Page],
) -> Result<u64, StoreError> {
    for ((path, found), page) in found.iter().zip(pages) {
        if *page == Page::Blank {
            byte::refuse_data(&*found.region, path)?;
            refuse_notes(options.dir.as_deref(), path, &*options.clock)?;
        }
    }
    let lens: Vec<_> = found.iter().map(|(_, found)| found.region.len()).collect();
    let bytes = lens.iter().copied().min().unwrap_or(0);
    if lens.iter().all(|len| *len == bytes) {
        return Ok(bytes);
    }
    let of = found.iter().map(|(path, found)| format!("{} has {} bytes", path.display(), found.region.len()));
    Err(StoreError::Options(format!(
        "memory is striped over devices of one size, and {}: give all the same",
        of.collect::<Vec<_>>().join(", ")
    )))
}

/// Refuses a place that was given twice.
fn refuse_twice(paths: &[PathBuf]) -> Result<(), StoreError> {
    let files: Vec<_> = paths.iter().map(|path| byte::file_at(path)).collect();
    let real: Vec<_> =
        files.iter().map(|file| file.canonicalize().unwrap_or_else(|_| file.clone())).collect();
    for (i, file) in real.iter().enumerate() {
        if real[..i].contains(file) {
            return Err(StoreError::Options(format!(
                "--pmem has {} twice: each device is given once",
                files[i].display()
            )));
        }
    }
    Ok(())
}

/// Refuses to make a file where another place has a device of a store: it is missing.
fn refuse_missing(
    paths: &[PathBuf],
    devices: &[Option<(PathBuf, FoundRegion, Page)>],
) -> Result<(), StoreError> {
    let missing = paths.iter().zip(devices).filter(|(_, device)| device.is_none());
    let missing: Vec<_> = missing.map(|(path, _)| path.as_path()).collect();
    let store = devices.iter().flatten().find_map(|(file, _, page)| match page {
        Page::Whole(label) => Some((file, label)),
        Page::Blank | Page::Unfinished(_) => None,
    });
    match store {
        Some((file, label)) if !missing.is_empty() => Err(StoreError::Corrupt(format!(
            "nothing is at {}, and {} is {}: is a disk not mounted, or its place another one? Put it back (if it is lost, so is \
             the store: put all devices back from a copy); to make a new store, give places that hold none",
            listed(&missing),
            file.display(),
            label.describe()
        ))),
        _ => Ok(()),
    }
}

/// What to say of devices that were given in another order than they have.
fn reordered(places: &[&Path], order: &[usize]) -> Option<String> {
    if order.is_sorted() {
        return None;
    }
    let in_order: Vec<_> = order.iter().map(|i| places[*i]).collect();
    Some(format!("pmem  the devices were given in another order: they are {}", listed(&in_order)))
}

fn listed(places: &[&Path]) -> String {
    places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// What the devices are, and the least that any of them promises.
fn describe(found: &[(PathBuf, FoundRegion)], layout: Layout) -> (String, terrace_media::Survives) {
    let mut kinds: Vec<_> = found.iter().map(|(_, found)| found.description.as_str()).collect();
    kinds.dedup();
    let promises = found.iter().map(|(_, found)| found.promises).min();
    let how = match layout.strip_bytes {
        INTERLEAVED_BYTES => format!("interleaved in pages of {INTERLEAVED_BYTES} bytes"),
        strip_bytes => format!("in strips of {strip_bytes} bytes"),
    };
    let text = format!(
        "{} devices{} {how}, each {}",
        found.len(),
        layout.describe(found.iter().map(|(path, _)| path.as_path())),
        kinds.join(" or ")
    );
    (text, promises.unwrap_or(terrace_media::Survives::Nothing))
}

#[cfg(test)]
mod tests;
