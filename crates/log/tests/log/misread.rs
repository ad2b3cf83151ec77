//! A device that brings a wrong page once while a log opens: the log is read right, or the opening says so.

use terrace_log::{Log, LogError};
use terrace_media::BlockDevice;
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock};

use crate::common::*;

#[test]
fn one_wrong_reading_takes_nothing_from_the_log() {
    let device = SimBlock::from_image(vec![0; 4096 * 9]);
    let log = Log::create(on_block(&device), options(4096)).expect("created");
    for slot in 1..=2u16 {
        let mut writer = log.writer(slot, 0);
        for version in 1..=4 {
            writer.entry(version * 2 + u64::from(slot), 0, &[&[1; 1000]]);
            writer.write(0, &[]).expect("room");
        }
    }
    let image = device.to_bytes();
    let entries = |device: &SimBlock| -> Result<Vec<(u16, u64)>, LogError> {
        let (_, replay) = open(on_block(device), 4096, 0)?;
        let mut list = Vec::new();
        replay.for_each(|entry| list.push((entry.slot, entry.version)))?;
        Ok(list)
    };
    let whole = SimBlock::from_image(image.clone());
    let before = whole.counters().snapshot().reads;
    let right = entries(&whole).expect("a device that is well");
    let reads = whole.counters().snapshot().reads - before;
    assert_eq!(right.len(), 8);
    let mut lies = vec![FaultKind::Misdirected { pages: 2 }, FaultKind::Misdirected { pages: 7 }];
    lies.extend([40, 100, 1500, 2500].map(|byte| FaultKind::Flip { byte, mask: 0x10 }));
    for kind in lies {
        for after in 0..reads {
            let device = SimBlock::from_image(image.clone());
            device.inject(Fault::new(Access::Read, kind).after(after));
            let first = entries(&device);
            device.heal();
            assert_eq!(device.faults_fired(), 1, "{kind:?} after {after}");
            if let Ok(list) = first {
                assert_eq!(list, right, "{kind:?} after {after}");
            }
            assert_eq!(entries(&device).expect("it is well again"), right, "{kind:?} after {after}, again");
        }
    }
}
