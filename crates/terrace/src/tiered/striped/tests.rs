use super::*;

fn label(identity: u8, device: usize, devices: usize) -> Label {
    let fields = Fields::new(device, devices, Layout::new(STRIP_BYTES, 1, 0));
    let superblock = Superblock {
        engine: "bonsai".into(),
        options: toml::to_string(&fields).unwrap().into_bytes(),
        identity: [identity; 16],
        hash_seed: 1,
        media_bytes: 1 << 20,
        created_ms: 2,
    };
    assert_eq!(Label::of(&superblock).unwrap().fields, fields);
    Label { superblock, fields }
}

fn judged(pages: &[Page]) -> Result<Together, StoreError> {
    let places: Vec<_> = (1..=pages.len()).map(|i| PathBuf::from(format!("/{i}"))).collect();
    together(&places.iter().map(PathBuf::as_path).collect::<Vec<_>>(), pages)
}

#[test]
fn devices_are_one_store_in_any_order() {
    let of = |device| Page::Whole(label(1, device, 3));
    let found = |order: &[usize], unfinished: &[usize]| Together::Store {
        order: order.to_vec(),
        bytes: 1 << 20,
        layout: Layout::new(STRIP_BYTES, 1, 0),
        unfinished: unfinished.to_vec(),
    };
    assert_eq!(judged(&[of(1), of(2), of(3)]).unwrap(), found(&[0, 1, 2], &[]));
    assert_eq!(judged(&[of(3), of(1), of(2)]).unwrap(), found(&[1, 2, 0], &[]));
    let unfinished = |device| Page::Unfinished(Some(label(1, device, 3)));
    assert_eq!(judged(&[unfinished(3), of(1), unfinished(2)]).unwrap(), found(&[1, 2, 0], &[0, 2]));
}

#[test]
fn what_was_never_finished_is_new() {
    let unfinished = |device| Page::Unfinished(Some(label(1, device, 2)));
    for pages in [
        [Page::Blank, Page::Blank],
        [Page::Blank, Page::Unfinished(None)],
        [unfinished(1), Page::Unfinished(None)],
        [unfinished(1), unfinished(2)],
    ] {
        assert_eq!(judged(&pages).unwrap(), Together::New);
    }
}

#[test]
fn whatever_lies_beside_a_whole_device_is_the_stores_or_refused() {
    let of = |identity, device, devices| Page::Whole(label(identity, device, devices));
    for others in [
        vec![],
        vec![Page::Blank],
        vec![Page::Unfinished(None)],
        vec![Page::Unfinished(Some(label(2, 2, 2)))],
        vec![of(1, 1, 2)],
        vec![of(2, 2, 2)],
        vec![of(1, 2, 3)],
        vec![of(1, 2, 2), Page::Blank],
        vec![of(1, 2, 2), of(2, 1, 2)],
    ] {
        for whole_first in [true, false] {
            let mut pages: Vec<_> = std::iter::once(of(1, 1, 2)).chain(others.iter().map(copy)).collect();
            if !whole_first {
                pages.reverse();
            }
            let told = judged(&pages).unwrap_err().to_string();
            assert!(told.contains("nothing was changed"), "{told}");
        }
    }
}

fn copy(page: &Page) -> Page {
    match page {
        Page::Blank => Page::Blank,
        Page::Unfinished(label) => Page::Unfinished(label.clone()),
        Page::Whole(label) => Page::Whole(label.clone()),
    }
}

#[test]
fn a_whole_stores_superblock_is_no_devices() {
    let mut superblock = label(1, 1, 2).superblock;
    for options in [
        "",
        "block_bytes = 1",
        "device = 0\ndevices = 2\nstrip_bytes = 256",
        "device = 3\ndevices = 2\nstrip_bytes = 256",
        "device = 1\ndevices = 1000000000\nstrip_bytes = 256",
        "device = 1\ndevices = 2\nstrip_bytes = 256\nnodes = 0",
        "device = 1\ndevices = 3\nstrip_bytes = 256\nnodes = 2",
        "device = 1\ndevices = 2\nstrip_bytes = 4096\nnodes = 2",
    ] {
        superblock.options = options.into();
        assert_eq!(Label::of(&superblock), None, "{options}");
    }
}
