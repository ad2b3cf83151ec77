//! space-dram.
