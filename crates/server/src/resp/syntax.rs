//! The arguments of a command, as a row of the table writes them.
//!
//! ```text
//!   key value [NX|XX] [GET] [EX seconds|PX milliseconds|KEEPTTL]      (key value)...      increment:double
//! ```
//! A word in capitals is meant as itself, and takes the word or the group behind it as its argument; other words are names,
//! whose type is known from the name or stands behind a colon. Brackets hold what may be left out, parentheses hold
//! together, a bar separates alternatives, three dots repeat.

/// One argument.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Argument<'a> {
    /// Its name; empty for a token without an argument, and for groups.
    word: &'a str,
    /// The word that stands before it, or is it.
    pub token: Option<&'a str>,
    pub kind: Kind<'a>,
    pub optional: bool,
    pub multiple: bool,
    /// Of a block, or the alternatives.
    pub inner: Vec<Argument<'a>>,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Kind<'a> {
    /// A word meant as itself.
    #[default]
    Token,
    /// One of those in [`Argument::inner`].
    OneOf,
    /// All of those, one after the other.
    Block,
    /// A value of this type.
    Word(&'a str),
}

impl Kind<'_> {
    /// Redis's name of it.
    pub fn name(&self) -> &str {
        match self {
            Self::Token => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
            Self::Word(name) => name,
        }
    }
}

impl Argument<'_> {
    /// What to call it.
    pub fn name(&self) -> String {
        match (self.kind, self.token) {
            (Kind::Word(_), _) => self.word.to_owned(),
            (Kind::OneOf | Kind::Block, None) => self.inner.first().map_or(String::new(), Self::name),
            (_, token) => token.unwrap_or_default().to_ascii_lowercase(),
        }
    }
}

/// The arguments that `text` writes down.
pub(super) fn parse(text: &str) -> Vec<Argument<'_>> {
    sequence(&mut { text })
}

/// What stands before a `|`, a closing bracket or the end.
fn sequence<'a>(rest: &mut &'a str) -> Vec<Argument<'a>> {
    let mut arguments = Vec::new();
    loop {
        *rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with(['|', ')', ']']) {
            return arguments;
        }
        arguments.push(one(rest));
    }
}

fn one<'a>(rest: &mut &'a str) -> Argument<'a> {
    let mut argument = if rest.starts_with(['(', '[']) {
        let optional = rest.starts_with('[');
        *rest = &rest[1..];
        let mut argument = group(rest);
        argument.optional |= optional;
        argument
    } else {
        let end = rest.find([' ', '|', '(', ')', '[', ']']).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let (word, dots) = word.strip_suffix("...").map_or((word, false), |word| (word, true));
        *rest = behind;
        let mut argument = leaf(word);
        argument.multiple = dots;
        let takes_one = rest.strip_prefix(' ').filter(|behind| !behind.starts_with('['));
        if let (Kind::Token, Some(behind)) = (argument.kind, takes_one)
            && !behind.starts_with(|first: char| first.is_ascii_uppercase())
        {
            *rest = behind;
            let token = argument.token;
            argument = one(rest);
            argument.token = token;
        }
        argument
    };
    if let Some(behind) = rest.strip_prefix("...") {
        *rest = behind;
        argument.multiple = true;
    }
    argument
}

/// What stands in brackets, up to and with the closing one.
fn group<'a>(rest: &mut &'a str) -> Argument<'a> {
    let mut alternatives = Vec::new();
    loop {
        let mut arguments = sequence(rest);
        alternatives.push(match arguments.len() {
            1 => arguments.remove(0),
            _ => Argument { kind: Kind::Block, inner: arguments, ..Argument::default() },
        });
        let bar = rest.starts_with('|');
        *rest = rest.get(1..).unwrap_or_default();
        if !bar {
            break;
        }
    }
    match alternatives.len() {
        1 => alternatives.remove(0),
        _ => Argument { kind: Kind::OneOf, inner: alternatives, ..Argument::default() },
    }
}

fn leaf(text: &str) -> Argument<'_> {
    if text.starts_with(|first: char| first.is_ascii_uppercase()) {
        return Argument { token: Some(text), ..Argument::default() };
    }
    let (word, kind) = match text.split_once(':') {
        Some((word, kind)) => (word, kind),
        None => (text, kind_of(text)),
    };
    Argument { word, kind: Kind::Word(kind), ..Argument::default() }
}

/// The type of what usually has this name.
fn kind_of(name: &str) -> &'static str {
    match name {
        "key" | "newkey" | "source" | "destination" | "destkey" | "sourcekey" | "key1" | "key2" => "key",
        "pattern" => "pattern",
        "unix-time-seconds" | "unix-time-milliseconds" => "unix-time",
        "count" | "offset" | "start" | "end" | "index" | "increment" | "decrement" | "cursor" | "timeout"
        | "seconds" | "milliseconds" | "db" | "client-id" | "numreplicas" | "bit" | "len"
        | "min-match-len" | "port" | "samples" | "protover" => "integer",
        _ => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as text: kinds, tokens and flags.
    fn shown(arguments: &[Argument<'_>]) -> String {
        let each = arguments.iter().map(|argument| {
            let token = argument.token.map_or(String::new(), |token| format!("{token}="));
            let flags = [("?", argument.optional), ("+", argument.multiple)];
            let flags: String = flags.into_iter().filter_map(|(flag, set)| set.then_some(flag)).collect();
            let inner = if argument.inner.is_empty() {
                String::new()
            } else {
                format!("({})", shown(&argument.inner))
            };
            format!("{token}{}:{}{flags}{inner}", argument.word, argument.kind.name())
        });
        each.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn syntaxes() {
        for (text, tree) in [
            ("", ""),
            ("key value", "key:key value:string"),
            ("key increment:double", "key:key increment:double"),
            ("(key value)...", ":block+(key:key value:string)"),
            ("[section...]", "section:string?+"),
            ("[NX|XX] [GET]", ":oneof?(NX=:pure-token XX=:pure-token) GET=:pure-token?"),
            ("[EX seconds|KEEPTTL]", ":oneof?(EX=seconds:integer KEEPTTL=:pure-token)"),
            (
                "FILTERBY (MODULE m|PATTERN pattern)",
                "FILTERBY=:oneof(MODULE=m:string PATTERN=pattern:pattern)",
            ),
            ("[a [b c] [SETNAME d]]", ":block?(a:string :block?(b:string c:string) SETNAME=d:string?)"),
            ("[PREFIX prefix...]", "PREFIX=prefix:string?+"),
        ] {
            assert_eq!(shown(&parse(text)), tree, "{text}");
        }
    }

    #[test]
    fn the_table_is_written_in_it() {
        for command in &crate::resp::table::COMMANDS {
            let depth = |open: &str| command.syntax.matches(open).count();
            assert_eq!((depth("["), depth("(")), (depth("]"), depth(")")), "{}", command.full_name);
            let arguments = parse(command.syntax);
            assert_eq!(arguments.is_empty(), command.syntax.is_empty(), "{}", command.full_name);
            assert!(arguments.iter().all(|argument| !argument.name().is_empty()), "{}", command.full_name);
        }
    }

    #[test]
    fn every_argument_of_the_table_has_a_name() {
        fn check(arguments: &[Argument<'_>], command: &str) {
            for argument in arguments {
                assert!(!argument.name().is_empty() && argument.token != Some(""), "{command}: {argument:?}");
                check(&argument.inner, command);
            }
        }
        for command in &crate::resp::table::COMMANDS {
            check(&parse(command.syntax), command.full_name);
        }
        let hello = parse(crate::resp::table::named(b"hello").unwrap().syntax);
        assert!(format!("{hello:?}").contains("token: Some(\"AUTH\")"), "{hello:?}");
    }
}
