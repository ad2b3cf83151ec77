use super::*;

/// optane-200 over dram: 217 ns random, 89 ns sequential, 2 ns a store; 256 bytes are 29.4 ns read, 85.3 ns written.
fn optane() -> Emulation {
    let profile = Profile::built_in("optane-200").unwrap();
    Emulation::with_clock(&profile, Clock::Manual(AtomicU64::new(1_000_000))).unwrap()
}

/// Region numbers that no real region of this process has reached.
fn region() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 60);
    NEXT.fetch_add(1, Relaxed)
}

fn charged(device: &Emulation, act: impl FnOnce()) -> u64 {
    let before = device.charged_ns();
    act();
    device.charged_ns() - before
}

#[test]
fn a_read_pays_random_once_and_sequential_for_what_follows() {
    let (device, region) = (optane(), region());
    assert_eq!(charged(&device, || device.read(region, 0, 1)), 217);
    assert_eq!(
        charged(&device, || device.read(region, 0, 256)),
        217,
        "a second read of it is a device read again"
    );
    assert_eq!(charged(&device, || device.read(region, 255, 2)), 217 + 89);
    assert_eq!(charged(&device, || device.read(region, 4096, 1024)), 217 + 3 * 89);
}

#[test]
fn prefetched_reads_overlap() {
    let (device, region) = (optane(), region());
    for i in 0..4 {
        device.prefetch(region, i * 4096, 64);
    }
    assert_eq!(device.charged_ns(), 0, "a prefetch doesn't wait");
    // The device starts a granule each 29 ns, so the last of four is ready 3 * 29 ns after the first.
    let waits: Vec<u64> = (0..4).map(|i| charged(&device, || device.read(region, i * 4096, 64))).collect();
    assert_eq!(waits, [217, 29, 29, 29]);
    assert_eq!(charged(&device, || device.read(region, 0, 64)), 217, "the prefetch was used up");
}

#[test]
fn a_read_waits_for_what_was_prefetched_and_pays_for_the_rest() {
    let (device, region) = (optane(), region());
    device.prefetch(region, 0, 256);
    device.prefetch(region, 0, 256);
    device.clock.wait_until(device.clock.now_ns() + 100);
    assert_eq!(charged(&device, || device.read(region, 0, 256)), 117);
    device.prefetch(region, 0, 256);
    assert_eq!(charged(&device, || device.read(region, 0, 512)), 217, "the second granule took 89 meanwhile");
}

#[test]
fn a_burst_pays_the_store_once_and_the_bandwidth() {
    let device = optane();
    assert_eq!(charged(&device, || device.burst(1)), 85);
    assert_eq!(charged(&device, || device.burst(8)), 683);
}

#[test]
fn threads_share_the_bandwidth() {
    let (device, region) = (optane(), region());
    // Another thread's prefetch of 64 granules keeps the device busy for 64 * 29 ns.
    std::thread::scope(|scope| {
        scope.spawn(|| device.prefetch(region, 0, 64 * 256));
    });
    assert_eq!(charged(&device, || device.read(region, 0, 64)), 64 * 29 + 217);
}

#[test]
fn dram_adds_nothing_and_slower_memory_never_less_than_nothing() {
    assert!(Emulation::new(&Profile::built_in("dram").unwrap()).unwrap().is_none());
    let mut fast = Profile::built_in("dram").unwrap();
    fast.read_random_ns = 1;
    assert!(Emulation::new(&fast).unwrap().is_none());
    assert!(Emulation::new(&Profile::built_in("cxl-dram").unwrap()).unwrap().is_some());
}
