//! Engine `hetermm`: the hybrid log over a byte-addressable or a block tier.

use terrace_engine::StoreError;

use crate::open::Opened;
use crate::options::Options;

pub(crate) fn open(_options: &Options) -> Result<Opened, StoreError> {
    Err(StoreError::Options("engine hetermm is not there yet: use dram".into()))
}
