//! Putting a store in DRAM together: index, space, machine.

use terrace_engine::manifest::Manifest;
use terrace_engine::{Machine, MachineOptions, Store, StoreError, StoreHandle};
use terrace_index::{Index, MakeIndex};
use terrace_log::ByteLog;
use terrace_media::HeapRegion;

use crate::DramSpace;

/// Opens a store in so many bytes of DRAM, which bound the index too if `with_index`.
///
/// # Errors
/// As [`Machine::open`].
pub fn open(
    options: MachineOptions,
    (bytes, with_index): (u64, bool),
    index: MakeIndex<'_>,
) -> Result<Box<dyn Store>, StoreError> {
    let space = DramSpace::new(bytes, with_index);
    match index {
        MakeIndex::Clht(index) => open_with(options, space, index()),
        MakeIndex::Other(index) => open_with(options, space, index()),
    }
}

fn open_with<I: Index>(
    options: MachineOptions,
    space: DramSpace,
    index: I,
) -> Result<Box<dyn Store>, StoreError> {
    // No log is ever made: its type stands for none.
    let machine = Machine::<I, DramSpace, ByteLog<HeapRegion>>::open(
        options,
        index,
        space,
        None,
        Manifest::default(),
        &|_, _| {},
    )?;
    Ok(Box::new(StoreHandle(machine)))
}
