//! Small persistence protocols on byte-addressable media, each with a known hole that exploring must find, and without it.

use terrace_media::ByteRegion;
use terrace_media_sim::{
    Crash, CrashImage, Explorer, Failure, Model, PointKind, Recorder, SimRegion, Statistics, Trace, set_actor,
};

/// Where the flag that publishes a payload lies.
const FLAG: u64 = 0;
/// A payload that spans two lines from an unaligned start.
const PAYLOAD: u64 = 160;
const BYTES: [u8; 64] = [0xa5; 64];

fn record(protocol: impl FnOnce(&SimRegion, &Recorder)) -> Trace {
    let recorder = Recorder::new();
    let region = recorder.region(vec![0; 4096]);
    protocol(&region, &recorder);
    recorder.finish()
}

fn published_implies_payload(acknowledged: bool, image: &CrashImage) -> Result<(), String> {
    let region = image.region(0);
    let published = region.load_u64(FLAG) == 1;
    let mut payload = [0; 64];
    region.read(PAYLOAD, &mut payload);
    if published && payload != BYTES {
        return Err("published without its payload".into());
    }
    if !published && acknowledged {
        return Err("acknowledged and lost".into());
    }
    Ok(())
}

/// Explores a protocol that publishes a payload and acknowledges it last.
fn explore_publish(explorer: &Explorer, trace: &Trace) -> Result<Statistics, Box<Failure>> {
    explorer.explore(trace, |point, image| {
        published_implies_payload(matches!(point.kind, PointKind::Acknowledged(_)), image)
    })
}

fn publish(region: &SimRegion, recorder: &Recorder) {
    region.write(PAYLOAD, &BYTES);
    region.flush(PAYLOAD, BYTES.len());
    region.fence();
    region.store_u64(FLAG, 1);
    region.flush(FLAG, 8);
    region.fence();
    recorder.acknowledged(1);
}

fn every_store() -> Explorer {
    Explorer::new(1).store_sample(1)
}

#[test]
fn the_correct_protocol_passes_in_both_models() {
    let trace = record(publish);
    let prefix = explore_publish(&every_store(), &trace).unwrap();
    let strict = explore_publish(&every_store().model(Model::Strict), &trace).unwrap();
    assert_eq!(prefix.exhaustive_points, prefix.points, "so small a history is explored to its end");
    assert!(strict.images > prefix.images && prefix.images > 20, "{prefix}; {strict}");
}

#[test]
fn streaming_passes_too() {
    let trace = record(|region, recorder| {
        region.write_nt(PAYLOAD, &BYTES);
        region.fence();
        region.write_nt(FLAG, &1u64.to_le_bytes());
        region.fence();
        recorder.acknowledged(1);
    });
    explore_publish(&every_store(), &trace).unwrap();
}

#[test]
fn a_missing_flush_is_caught() {
    let trace = record(|region, recorder| {
        region.write(PAYLOAD, &BYTES);
        region.fence();
        region.store_u64(FLAG, 1);
        region.flush(FLAG, 8);
        region.fence();
        recorder.acknowledged(1);
    });
    let failure = explore_publish(&every_store(), &trace).unwrap_err();
    assert!(failure.message.contains("published without"), "{failure}");
    assert!(!failure.lost.is_empty(), "{failure}");
}

#[test]
fn a_missing_fence_is_caught() {
    let trace = record(|region, recorder| {
        region.write(PAYLOAD, &BYTES);
        region.flush(PAYLOAD, BYTES.len());
        region.store_u64(FLAG, 1);
        region.flush(FLAG, 8);
        region.fence();
        recorder.acknowledged(1);
    });
    assert!(explore_publish(&every_store(), &trace).is_err());
}

#[test]
fn a_missing_last_fence_is_caught_at_the_acknowledgement() {
    let trace = record(|region, recorder| {
        region.write(PAYLOAD, &BYTES);
        region.flush(PAYLOAD, BYTES.len());
        region.fence();
        region.store_u64(FLAG, 1);
        region.flush(FLAG, 8);
        recorder.acknowledged(1);
    });
    let failure = explore_publish(&every_store(), &trace).unwrap_err();
    assert_eq!(failure.point.kind, PointKind::Acknowledged(1));
    assert_eq!(failure.point.crash, Crash::Power);
}

#[test]
fn the_wrong_order_is_caught_even_in_the_death_of_the_process() {
    let trace = record(|region, recorder| {
        region.store_u64(FLAG, 1);
        region.write(PAYLOAD, &BYTES);
        region.flush(FLAG, 8);
        region.flush(PAYLOAD, BYTES.len());
        region.fence();
        recorder.acknowledged(1);
    });
    assert!(explore_publish(&every_store(), &trace).is_err());
    let failure = explore_publish(&every_store().only(Crash::Process), &trace).unwrap_err();
    assert_eq!(failure.point.kind, PointKind::AfterStore);
}

#[test]
fn a_flush_loop_that_steps_from_an_unaligned_start_is_caught() {
    let trace = record(|region, recorder| {
        region.write(PAYLOAD, &BYTES);
        for at in (PAYLOAD..PAYLOAD + BYTES.len() as u64).step_by(64) {
            region.flush(at, 1);
        }
        region.fence();
        region.store_u64(FLAG, 1);
        region.flush(FLAG, 8);
        region.fence();
        recorder.acknowledged(1);
    });
    let failure = explore_publish(&every_store(), &trace).unwrap_err();
    assert_eq!(failure.lost.len(), 1, "only the second line is needed for the failure: {failure}");
    assert!(failure.lost[0].contains("0xc0"), "{failure}");
}

#[test]
fn a_fence_of_another_thread_does_not_help() {
    let protocol = |fencing: u32| {
        record(move |region, recorder| {
            set_actor(1);
            region.write(PAYLOAD, &BYTES);
            region.flush(PAYLOAD, BYTES.len());
            set_actor(fencing);
            region.fence();
            region.write_nt(FLAG, &1u64.to_le_bytes());
            region.fence();
            recorder.acknowledged(1);
        })
    };
    explore_publish(&every_store(), &protocol(1)).unwrap();
    assert!(explore_publish(&every_store(), &protocol(2)).is_err());
}

#[test]
fn a_flush_covers_only_the_stores_before_it() {
    let trace = record(|region, recorder| {
        region.write(PAYLOAD, &[0; 8]);
        region.flush(PAYLOAD, BYTES.len());
        region.write(PAYLOAD, &BYTES);
        region.fence();
        region.write_nt(FLAG, &1u64.to_le_bytes());
        region.fence();
        recorder.acknowledged(1);
    });
    assert!(explore_publish(&every_store(), &trace).is_err());
}

/// Two words that must agree.
fn pair_agrees(image: &CrashImage, slot: u64) -> Result<(), String> {
    let region = image.region(0);
    let (a, b) = (region.load_u64(slot), region.load_u64(slot + 8));
    if a == b { Ok(()) } else { Err(format!("torn: {a} and {b}")) }
}

#[test]
fn a_torn_sixteen_byte_value_is_caught() {
    let trace = record(|region, _| {
        region.write_nt(64, &[7; 16]);
        region.fence();
    });
    for crash in [Crash::Power, Crash::Process] {
        let explorer = every_store().only(crash);
        let failure = explorer.explore(&trace, |_, image| pair_agrees(image, 64)).unwrap_err();
        assert!(failure.message.contains("torn"), "{failure}");
    }
}

#[test]
fn a_sixteen_byte_value_behind_a_flipped_word_passes() {
    let trace = record(|region, _| {
        for turn in 1..4u64 {
            let slot = 64 + turn % 2 * 64;
            region.write_nt(slot, &[turn as u8; 16]);
            region.fence();
            region.store_u64(FLAG, slot);
            region.flush(FLAG, 8);
            region.fence();
        }
    });
    let check = |_: &_, image: &CrashImage| match image.region(0).load_u64(FLAG) {
        0 => Ok(()),
        slot => pair_agrees(image, slot),
    };
    every_store().model(Model::Strict).explore(&trace, check).unwrap();
}

#[test]
fn order_within_a_line_holds_in_the_prefix_model_alone() {
    let trace = record(|region, _| {
        region.store_u64(64, 5);
        region.store_u64(72, 1);
        region.flush(64, 16);
        region.fence();
    });
    let check = |_: &_, image: &CrashImage| {
        let region = image.region(0);
        if region.load_u64(72) == 1 && region.load_u64(64) != 5 { Err("out of order") } else { Ok(()) }
    };
    every_store().explore(&trace, check).unwrap();
    assert!(every_store().model(Model::Strict).explore(&trace, check).is_err());
}

#[test]
fn unflushed_stores_survive_the_process_but_not_the_machine() {
    let trace = record(|region, recorder| {
        region.store_u64(FLAG, 1);
        recorder.acknowledged(1);
    });
    let check = |point: &terrace_media_sim::CrashPoint, image: &CrashImage| {
        let lost = image.region(0).load_u64(FLAG) != 1;
        if lost && point.kind == PointKind::Acknowledged(1) { Err("lost") } else { Ok(()) }
    };
    every_store().only(Crash::Process).explore(&trace, check).unwrap();
    assert!(every_store().only(Crash::Power).explore(&trace, check).is_err());
}

#[test]
fn every_flush_and_fence_of_the_correct_protocol_is_needed() {
    let trace = record(publish);
    let sites = trace.sites();
    assert_eq!(sites.len(), 4);
    for site in sites {
        let mutant = every_store().without_site(site);
        let name = trace.site_name(site);
        assert!(name.contains("byte_protocols.rs"), "{name}");
        assert!(explore_publish(&mutant, &trace).is_err(), "nobody missed {name}");
    }
}

#[test]
fn a_redundant_flush_is_not_missed() {
    let trace = record(|region, recorder| {
        publish(region, recorder);
        region.flush(PAYLOAD, BYTES.len());
    });
    let redundant = *trace.sites().last().unwrap();
    explore_publish(&every_store().without_site(redundant), &trace).unwrap();
}

#[test]
fn a_fence_is_for_every_region_that_its_thread_flushed() {
    let recorder = Recorder::new();
    let (first, second) = (recorder.region(vec![0; 64]), recorder.region(vec![0; 64]));
    set_actor(0);
    first.store_u64(0, 1);
    first.flush(0, 8);
    second.store_u64(0, 2);
    second.flush(0, 8);
    set_actor(1);
    second.store_u64(8, 3);
    second.flush(8, 8);
    set_actor(0);
    second.fence();
    recorder.acknowledged(1);
    let mut lost = 0;
    let durable = Explorer::new(1).explore(&recorder.finish(), |point, image| {
        let PointKind::Acknowledged(_) = point.kind else { return Ok(()) };
        let words = [image.region(0).load_u64(0), image.region(1).load_u64(0), image.region(1).load_u64(8)];
        lost += u64::from(words[2] == 0);
        if words[..2] == [1, 2] { Ok(()) } else { Err(format!("{words:?}")) }
    });
    durable.unwrap();
    assert!(lost > 0, "what its own thread did not fence may be lost");
}

#[test]
fn a_store_around_the_api_is_seen_by_the_next_fence() {
    let trace = record(|region, _| {
        region.store_u64(8, 5);
        region.fence();
        region.scribble(72, &7u64.to_le_bytes());
        region.fence();
        region.fence();
    });
    assert_eq!(trace.strays().len(), 1, "{:?}", trace.strays());
    assert!(trace.strays()[0].contains("0x48") && trace.strays()[0].contains("byte_protocols.rs"));
    assert!(record(publish).strays().is_empty());
}

#[test]
fn flushes_and_fences_that_do_nothing_are_counted_by_site() {
    let trace = record(|region, _| {
        for turn in 0..3 {
            if turn == 0 {
                region.store_u64(0, 1);
            }
            region.flush(0, 8);
            region.flush(0, 8);
            region.fence();
        }
        region.write_nt(64, &[1; 8]);
        region.fence();
    });
    let uses: Vec<(u64, u64)> =
        trace.site_uses().iter().map(|(_, used)| (used.runs, used.redundant)).collect();
    // The first flush and its fence worked once; the second flush never; the streaming store and its fence always.
    assert_eq!(uses, [(3, 2), (3, 3), (3, 2), (1, 0), (1, 0)]);
}
