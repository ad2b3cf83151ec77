//! The bytes of simulated media, and media with such bytes: what tests that mangle, lose or keep whole images have in common.

use terrace_media_sim::{SimBlock, SimRegion};
use terrace_testkit::sweep::{Media, MediaKind, Subject};

/// The content of media: one region; log and data; or region and data.
pub(crate) type Contents = Vec<Vec<u8>>;

/// Media on which there is no store yet.
pub(crate) fn blank(subject: &dyn Subject, kind: MediaKind) -> Contents {
    let shape = subject.shape(kind);
    match kind {
        MediaKind::Byte => vec![vec![0; shape.data_bytes]],
        MediaKind::Block | MediaKind::Tiered => vec![vec![0; shape.log_bytes], vec![0; shape.data_bytes]],
    }
}

/// Media that hold these bytes.
pub(crate) fn media_of(kind: MediaKind, contents: &[Vec<u8>]) -> Media {
    let region = |at: usize| SimRegion::from_image(contents[at].clone());
    let device = |at: usize| SimBlock::from_image(contents[at].clone());
    match kind {
        MediaKind::Byte => Media::Byte(region(0)),
        MediaKind::Block => Media::Block { log: device(0), data: device(1) },
        MediaKind::Tiered => Media::Tiered { region: region(0), data: device(1) },
    }
}

/// The bytes that media hold.
pub(crate) fn contents_of(media: &Media) -> Contents {
    match media {
        Media::Byte(region) => vec![region.to_bytes()],
        Media::Block { log, data } => vec![log.to_bytes(), data.to_bytes()],
        Media::Tiered { region, data } => vec![region.to_bytes(), data.to_bytes()],
    }
}
