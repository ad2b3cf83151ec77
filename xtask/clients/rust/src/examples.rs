//! Runs examples and says how each went, one line for each: ok, failed or skipped.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// What an example gives: an error of the library is a failure.
pub type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Ends an example that can't be tried here.
///
/// # Errors
/// Always: it is the reason.
pub fn skip(why: &str) -> Outcome {
    Err(format!("{SKIP}{why}").into())
}

const SKIP: &str = "skip: ";

/// Runs one.
pub fn example(name: &str, work: impl FnOnce() -> Outcome) {
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => println!("ok {name}"),
        Ok(Err(error)) if error.to_string().starts_with(SKIP) => {
            println!("skipped {name}: {}", &error.to_string()[SKIP.len()..]);
        }
        Ok(Err(error)) => println!("failed {name}: {}", one_line(error.to_string())),
        // The panic's own line is on standard error.
        Err(why) => {
            let why = why.downcast_ref::<String>().cloned();
            println!("failed {name}: {}", one_line(why.unwrap_or_else(|| "it panicked".into())));
        }
    }
}

/// Says that no example is left.
pub fn end() {
    println!("end");
}

/// Asserts that this is what the documentation says.
#[track_caller]
pub fn equal<T: PartialEq<E> + Debug, E: Debug>(got: T, expected: E) {
    let line = std::panic::Location::caller().line();
    assert!(got == expected, "line {line}: expected {expected:?}, got {got:?}");
}

/// Asserts that there is an error with this text.
#[track_caller]
pub fn refused<T: Debug, E: std::fmt::Display>(got: Result<T, E>, text: &str) {
    let line = std::panic::Location::caller().line();
    match got {
        Ok(got) => panic!("line {line}: expected an error with {text}, got {got:?}"),
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains(text), "line {line}: expected an error with {text}, got {error}");
        }
    }
}

/// Waits until it holds, at most five seconds.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let line = std::panic::Location::caller().line();
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(5), "line {line}: expected {what} within 5 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Where the server listens.
pub fn address(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} names no server"))
}
