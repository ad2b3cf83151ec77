//! Anonymous memory as a region.

use std::io;

use crate::mapping::Mapping;
use crate::region::{Region, Survives, byte_region};
use crate::{Machine, Profile, numa};

/// Zeroed memory that ends with the process: DRAM, or memory of a NUMA or CXL node, or a stand-in for a device.
///
/// Pages are taken from the machine when they are first touched, or by [`populate`](HeapRegion::populate); regions of 2 MiB and more ask for huge pages.
pub struct HeapRegion {
    region: Region,
    node: Option<u32>,
}

impl HeapRegion {
    /// `len` bytes of plain memory.
    ///
    /// # Errors
    /// If `len` is 0 or can't be mapped.
    pub fn new(len: u64) -> io::Result<Self> {
        Self::with_profile(len, None)
    }

    /// `len` bytes that cost what `profile` says.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_profile(len: u64, profile: Option<Profile>) -> io::Result<Self> {
        Ok(Self { region: Region::new(Mapping::anonymous(len)?, len, profile)?, node: None })
    }

    /// `len` bytes from one NUMA node (a CXL expander shows up as a node without processors).
    ///
    /// # Errors
    /// As [`new`](Self::new); `NotFound` if there is no such node, and what the kernel says if it won't bind to it.
    pub fn on_node(len: u64, node: u32, profile: Option<Profile>) -> io::Result<Self> {
        let mut this = Self::with_profile(len, profile)?;
        this.region.bind(node)?;
        this.node = Some(node);
        Ok(this)
    }

    /// Takes its memory from the machine now, unless that is more than a quarter of what there is: a device that it stands for has its
    /// memory, and a page's first access costs no zeroing there. Takes about a second for 4 GiB.
    pub fn populate(&self) {
        let machine = Machine::detect();
        if self.region.len() <= machine.available_bytes.min(machine.usable_bytes()) / 4 {
            self.region.mapping().populate();
        }
    }

    /// What it is, for people: `anonymous memory`, `emulated optane-200 on anonymous memory`.
    pub fn describe(&self) -> String {
        match self.node {
            None => self.region.describe("anonymous memory"),
            Some(node) => self.region.describe(&format!("memory of {}", numa::describe(node))),
        }
    }

    /// What its bytes truly outlive.
    pub fn survives(&self) -> Survives {
        Survives::Nothing
    }

    /// What a durability promise may rest on: the device that it stands for, if it stands for one.
    pub fn promises(&self) -> Survives {
        self.region.promises(self.survives())
    }

    /// The profile that it emulates.
    pub fn profile(&self) -> Option<&Profile> {
        self.region.profile()
    }

    /// Nanoseconds that accesses were charged for the emulated device, in all; 0 without a profile.
    pub fn emulated_ns(&self) -> u64 {
        self.region.emulated_ns()
    }
}

byte_region!(HeapRegion);
