//! What the numbers of a run depend on.

use serde::Serialize;

use crate::Config;
use crate::report::Circumstances;

/// The options in force, defaults filled in.
#[derive(Clone, Debug, Serialize)]
pub struct OptionsReport {
    /// Operations submitted together.
    pub batch: usize,
    /// Batches that each thread kept submitted.
    pub in_flight: usize,
    /// Operations a second that were asked for, if any rate was.
    pub rate: Option<u64>,
    /// Length of keys.
    pub key_bytes: usize,
    /// Length of values.
    pub value_bytes: usize,
    /// The generator.
    pub distribution: String,
    /// What all random choices follow from.
    pub seed: u64,
    /// Bytes of the records with their headers: what percentages are of.
    pub data_bytes: Option<u64>,
    /// Bound on memory.
    pub dram: Option<u64>,
    /// Bound on the record space in DRAM.
    pub dram_records: Option<u64>,
    /// Size of the byte-addressable tier.
    pub pmem: Option<u64>,
    /// Size of the block tier.
    pub ssd: Option<u64>,
    /// The emulated device.
    pub profile: Option<String>,
    /// Whether a device is emulated: times are then the emulation's.
    pub emulated: bool,
    /// When writes are answered.
    pub durability: String,
    /// Where the store was.
    pub dir: Option<String>,
    /// The server driven.
    pub connect: Option<String>,
    /// What the store found and chose.
    pub description: Vec<String>,
}

impl OptionsReport {
    pub(crate) fn new(config: &Config, at: Circumstances<'_>) -> Self {
        let (storage, durability, description) = match at {
            Circumstances::Here(storage, found) => {
                (Some(storage), storage.options.durability.to_string(), found)
            }
            Circumstances::There(about) => {
                let durability = about.get("durability").unwrap_or_else(|| "the server's".to_owned());
                (None, durability, about.found)
            }
        };
        let options = storage.map(|storage| &storage.options);
        Self {
            batch: config.batch,
            in_flight: config.in_flight,
            rate: config.rate,
            key_bytes: config.key_bytes,
            value_bytes: config.value_bytes,
            distribution: config.distribution().to_string(),
            seed: config.seed,
            data_bytes: storage.map(|storage| storage.data_bytes),
            dram: options.and_then(|options| options.dram),
            dram_records: options.and_then(|options| options.dram_records),
            pmem: options.and_then(|options| options.pmem.as_ref()).map(|tier| tier.bytes),
            ssd: options.and_then(|options| options.ssd.as_ref()).map(|tier| tier.bytes),
            profile: options.and_then(|options| options.profile.clone()),
            emulated: options.is_some_and(|options| options.profile.is_some()),
            durability,
            dir: options.and_then(|options| options.dir.as_ref()).map(|dir| dir.display().to_string()),
            connect: config.connect.map(|endpoint| endpoint.to_string()),
            description,
        }
    }
}
