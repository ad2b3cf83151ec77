//! memcached's commands against the model.

use super::super::source::Source;
use super::super::{Target, count};
use super::expect::{Tokens, shown};
use super::memcached::{Model, draw};
use super::original::Original;
use super::ours::Ours;
use super::{Due, Expect, Served, compare};

/// Classic and meta commands.
pub(in super::super) static MEMCACHED_MODEL: Target = Target {
    name: "serve-memcached-model",
    corpus: "serve-memcached-model",
    about: "memcached's commands in pipelines, cut anywhere, against a model",
    bytes_max: 300,
    words: &[],
    run: |input| {
        let piece_bytes = 1 + input.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 97;
        let mut ours = Ours::connect(false, 1, piece_bytes)?;
        converse(input, Model::new(false), &mut ours).map(count)
    },
};

/// The same inputs against the original, which proves the model: how many commands it answered.
///
/// # Errors
/// What differs.
pub(in super::super) fn on_original(input: &[u8], original: &Original) -> Result<u64, String> {
    converse(input, Model::new(true), &mut original.connect(1)?)
}

/// Comes behind every pipeline, so that its end is known.
const END: (&[u8], &[u8]) = (b"mn\r\n", b"MN\r\n");

/// How many commands are told with a failure.
const TOLD: usize = 40;

fn converse(input: &[u8], model: Model, server: &mut dyn Served) -> Result<u64, String> {
    let mut said = Vec::new();
    talk(input, model, server, &mut said).map(|()| said.len() as u64).map_err(|error| {
        format!("{error}; before it: {}", said[said.len().saturating_sub(TOLD)..].join(" | "))
    })
}

fn talk(
    input: &[u8],
    mut model: Model,
    server: &mut dyn Served,
    said: &mut Vec<String>,
) -> Result<(), String> {
    let mut source = Source::new(input);
    let mut tokens = Tokens::default();
    while !source.is_empty() {
        // A token can be asked for once it was told, so not in the same pipeline.
        let (mut bytes, mut due) = (Vec::new(), Due::new());
        for _ in 0..1 + source.below(8) {
            if source.is_empty() {
                break;
            }
            let (command, answer) = draw(&mut source, &mut model, &tokens);
            if model.needs_quiet(&command) {
                ask(server, &mut bytes, &mut due, &mut tokens)?;
            }
            due.extend(answer.map(|answer| (shown(&command), answer)));
            bytes.extend_from_slice(&command);
            said.push(shown(&command));
        }
        ask(server, &mut bytes, &mut due, &mut tokens)?;
    }
    Ok(())
}

/// Sends what has gathered, and compares the answers.
fn ask(
    server: &mut dyn Served,
    bytes: &mut Vec<u8>,
    due: &mut Due,
    tokens: &mut Tokens,
) -> Result<(), String> {
    bytes.extend_from_slice(END.0);
    due.push_back(("the end".into(), Expect::Bytes(END.1.to_vec())));
    server.send(0, bytes)?;
    bytes.clear();
    let is_end = |expect: &Expect| matches!(expect, Expect::Bytes(bytes) if bytes == END.1);
    let ends = due.iter().filter(|(_, expect)| is_end(expect)).count();
    let is_enough = |received: &[u8]| {
        received.ends_with(END.1) && received.windows(4).filter(|four| *four == END.1).count() >= ends
    };
    let received = server.receive(0, &is_enough)?;
    compare(0, &received, due, tokens)
}
