//! Which device of several holds which bytes: BonsaiKV's striping (4.3.1), over all of a store's memory.
//!
//! ```text
//!   group                0   1   2   3   4   5 | 6   7   8 ...           strips of 256 bytes, N to a group
//!   row 0 of device   0: 3   1: 0   2: 5   3: 1   4: 4   5: 2            group 0, by one permutation
//!   row 1 of device   0: 7   1: 10  ...                                  group 1, by another one
//! ```
//!
//! # Invariants
//! - A strip is on one device, and each device has one strip of each group, in the row of the group's number: all have the
//!   same share, and what is read in a row of up to N strips is read from as many devices.
//! - Of all permutations together each device has each place equally often, for they come with all of their rotations: what
//!   always lies at one place of a group is spread, too.
//! - Each of several nodes has a share of the bytes, one after the other, in strips over devices of its own.
//! - Memory that is *interleaved* goes from device to device in pages, one after the other, as processors do it: for comparisons.
//! - It is part of the format (`docs/formats/superblock.md`): the same for a number of devices, for good.

/// Bytes of a strip: a granule of Optane's, and the paper's size.
pub const STRIP_BYTES: u64 = 256;

/// Bytes that memory goes on for on one device where it is interleaved.
pub const INTERLEAVED_BYTES: u64 = 4096;

/// Devices that bytes can be spread over.
pub const DEVICES_MAX: usize = 64;

/// Permutations that are drawn, beside their rotations.
const DRAWN: usize = 16;

const _: () = assert!(STRIP_BYTES.is_power_of_two() && STRIP_BYTES >= crate::CACHE_LINE as u64);

/// Where the bytes of strips over a number of devices are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripes {
    /// Of each node.
    devices: u64,
    /// Bytes of a node's devices together; all there are, where there is one node.
    node_bytes: u64,
    /// 2^64 by them, rounded up: what is divided by them at each access has 56 bits, and is exact so.
    reciprocal: u64,
    strip_bytes: u64,
    /// Devices by place in a group, one permutation after the other.
    permutations: Box<[u8]>,
}

/// What lies together of a range: on one device, from a byte of its on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which device.
    pub device: usize,
    /// From which byte of the device on.
    pub at: u64,
    /// From which byte of the range on.
    pub from: usize,
    /// How many bytes.
    pub len: usize,
}

impl Stripes {
    /// Strips over so many devices.
    ///
    /// # Panics
    /// If that is none, or more than [`DEVICES_MAX`].
    pub fn new(devices: usize) -> Self {
        assert!((1..=DEVICES_MAX).contains(&devices), "strips over {devices} devices");
        let mut permutations = Vec::with_capacity(DRAWN * devices * devices);
        let mut random = 0;
        for _ in 0..DRAWN {
            let mut drawn: Vec<u8> = (0..devices as u8).collect();
            for last in (1..devices).rev() {
                random = splitmix(random);
                drawn.swap(last, (mix(random) % (last as u64 + 1)) as usize);
            }
            for _ in 0..devices {
                permutations.extend_from_slice(&drawn);
                drawn.rotate_left(1);
            }
        }
        Self::of(devices, STRIP_BYTES, permutations)
    }

    /// Pages of [`INTERLEAVED_BYTES`] on one device after the other.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn interleaved(devices: usize) -> Self {
        assert!((1..=DEVICES_MAX).contains(&devices), "pages over {devices} devices");
        Self::of(devices, INTERLEAVED_BYTES, (0..devices as u8).collect())
    }

    fn of(devices: usize, strip_bytes: u64, permutations: Vec<u8>) -> Self {
        let reciprocal = (u64::MAX / devices as u64).wrapping_add(1);
        let (devices, node_bytes) = (devices as u64, u64::MAX);
        Self { devices, node_bytes, reciprocal, strip_bytes, permutations: permutations.into() }
    }

    /// The same on each of several nodes: so many bytes are on the first one's devices, as many on those of the next one.
    ///
    /// # Panics
    /// If those are not groups of strips.
    pub fn on_nodes(self, node_bytes: u64) -> Self {
        let group = self.devices * self.strip_bytes;
        assert!(
            node_bytes > 0 && node_bytes.is_multiple_of(group),
            "{node_bytes} bytes in groups of {group}"
        );
        Self { node_bytes, ..self }
    }

    /// Bytes that lie together on a device.
    pub fn strip_bytes(&self) -> u64 {
        self.strip_bytes
    }

    /// How many devices a node has.
    pub fn devices(&self) -> usize {
        self.devices as usize
    }

    /// Where a byte is: its device, and which byte of that it is.
    #[inline]
    pub fn place(&self, offset: u64) -> (usize, u64) {
        if offset < self.node_bytes {
            return self.place_on_node(offset);
        }
        let node = offset / self.node_bytes;
        let (device, at) = self.place_on_node(offset - node * self.node_bytes);
        (device + (node * self.devices) as usize, at)
    }

    #[inline]
    fn place_on_node(&self, offset: u64) -> (usize, u64) {
        if self.devices == 1 {
            return (0, offset);
        }
        // A power of two.
        let strip = offset >> self.strip_bytes.trailing_zeros();
        let group = ((u128::from(strip) * u128::from(self.reciprocal)) >> 64) as u64;
        let place = strip - group * self.devices;
        let permutations = self.permutations.len() as u64 / self.devices;
        // The upper half of the hash as a share of them all.
        let permutation = ((mix(group) >> 32) * permutations) >> 32;
        let device = self.permutations[(permutation * self.devices + place) as usize];
        (device.into(), group * self.strip_bytes + (offset & (self.strip_bytes - 1)))
    }

    /// A range's parts in its order.
    #[inline]
    pub fn parts(&self, offset: u64, len: usize) -> Parts<'_> {
        Parts { stripes: self, offset, from: 0, len }
    }
}

/// See [`Stripes::parts`].
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    stripes: &'a Stripes,
    offset: u64,
    from: usize,
    len: usize,
}

impl Iterator for Parts<'_> {
    type Item = Part;
    #[inline]
    fn next(&mut self) -> Option<Part> {
        let (from, left) = (self.from, self.len - self.from);
        if left == 0 {
            return None;
        }
        let offset = self.offset + from as u64;
        let (device, at) = self.stripes.place(offset);
        let len = match self.stripes.devices {
            1 => left.min((self.stripes.node_bytes - offset % self.stripes.node_bytes) as usize),
            _ => left.min((self.stripes.strip_bytes - offset % self.stripes.strip_bytes) as usize),
        };
        self.from += len;
        Some(Part { device, at, from, len })
    }
}

/// The next of a row of numbers, for [`mix`].
fn splitmix(state: u64) -> u64 {
    state.wrapping_add(0x9E37_79B9_7F4A_7C15)
}

/// A number's hash: the last step of splitmix64.
#[inline]
fn mix(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const DEVICES: [usize; 6] = [1, 2, 3, 4, 6, DEVICES_MAX];

    #[test]
    fn each_strip_has_a_place_of_its_own_in_the_row_of_its_group() {
        for devices in DEVICES {
            let stripes = Stripes::new(devices);
            let mut taken = HashSet::new();
            for strip in 0..1000 * devices as u64 {
                let (device, at) = stripes.place(strip * STRIP_BYTES);
                assert!(device < devices);
                assert_eq!(at, strip / devices as u64 * STRIP_BYTES, "strip {strip} of {devices} devices");
                assert!(taken.insert((device, at)), "strip {strip} of {devices} devices");
                assert_eq!(stripes.place(strip * STRIP_BYTES + 255), (device, at + 255));
            }
            assert_eq!(taken.len(), 1000 * devices, "rows without a gap");
        }
    }

    #[test]
    fn interleaved_pages_are_on_one_device_after_the_other() {
        let stripes = Stripes::interleaved(6);
        for page in 0..100 {
            assert_eq!(stripes.place(page * 4096 + 7), ((page % 6) as usize, page / 6 * 4096 + 7));
        }
        let parts: Vec<_> = stripes.parts(4000, 5000).map(|part| (part.device, part.at, part.len)).collect();
        assert_eq!(parts, [(0, 4000, 96), (1, 0, 4096), (2, 0, 808)]);
    }

    #[test]
    fn groups_are_told_as_a_division_does() {
        for devices in 2..=DEVICES_MAX {
            let stripes = Stripes::new(devices);
            let last = u64::MAX / STRIP_BYTES;
            let whole = last / devices as u64 * devices as u64;
            for strip in (0..200).chain(whole - 200..=last).chain((0..200).map(|i| mix(i) / STRIP_BYTES)) {
                let (_, at) = stripes.place(strip * STRIP_BYTES);
                assert_eq!(at / STRIP_BYTES, strip / devices as u64, "strip {strip} of {devices} devices");
            }
        }
    }

    #[test]
    fn what_lies_at_one_place_of_every_group_is_spread() {
        for devices in DEVICES.into_iter().filter(|devices| *devices <= 6) {
            let stripes = Stripes::new(devices);
            for place in 0..devices as u64 {
                let mut counts = vec![0_u64; devices];
                let groups = 10_000 * devices as u64;
                for group in 0..groups {
                    counts[stripes.place((group * devices as u64 + place) * STRIP_BYTES).0] += 1;
                }
                let far = counts.iter().any(|count| count.abs_diff(10_000) > 700);
                assert!(!far, "place {place} of {devices} devices: {counts:?}");
            }
            let column = |place| stripes.permutations.chunks(devices).map(move |devices| devices[place]);
            for device in 0..devices as u8 {
                for place in 0..devices {
                    assert_eq!(column(place).filter(|found| *found == device).count(), DRAWN);
                }
            }
        }
    }

    #[test]
    fn a_range_is_split_where_strips_end() {
        let stripes = Stripes::new(3);
        let parts: Vec<_> = stripes.parts(200, 400).collect();
        let shape: Vec<_> = parts.iter().map(|part| (part.from, part.len)).collect();
        assert_eq!(shape, [(0, 56), (56, 256), (312, 88)]);
        for part in parts {
            assert_eq!((part.device, part.at), stripes.place(200 + part.from as u64));
        }
        assert_eq!(stripes.parts(256, 0).next(), None);
        let whole = Part { device: 0, at: 200, from: 0, len: 4000 };
        assert_eq!(Stripes::new(1).parts(200, 4000).collect::<Vec<_>>(), [whole]);
    }

    #[test]
    fn each_node_has_its_bytes_on_devices_of_its_own() {
        for devices in [1, 3] {
            let node = 10 * devices as u64 * STRIP_BYTES;
            let (stripes, on_nodes) = (Stripes::new(devices), Stripes::new(devices).on_nodes(node));
            for strip in 0..3 * node / STRIP_BYTES {
                let offset = strip * STRIP_BYTES + 7;
                let (device, at) = stripes.place(offset % node);
                let there = device + (offset / node) as usize * devices;
                assert_eq!(on_nodes.place(offset), (there, at), "byte {offset} of {devices} devices a node");
            }
            let parts: Vec<_> = on_nodes.parts(node - 100, 300).map(|part| (part.from, part.len)).collect();
            assert_eq!(parts[0], (0, 100), "a range ends where a node does");
            assert_eq!(parts.iter().map(|(_, len)| len).sum::<usize>(), 300);
        }
    }

    /// What stores on devices have: it must never change.
    #[test]
    fn the_permutations_are_the_formats() {
        let of = |devices: usize| -> Vec<usize> {
            let stripes = Stripes::new(devices);
            (0..18).map(|strip| stripes.place(strip * STRIP_BYTES).0).collect()
        };
        assert_eq!(of(2), [0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1]);
        assert_eq!(of(3), [2, 0, 1, 0, 1, 2, 2, 1, 0, 1, 2, 0, 2, 0, 1, 2, 0, 1]);
        assert_eq!(of(6), [4, 2, 5, 3, 0, 1, 1, 4, 0, 5, 2, 3, 0, 3, 5, 4, 2, 1]);
        let of_all: Vec<u8> =
            (1..=DEVICES_MAX).flat_map(|devices| Stripes::new(devices).permutations).collect();
        assert_eq!(crc32c::crc32c(&of_all), 0xf0a2_8e5e);
    }
}
