use super::*;
use crate::stripes::STRIP_BYTES;
use crate::{HeapRegion, Profile};

const EACH: u64 = 64 << 10;
const START: u64 = 4096;

fn devices(count: usize, profile: Option<&str>) -> Vec<Arc<HeapRegion>> {
    let profile = profile.map(|name| Profile::built_in(name).unwrap());
    (0..count).map(|_| Arc::new(HeapRegion::with_profile(EACH, profile.clone()).unwrap())).collect()
}

fn striped(count: usize) -> StripedRegion<HeapRegion> {
    StripedRegion::new(devices(count, None), START..EACH).unwrap()
}

/// A row of numbers, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn it_is_as_plain_memory() {
    for count in [1, 2, 3, 6] {
        let region = striped(count);
        assert_eq!(region.len(), (EACH - START) * count as u64);
        let (mut model, mut numbers) = (vec![0; region.len() as usize], Numbers(count as u64));
        for round in 0..3000 {
            let at = numbers.below(region.len());
            let len =
                numbers.below(if round % 100 == 0 { 40_000 } else { 700 }).min(region.len() - at) as usize;
            let bytes: Vec<u8> = (0..len).map(|_| numbers.below(256) as u8).collect();
            let word = at / 8 * 8;
            match numbers.below(5) {
                0 => {
                    region.write(at, &bytes);
                    region.flush(at, len);
                    model[at as usize..][..len].copy_from_slice(&bytes);
                }
                1 => {
                    region.write_nt(at, &bytes);
                    model[at as usize..][..len].copy_from_slice(&bytes);
                }
                2 => {
                    let value = numbers.below(u64::MAX);
                    region.store_u64(word, value);
                    model[word as usize..][..8].copy_from_slice(&value.to_le_bytes());
                }
                3 => {
                    region.fence();
                    let bursts = region.counters().snapshot().writes;
                    region.devices().iter().for_each(|device| device.fence());
                    assert_eq!(region.counters().snapshot().writes, bursts, "nothing was left unfenced");
                    let expected = u64::from_le_bytes(model[word as usize..][..8].try_into().unwrap());
                    assert_eq!(region.load_u64(word), expected);
                }
                _ => {
                    region.prefetch(at, len);
                    let mut found = vec![0; len];
                    region.read(at, &mut found);
                    assert_eq!(found, model[at as usize..][..len], "{len} bytes at {at} of {count} devices");
                }
            }
        }
        let mut all = vec![0; model.len()];
        region.read(0, &mut all);
        assert_eq!(all, model);
        for device in region.devices() {
            let mut front = vec![9; START as usize];
            device.read(0, &mut front);
            assert!(front.iter().all(|byte| *byte == 0), "what is in front is not its own");
        }
    }
}

#[test]
fn a_thread_fences_the_devices_that_it_flushed_to() {
    let region = striped(3);
    let fences = || -> Vec<u64> { region.devices().iter().map(|d| d.counters().snapshot().fences).collect() };
    let offset_on = |device: usize| {
        let strips = (0..100).map(|strip| strip * STRIP_BYTES);
        strips.into_iter().find(|offset| region.place(*offset).0 == device).unwrap()
    };
    region.write(offset_on(1), b"one");
    region.flush(offset_on(1), 3);
    region.fence();
    assert_eq!(fences(), [0, 1, 0]);
    region.write_nt(offset_on(0), b"another");
    region.write_nt(offset_on(2), b"a third");
    std::thread::scope(|scope| {
        // Nothing of this thread's is to be fenced; its stores are put in order all the same.
        scope.spawn(|| region.fence());
    });
    assert_eq!(fences(), [1, 1, 0]);
    region.fence();
    assert_eq!(fences(), [2, 1, 1]);
    region.flush(offset_on(2), 0);
    region.fence();
    assert_eq!(fences(), [3, 1, 1], "nothing was flushed");
}

#[test]
fn counters_are_the_sums_of_the_devices() {
    let region = striped(2);
    region.write_nt(0, &[7; 2 * STRIP_BYTES as usize]);
    region.fence();
    let mut out = [0; 100];
    region.read(0, &mut out);
    let each: Vec<_> = region.devices().iter().map(|device| device.counters().snapshot()).collect();
    assert_eq!(each.iter().map(|each| each.write_bytes).collect::<Vec<_>>(), [STRIP_BYTES; 2]);
    let sum = region.counters().snapshot();
    assert_eq!(sum, each[0] + each[1]);
    assert_eq!((sum.write_bytes, sum.lines_flushed, sum.writes), (2 * STRIP_BYTES, 8, 2));
    assert_eq!((sum.reads, sum.read_bytes), (1, 100));
}

#[test]
fn emulated_devices_work_at_once() {
    let devices = devices(2, Some("optane-200"));
    let region = StripedRegion::new(devices, START..EACH).unwrap();
    let charged = |act: &dyn Fn()| -> Vec<u64> {
        let before: Vec<_> = region.devices().iter().map(|device| device.emulated_ns()).collect();
        act();
        region.devices().iter().zip(before).map(|(device, before)| device.emulated_ns() - before).collect()
    };
    // 64 granules take one device 5.5 us, and half of them half of that.
    let write = charged(&|| {
        region.write_nt(0, &[7; 64 * 256]);
        region.fence();
    });
    assert!(write.iter().all(|ns| (2700..2800).contains(ns)), "{write:?}");
    // Reads of all strips are under way before the first is waited for: charges are those of the devices' rows, not of one
    // strip after the other, which would be 217 ns each.
    let mut out = [0; 16 * 256];
    let read = charged(&|| region.read(0, &mut out.clone()));
    assert!(read.iter().sum::<u64>() < 16 * 217, "{read:?}");
    out.fill(0);
    region.read(0, &mut out);
    assert_eq!(out, [7; 16 * 256]);
}

#[test]
fn an_emulated_device_of_another_node_takes_longer() {
    let region = StripedRegion::on_nodes(devices(2, Some("optane-200")), START..EACH, 2).unwrap();
    let second = region.len() / 2;
    let charged = |at: u64| {
        let before: u64 = region.devices().iter().map(|device| device.emulated_ns()).sum();
        region.read(at, &mut [0; 8]);
        region.write_nt(at, &[0; 8]);
        region.fence();
        region.devices().iter().map(|device| device.emulated_ns()).sum::<u64>() - before
    };
    // A read takes 217 ns more than DRAM, and 120 more from the other node. A burst of a granule takes 85 by its bandwidth, and 122 from the
    // other node. What others left of the bandwidth is waited for, too: the least of several is without that.
    let least = |at: u64| (0..50).map(|_| charged(at)).min().unwrap();
    for node in [0, 1] {
        crate::settle(node);
        let costs = [least(0), least(second)];
        let (near, far) = (costs[node as usize], costs[1 - node as usize]);
        assert!(near >= 217 && far >= near + 150, "from node {node}: {near} ns at home, {far} ns away");
    }
}

#[test]
fn memory_on_nodes_is_as_plain_memory() {
    let region = StripedRegion::on_nodes(devices(4, None), START..EACH, 2).unwrap();
    let bytes: Vec<u8> = (0..region.len()).map(|at| (at % 251) as u8).collect();
    region.write(0, &bytes);
    let mut out = vec![0; bytes.len()];
    region.read(0, &mut out);
    assert!(out == bytes);
    for (node, devices) in region.devices().chunks(2).enumerate() {
        let mut first = [0; 1];
        let (device, at) = region.place(node as u64 * region.len() / 2);
        devices[device - 2 * node].read(at, &mut first);
        assert_eq!(first[0], (node as u64 * region.len() / 2 % 251) as u8);
    }
    let odd = StripedRegion::on_nodes(devices(3, None), START..EACH, 2).err().unwrap();
    assert_eq!(odd, StripedError::Nodes { devices: 3, nodes: 2 });
}

#[test]
fn what_makes_no_strips_is_refused() {
    let refused = |count, bytes| StripedRegion::new(devices(count, None), bytes).unwrap_err();
    assert_eq!(refused(0, 0..EACH), StripedError::Devices(0));
    assert_eq!(refused(2, 0..EACH + 1), StripedError::TooShort { device: 0, actual: EACH, wanted: EACH + 1 });
    assert_eq!(refused(2, 4096..4300), StripedError::NoStrips(4096..4300));
    assert_eq!(refused(2, 8..EACH), StripedError::NoStrips(8..EACH));
    let region = striped(2);
    assert_eq!(region.len_max(), None);
    assert_eq!(region.resize(1 << 20).unwrap_err().kind(), io::ErrorKind::Unsupported);
}

#[test]
#[should_panic(expected = "2 bytes at 122879 in 122880 bytes in strips")]
fn what_is_outside_is_refused_before_anything_is_written() {
    striped(2).write(122_879, b"ab");
}
