//! `CLIENT TRACKINGINFO` and `CLIENT GETREDIR`.

use std::sync::atomic::Ordering::Relaxed;

use super::super::call::{Call, Outcome};
use super::super::step::Step;
use crate::registry::flag;

pub(in super::super) fn getredir(call: &mut Call<'_>) -> Outcome {
    let redirect = call.client.entry.redirect.load(Relaxed);
    call.answer(Step::Integer(redirect))
}

pub(in super::super) fn trackinginfo(call: &mut Call<'_>) -> Outcome {
    // When parsed: CLIENT CACHING is for the next command, which the answer may be behind.
    let entry = &call.client.entry;
    let mut words = vec![if entry.has(flag::TRACKING) { "on" } else { "off" }];
    let modes = [
        (flag::BROADCAST, "bcast", ""),
        (flag::OPT_IN, "optin", "caching-yes"),
        (flag::OPT_OUT, "optout", "caching-no"),
        (flag::NO_LOOP, "noloop", ""),
        (flag::BROKEN_REDIRECT, "broken_redirect", ""),
    ];
    for (bit, word, caching) in modes {
        if entry.has(bit) {
            words.push(word);
            if !caching.is_empty() && entry.has(flag::CACHING) {
                words.push(caching);
            }
        }
    }
    let redirect = entry.redirect.load(Relaxed);
    let prefixes = entry.prefixes.lock().clone();
    call.late(move |answer| {
        let encoder = &mut answer.encoder;
        encoder.map(3);
        encoder.bulk(b"flags");
        encoder.set(words.len());
        words.iter().for_each(|word| encoder.bulk(word.as_bytes()));
        encoder.bulk(b"redirect");
        encoder.integer(redirect);
        encoder.bulk(b"prefixes");
        encoder.array(prefixes.len());
        prefixes.iter().for_each(|prefix| encoder.bulk(prefix));
    })
}
