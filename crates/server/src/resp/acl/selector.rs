//! A selector: which commands, keys and channels somebody may use. A user has one, and may have more: what any of them
//! allows as a whole is allowed.

use crate::resp::glob;
use crate::resp::table::{
    COMMAND_COUNT, COMMANDS, Categories, Command, Flags, category, has_subs_elsewhere, is_elsewhere, keys_of,
    named,
};

use super::rules::{Wrong, has_spaces};

/// Commands by their number.
type CommandSet = [u64; COMMAND_COUNT.div_ceil(64)];

/// See the module. A new one allows nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::resp) struct Selector {
    commands: CommandSet,
    /// The rules that make `commands`, behind `+@all` or `-@all`, as they were given; none that changes nothing.
    rules: Vec<Vec<u8>>,
    /// Whether those start from `+@all`.
    from_all: bool,
    /// Commands allowed with this first argument alone.
    first_args: Vec<(u16, Box<[u8]>)>,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Box<[u8]>>,
}

#[derive(Clone, Debug, PartialEq)]
struct KeyPattern {
    pattern: Box<[u8]>,
    read: bool,
    write: bool,
}

/// Why a command is not allowed; ordered by how far the command came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::resp) enum Denied {
    /// The command itself.
    Command,
    /// The key at this place.
    Key(usize),
    /// The channel at this place.
    Channel(usize),
}

impl Selector {
    /// One that allows everything.
    pub fn everything() -> Self {
        Self {
            commands: [u64::MAX; _],
            from_all: true,
            all_keys: true,
            all_channels: true,
            ..Self::default()
        }
    }

    /// Whether it allows everything.
    pub fn is_everything(&self) -> bool {
        self.all_keys && self.all_channels && COMMANDS.iter().all(|command| self.has(command.id))
    }

    fn has(&self, id: u16) -> bool {
        self.commands[usize::from(id) / 64] & 1 << (id % 64) != 0
    }

    /// Whether a command with these arguments, its name included, is allowed.
    pub fn check(&self, command: &'static Command, args: &[&[u8]]) -> Result<(), Denied> {
        if !self.has(command.id) && !command.flags.has(Flags::NO_AUTH) && !self.has_first_arg(command, args) {
            return Err(Denied::Command);
        }
        if !self.all_keys {
            for (at, access) in keys_of(command, args) {
                if !self.takes_key(args[at], access) {
                    return Err(Denied::Key(at));
                }
            }
        }
        if !self.all_channels {
            let (places, are_patterns) = channels_of(command, args.len());
            for at in places {
                if !self.takes_channel(args[at], are_patterns) {
                    return Err(Denied::Channel(at));
                }
            }
        }
        Ok(())
    }

    fn has_first_arg(&self, command: &Command, args: &[&[u8]]) -> bool {
        let at = if command.parent == crate::resp::table::TOP { 1 } else { 2 };
        args.get(at).is_some_and(|arg| {
            self.first_args.iter().any(|(id, allowed)| *id == command.id && arg.eq_ignore_ascii_case(allowed))
        })
    }

    fn takes_key(&self, key: &[u8], access: &str) -> bool {
        let needs = |words: [&str; 3]| access.split(' ').any(|word| words.contains(&word));
        let (read, write) = (needs(["access"; 3]), needs(["insert", "delete", "update"]));
        let fits = |allowed: &&KeyPattern| (allowed.read || !read) && (allowed.write || !write);
        self.keys.iter().filter(fits).any(|allowed| glob::matches(&allowed.pattern, key))
    }

    /// Whether this channel, or this pattern of channels, is open to it.
    pub fn opens_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels || self.takes_channel(channel, is_pattern)
    }

    /// A pattern is allowed only where the very same pattern is.
    fn takes_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.channels
            .iter()
            .any(|allowed| if is_pattern { **allowed == *channel } else { glob::matches(allowed, channel) })
    }

    /// Applies one rule.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), Wrong> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => {
                self.all_keys = true;
                self.keys.clear();
            }
            b"resetkeys" => {
                self.all_keys = false;
                self.keys.clear();
            }
            b"allchannels" | b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"allcommands" | b"+@all" => self.start_from(true),
            b"nocommands" | b"-@all" => self.start_from(false),
            lower => match (rule, lower) {
                ([b'~' | b'%', ..], _) => self.add_keys(rule)?,
                ([b'&', pattern @ ..], _) => self.add_channels(pattern)?,
                (_, [b'+' | b'-', ..]) => {
                    Subject::of(lower)?;
                    self.remember(lower);
                }
                _ => return Err(Wrong::Syntax),
            },
        }
        Ok(())
    }

    fn start_from(&mut self, all: bool) {
        self.commands = [if all { u64::MAX } else { 0 }; _];
        self.from_all = all;
        self.rules.clear();
        self.first_args.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), Wrong> {
        if self.all_keys {
            return Err(Wrong::KeysBehindAll);
        }
        let (mut read, mut write) = (rule[0] == b'~', rule[0] == b'~');
        let mut rest = &rule[1..];
        if rule[0] == b'%' {
            while let Some((letter, behind)) = rest.split_first() {
                rest = behind;
                match letter.to_ascii_uppercase() {
                    b'~' => break,
                    b'R' if !read => read = true,
                    b'W' if !write => write = true,
                    _ => return Err(Wrong::Syntax),
                }
            }
        }
        if !(read || write) || has_spaces(rest) {
            return Err(Wrong::Syntax);
        }
        match self.keys.iter_mut().find(|known| *known.pattern == *rest) {
            Some(known) => {
                known.read |= read;
                known.write |= write;
            }
            None => self.keys.push(KeyPattern { pattern: rest.into(), read, write }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), Wrong> {
        if self.all_channels {
            return Err(Wrong::ChannelsBehindAll);
        }
        if has_spaces(pattern) {
            return Err(Wrong::Syntax);
        }
        if !self.channels.iter().any(|known| **known == *pattern) {
            self.channels.push(pattern.into());
        }
        Ok(())
    }

    /// Does what a rule on commands says.
    fn change(&mut self, rule: &[u8]) {
        let allowed = rule[0] == b'+';
        match Subject::of(rule) {
            Ok(Subject::Category(category)) => {
                for command in COMMANDS.iter().filter(|command| command.categories.overlaps(category)) {
                    self.set(command.id, allowed);
                }
            }
            Ok(Subject::Command(command)) => with_subs(command).for_each(|each| self.set(each.id, allowed)),
            Ok(Subject::FirstArgument(Some(command), argument)) => {
                self.first_args.push((command.id, argument.into()));
            }
            Ok(Subject::Elsewhere | Subject::FirstArgument(None, _)) | Err(_) => {}
        }
    }

    /// Whether a rule on commands changes nothing behind those that are remembered.
    fn is_idle(&self, rule: &[u8]) -> bool {
        let allowed = rule[0] == b'+';
        // Which categories those commands are in that the table does not have is not known.
        let idle_elsewhere = || {
            let parent = rule[1..].split(|byte| *byte == b'|').next().unwrap_or_default();
            let is_category = rule[1] == b'@';
            let other = |old: &[u8]| {
                let touches = old[1] == b'@'
                    || old[1..] == *parent
                    || is_category && matches!(Subject::of(old), Ok(Subject::Elsewhere));
                touches && (old[0] == b'+') != allowed
            };
            self.from_all == allowed && !self.rules.iter().any(|old| other(old))
        };
        match Subject::of(rule) {
            Ok(Subject::Category(category)) => {
                let mut of_it = COMMANDS.iter().filter(|command| command.categories.overlaps(category));
                of_it.all(|command| self.has(command.id) == allowed) && idle_elsewhere()
            }
            Ok(Subject::Command(command)) => {
                with_subs(command).all(|each| self.has(each.id) == allowed)
                    && (!has_subs_elsewhere(&rule[1..]) || idle_elsewhere())
            }
            Ok(Subject::Elsewhere) => idle_elsewhere(),
            Ok(Subject::FirstArgument(..)) | Err(_) => false,
        }
    }

    fn set(&mut self, id: u16, allowed: bool) {
        let (word, bit) = (&mut self.commands[usize::from(id) / 64], 1 << (id % 64));
        *word = if allowed { *word | bit } else { *word & !bit };
        self.first_args.retain(|(of, _)| *of != id);
    }

    /// Remembers a rule on commands, and makes `commands` anew: what it makes idle is forgotten.
    fn remember(&mut self, rule: &[u8]) {
        let name = &rule[1..];
        let mut rules = std::mem::take(&mut self.rules);
        rules.retain(|old| {
            let behind = old[1..].strip_prefix(name);
            !behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(b"|"))
        });
        rules.push(rule.into());
        self.start_from(self.from_all);
        for rule in rules {
            if !self.is_idle(&rule) {
                self.change(&rule);
                self.rules.push(rule);
            }
        }
    }

    /// The rules on commands, as they would be given.
    pub fn commands_text(&self) -> String {
        let mut text = String::from(if self.from_all { "+@all" } else { "-@all" });
        for rule in &self.rules {
            text.push(' ');
            // Names are ASCII; a first argument may be anything.
            text.push_str(&String::from_utf8_lossy(rule));
        }
        text
    }

    /// The rules on keys.
    pub fn keys_text(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let each = self.keys.iter().map(|known| {
            let mark: &[u8] = match (known.read, known.write) {
                (true, false) => b"%R~",
                (false, true) => b"%W~",
                _ => b"~",
            };
            [mark, &*known.pattern].concat()
        });
        each.collect::<Vec<_>>().join(&b' ')
    }

    /// The rules on channels.
    pub fn channels_text(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let each = self.channels.iter().map(|pattern| [b"&", &**pattern].concat());
        each.collect::<Vec<_>>().join(&b' ')
    }

    /// All of them, as `ACL LIST` tells them.
    pub fn text(&self) -> Vec<u8> {
        let mut parts = Vec::new();
        if self.all_keys || !self.keys.is_empty() {
            parts.push(self.keys_text());
        }
        if !self.all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        if self.all_channels || !self.channels.is_empty() {
            parts.push(self.channels_text());
        }
        parts.push(self.commands_text().into_bytes());
        parts.join(&b' ')
    }
}

/// What a rule on commands is about.
enum Subject<'a> {
    Category(Categories),
    Command(&'static Command),
    /// A command that Redis has, and the table does not.
    Elsewhere,
    /// A command with this first argument alone.
    FirstArgument(Option<&'static Command>, &'a [u8]),
}

impl<'a> Subject<'a> {
    /// Of `+@category`, `+command`, `+container|subcommand` or `+command|first-argument`, in lower case, and the same with `-`, but
    /// for the last.
    fn of(rule: &'a [u8]) -> Result<Self, Wrong> {
        let name = match rule {
            [_, b'@', category_name @ ..] => {
                return category(category_name).map(Self::Category).ok_or(Wrong::Unknown);
            }
            [_, name @ ..] => name,
            [] => return Err(Wrong::Syntax),
        };
        let by_name = |name| known(name).map(|command| command.map_or(Self::Elsewhere, Self::Command));
        let bar = name.iter().rposition(|byte| *byte == b'|').filter(|_| rule[0] == b'+');
        let Some(bar) = bar else { return by_name(name) };
        let (container, behind) = (&name[..bar], &name[bar + 1..]);
        let command = known(container)?;
        if container.contains(&b'|') {
            return Err(Wrong::FirstArgumentOfSub);
        }
        if behind.is_empty() {
            return Err(Wrong::Syntax);
        }
        if command.is_some_and(Command::is_container) || has_subs_elsewhere(container) {
            return by_name(name);
        }
        Ok(Self::FirstArgument(command, behind))
    }
}

/// A command with all its subcommands.
fn with_subs(command: &'static Command) -> impl Iterator<Item = &'static Command> {
    std::iter::once(command).chain(command.subcommands())
}

/// The command of this name in lower case; `None` if Redis has it, and the table does not.
fn known(name: &[u8]) -> Result<Option<&'static Command>, Wrong> {
    match named(name) {
        None if is_elsewhere(name) => Ok(None),
        None => Err(Wrong::Unknown),
        command => Ok(command),
    }
}

/// Which of a command's arguments are channels it subscribes or publishes to, and whether they are patterns.
fn channels_of(command: &Command, count: usize) -> (std::ops::Range<usize>, bool) {
    match command.name {
        "publish" | "spublish" => (1..2.min(count), false),
        "subscribe" | "ssubscribe" => (1..count, false),
        "psubscribe" => (1..count, true),
        _ => (0..0, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(rules: &str) -> Selector {
        let mut selector = Selector::default();
        rules.split(' ').for_each(|rule| selector.apply(rule.as_bytes()).unwrap());
        selector
    }

    fn check(selector: &Selector, command: &str) -> Result<(), Denied> {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        selector.check(crate::resp::command::meant(&args).unwrap(), &args)
    }

    #[test]
    fn commands_categories_and_subcommands() {
        let some = selector("allkeys +@read -get +client -client|list +config|get +select|0");
        for (command, outcome) in [
            ("mget a", Ok(())),
            ("get a", Err(Denied::Command)),
            ("set a 1", Err(Denied::Command)),
            ("client id", Ok(())),
            ("client list", Err(Denied::Command)),
            ("config get x", Ok(())),
            ("config set x y", Err(Denied::Command)),
            ("select 0", Ok(())),
            ("select 1", Err(Denied::Command)),
            ("auth x", Ok(())),
        ] {
            assert_eq!(check(&some, command), outcome, "{command}");
        }
        assert_eq!(some.commands_text(), "-@all +@read -get +client -client|list +config|get +select|0");
        let all = selector("allkeys allchannels +@all -get +get");
        assert!(all.is_everything());
        assert!(!selector("allkeys allchannels +@all -get").is_everything());
    }

    #[test]
    fn keys_by_what_is_done_to_them() {
        let some = selector("+@all %R~r* %W~w* ~both*");
        for (command, outcome) in [
            ("get r1", Ok(())),
            ("set r1 x", Err(Denied::Key(1))),
            ("set w1 x", Ok(())),
            ("set w1 x GET", Err(Denied::Key(1))),
            ("get w1", Err(Denied::Key(1))),
            ("exists w1 r1", Ok(())),
            ("mget r1 x", Err(Denied::Key(2))),
            ("mset w1 1 both 2", Ok(())),
            ("mset w1 1 r 2", Err(Denied::Key(3))),
            ("incr both1", Ok(())),
            ("ping", Ok(())),
        ] {
            assert_eq!(check(&some, command), outcome, "{command}");
        }
    }

    #[test]
    fn rules_come_back_as_they_were_given() {
        for text in [
            "~* &* +@all",
            "resetchannels -@all",
            "%R~a %W~b ~c resetchannels &x &y -@all +@read -get",
            "~* resetchannels +@all -@dangerous +config|get",
        ] {
            let rules = text.replace("resetchannels -@all", "-@all");
            assert_eq!(String::from_utf8(selector(&rules).text()).unwrap(), text);
        }
        assert_eq!(
            selector("+get -get +set +client|id -client +@all -@read -@read").commands_text(),
            "+@all -@read"
        );
        assert_eq!(selector("+client|id -client|list +client").commands_text(), "-@all +client");
    }

    #[test]
    fn commands_that_only_redis_has_are_kept_in_rules() {
        for text in [
            "+@all -eval -script|load -migrate -xinfo",
            "-@all +lpush +script +script|load +xinfo|stream +hget|field +cluster|addslots",
        ] {
            assert_eq!(selector(text).commands_text(), text);
        }
        assert_eq!(
            selector("+EVAL +xinfo|stream -xinfo +Lpush|x +lpush").commands_text(),
            "-@all +eval +lpush"
        );
        assert!(
            selector("allkeys allchannels +@all -eval").is_everything(),
            "nothing that there is is refused"
        );
    }

    #[test]
    fn wrong_rules() {
        let mut all = Selector::everything();
        assert_eq!(all.apply(b"~x"), Err(Wrong::KeysBehindAll));
        assert_eq!(all.apply(b"&x"), Err(Wrong::ChannelsBehindAll));
        let mut none = Selector::default();
        for (rule, wrong) in [
            ("nonsense", Wrong::Syntax),
            ("", Wrong::Syntax),
            ("%~a", Wrong::Syntax),
            ("%X~a", Wrong::Syntax),
            ("%RR~a", Wrong::Syntax),
            ("~a b", Wrong::Syntax),
            ("+", Wrong::Unknown),
            ("-", Wrong::Unknown),
            ("+nosuch", Wrong::Unknown),
            ("+@nosuch", Wrong::Unknown),
            ("+client|nosuch", Wrong::Unknown),
            ("-select|0", Wrong::Unknown),
            ("-lpush|x", Wrong::Unknown),
            ("+script|nosuch", Wrong::Unknown),
            ("+xinfo|nosuch", Wrong::Unknown),
            ("+script|load|x", Wrong::FirstArgumentOfSub),
            ("+lpush|", Wrong::Syntax),
            ("+client|", Wrong::Syntax),
            ("+config|get|x", Wrong::FirstArgumentOfSub),
        ] {
            assert_eq!(none.apply(rule.as_bytes()), Err(wrong), "{rule}");
        }
    }
}
