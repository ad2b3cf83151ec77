//! The configuration file, the environment and the command line, as one text: what is wrong is refused with its name, and what
//! is accepted reads back.

use clap::Parser;
use clap::error::{ContextKind, ErrorKind};
use terrace_cli::{Cli, Command, KEYS, ServeArgs, gather_text};

use super::Target;
use super::source::Source;

/// Options from all three sources.
pub(super) static CONFIG: Target = Target {
    name: "config",
    corpus: "config",
    about: "a configuration file, variables and arguments, and misspelt keys",
    bytes_max: 600,
    words: &[
        "\0",
        "\0serve",
        "\0--dram\0",
        "\0--dram-records=",
        "\0--config",
        "\0--pmem\0",
        "\0--help",
        "\0bench\0--workload\0",
        "\0check\0",
        "\0TERRACE_DRAM=",
        "\0TERRACE_WHEN_FULL=evict",
        "dir = \"",
        "redis = \"off\"\n",
        "memcached = \"[::1]:",
        "redis = \"tls:127.0.0.1:1,unix:770:/",
        "tls-cert-file = \"",
        "tls-auth-clients = \"no\"\n",
        "requirepass = \"",
        "timeout = ",
        "max-item-size = \"",
        "admin = \"localhost:",
        "threads = 1",
        "engine = \"dram\"\n",
        "dram-records = \"25%\"\n",
        "pmem = \"1GiB@node:",
        "ssd = \"2GiB@/",
        "profile = \"optane-200\"\n",
        "durability = \"batch:",
        "when-full = \"evict\"\n",
        "\"\"\"",
        "\\u0000",
        "[",
        "#",
        "=",
        "\n",
    ],
    run,
};

/// Four bytes choose a misspelling; then come the file, arguments and variables, a zero between each.
fn run(input: &[u8]) -> Result<(), String> {
    let (chosen, text) = input.split_at(input.len().min(4));
    misspelt(&mut Source::new(chosen))?;
    let text = String::from_utf8_lossy(text);
    let mut parts = text.split('\0');
    let file = parts.next().unwrap_or_default();
    let (variables, arguments): (Vec<&str>, Vec<&str>) =
        parts.partition(|part| part.starts_with("TERRACE_") && part.contains('='));
    let variables: Vec<(&str, &str)> = variables.iter().filter_map(|part| part.split_once('=')).collect();
    let environment = |name: &str| {
        let set = variables.iter().find(|(known, _)| *known == name);
        set.map(|(_, value)| (*value).to_owned())
    };
    let args = match Cli::try_parse_from(std::iter::once("terrace").chain(arguments)) {
        Ok(Cli { command: Command::Serve(args), .. }) => *args,
        Ok(_) => ServeArgs::default(),
        Err(error) => {
            told(&error)?;
            ServeArgs::default()
        }
    };
    let settings = match gather_text(args, &environment, Some(file)) {
        Ok(settings) => settings,
        Err(error) => return named(&error.to_string()),
    };
    let shown = settings.to_string();
    match gather_text(ServeArgs::default(), &|_| None, Some(&shown)) {
        Ok(again) if again == settings => Ok(()),
        Ok(again) => Err(format!("{settings:?} is shown as\n{shown}\nwhich reads as {again:?}")),
        Err(error) => Err(format!("{settings:?} is shown as\n{shown}\nwhich is refused: {error}")),
    }
}

/// A refusal of the command line names the argument that it is about, if it knows it.
fn told(error: &clap::Error) -> Result<(), String> {
    let text = error.to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Ok(());
    }
    let about = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    // Terminal sequences are not repeated.
    let repeats = text.contains(&about) || about.contains(char::is_control);
    match repeats && text.len() > 10 {
        true => Ok(()),
        false => Err(format!("an error about {about:?} says {text:?}")),
    }
}

/// A refusal of settings says where: in which line of the file, in which variable, or at which flag.
fn named(error: &str) -> Result<(), String> {
    let key = |key: &&str| {
        let variable = format!("TERRACE_{}: ", key.replace('-', "_").to_uppercase());
        error.starts_with(&variable) || error.contains(&format!("--{key}"))
    };
    match error.starts_with("the file") || KEYS.iter().any(key) {
        true => Ok(()),
        false => Err(format!("an error without a place: {error:?}")),
    }
}

/// One letter of a key left out, doubled, replaced or swapped with the next one: the error has the misspelt key in it.
fn misspelt(source: &mut Source<'_>) -> Result<(), String> {
    let key = source.one_of(&KEYS);
    let mut letters: Vec<char> = key.chars().collect();
    let at = source.below(letters.len());
    let change = source.below(4);
    let letter = char::from(b'a' + source.byte() % 26);
    match change {
        0 => drop(letters.remove(at)),
        1 => letters.insert(at, letters[at]),
        2 => letters[at] = letter,
        _ => {
            let next = (at + 1) % letters.len();
            letters.swap(at, next);
        }
    }
    let wrong: String = letters.into_iter().collect();
    if wrong.is_empty() || KEYS.contains(&wrong.as_str()) {
        return Ok(());
    }
    let file = gather_text(ServeArgs::default(), &|_| None, Some(&format!("\n{wrong} = 1")));
    let refused = file.err().map(|error| error.to_string()).unwrap_or_default();
    if !refused.starts_with(&format!("the file, line 2: unknown key {wrong:?}")) {
        return Err(format!("{wrong:?} in a file: {refused:?}"));
    }
    let flag = format!("--{wrong}");
    let parsed = Cli::try_parse_from(["terrace", "serve", &flag, "1"]);
    let refused = parsed.err().map(|error| error.to_string()).unwrap_or_default();
    match refused.contains(&flag) {
        true => Ok(()),
        false => Err(format!("{flag}: {refused:?}")),
    }
}
