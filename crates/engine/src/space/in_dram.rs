//! A space whose records are all in memory, or all in DRAM.

use std::io;
use std::os::fd::RawFd;

use terrace_index::Address;

use super::durable::{Durable, Found};
use super::reads::{Arrival, DeviceReads};
use super::records::Records;
use crate::session::StoreError;
use crate::stats::Scanned;

/// A space whose records are all read at once: none needs a read from a device. That is all it says of [`DeviceReads`].
pub trait ReadAtOnce: Records {}

/// A space whose records are all in DRAM: none survives the process. That is all it says of [`Durable`].
pub trait InDram: ReadAtOnce {}

impl<S: ReadAtOnce> DeviceReads for S {
    fn start_read(
        &self,
        _local: &mut Self::Local,
        _address: Option<Address>,
        _extent: &[u8],
        _token: u64,
    ) -> bool {
        // Nobody asks, for no fetch says that a read is needed.
        false
    }
    fn reap(&self, _local: &mut Self::Local, _wait: bool, _out: &mut Vec<Arrival>) {}
    fn read_fd(&self, _local: &Self::Local) -> Option<RawFd> {
        None
    }
}

impl<S: InDram> Durable for S {
    const SURVIVES: bool = false;

    fn persisted_seq(&self) -> u64 {
        0
    }
    fn last_seq(&self) -> u64 {
        0
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn save_manifest(&self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn scan_media(
        &self,
        _trusted_seq: u64,
        _threads: usize,
        _progress: &(dyn Fn(u64, u64) + Sync),
        _found: &(dyn Fn(Found) + Sync),
    ) -> Result<(), StoreError> {
        Ok(())
    }
    fn scan_again(
        &self,
        _threads: usize,
        _progress: &(dyn Fn(u64, u64) + Sync),
        _found: &(dyn Fn(Found) + Sync),
    ) -> Result<(), StoreError> {
        Ok(())
    }
    fn scanned(&self) -> Scanned {
        Scanned::default()
    }
    fn read_keys(
        &self,
        _addresses: &[Address],
        _found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        Ok(())
    }
    fn adopt(&self, _found: &Found) {}
    fn adopt_extent(&self, _description: &[u8]) {}
    fn clear_torn(&self) -> Result<(), StoreError> {
        Ok(())
    }
    fn finish_recovery(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
