//! Many simulations on a few threads, their results in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

/// Does `job` on each item, on so many threads, and gives the results in the order of the items.
///
/// # Errors
/// The first item's, in their order, that failed.
pub fn each<I: Sync, O: Send>(
    name: &str,
    threads: usize,
    items: &[I],
    job: impl Fn(&I) -> anyhow::Result<O> + Sync,
) -> anyhow::Result<Vec<O>> {
    let bar = ProgressBar::new(items.len() as u64).with_message(name.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{msg:8} {bar:40} {pos}/{len} {elapsed} eta {eta}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<anyhow::Result<O>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                while let Some((item, slot)) = {
                    let i = next.fetch_add(1, Relaxed);
                    items.get(i).zip(slots.get(i))
                } {
                    let done = job(item);
                    if let Ok(mut slot) = slot.lock() {
                        *slot = Some(done);
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let take = |slot: Mutex<Option<anyhow::Result<O>>>| slot.into_inner().ok().flatten();
    slots.into_iter().map(|slot| take(slot).context("a simulation was not done")?).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_the_first_error_is_told() {
        let items: Vec<u32> = (0..100).collect();
        let squares = each("", 3, &items, |item| Ok(item * item)).unwrap();
        assert_eq!(squares, items.iter().map(|item| item * item).collect::<Vec<_>>());
        let error = each("", 3, &items, |item| {
            anyhow::ensure!(item % 40 != 39, "{item} failed");
            Ok(())
        });
        assert_eq!(error.unwrap_err().to_string(), "39 failed");
        assert!(each("", 3, &Vec::<u32>::new(), |_| Ok(())).unwrap().is_empty());
    }
}
