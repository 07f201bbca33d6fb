//! Selectors: commands, keys, channels and databases that a user may use together.

use std::cell::OnceCell;

use smallvec::SmallVec;
use tidemill_resp::number::parse_integer;
use tidemill_resp::request::ArgumentView;

use super::commands::AllowedCommands;
use super::databases::AllowedDatabases;
use super::denial::{Denial, Reason};
use super::has_spaces;
use super::lists::{append, merge_equal, remove_repeated};
use super::patterns::{Access, KeyPattern, ReadablePrefix};
use super::rules::{ChannelsOfNewUsers, RuleError};
use crate::command::{
    Categories, Command, CommandId, CommandTable, DatabasePositions, Databases, KeyAccesses,
    KeyFlags, KeyPositions,
};
use crate::glob;

/// A call to be judged.
#[derive(Debug)]
pub struct Call<'a> {
    /// The command.
    pub id: CommandId,
    /// Its declaration.
    pub command: &'static Command,
    /// Its arguments.
    pub args: &'a ArgumentView<'a>,
    /// The selected database.
    pub database: usize,
    /// Databases of the server.
    pub database_count: usize,
    /// Its keys, looked for once for all selectors.
    keys: OnceCell<KeyAccesses>,
}

impl<'a> Call<'a> {
    /// A call of a command with arguments on one of `database_count` databases.
    #[must_use]
    pub fn new(
        (id, command): (CommandId, &'static Command),
        args: &'a ArgumentView<'a>,
        database: usize,
        database_count: usize,
    ) -> Call<'a> {
        Call { id, command, args, database, database_count, keys: OnceCell::new() }
    }

    /// Its keys. Arguments that do not fit are the handler's to complain about; it cannot touch a
    /// key then.
    fn keys(&self) -> &KeyAccesses {
        self.keys.get_or_init(|| self.command.key_accesses(self.args).unwrap_or_default())
    }

    /// A database that it touches and `allowed` lacks: index of the argument that numbers it, or 0.
    fn denied_database(&self, allowed: &AllowedDatabases) -> Option<usize> {
        let is_selected_denied =
            || self.command.is_about_data() && !allowed.contains(self.database);
        let selected = || is_selected_denied().then_some(0);
        match self.command.databases {
            Databases::All => Some(0),
            Databases::Selected => selected(),
            Databases::Numbered(find) => self.denied_number(find, allowed),
            Databases::AlsoNumbered(find) => self.denied_number(find, allowed).or_else(selected),
        }
    }

    /// Index of the argument that numbers a database which `allowed` lacks. With a number that is
    /// none of a database nothing is done: that is the handler's to complain about.
    fn denied_number(&self, find: DatabasePositions, allowed: &AllowedDatabases) -> Option<usize> {
        let mut positions = KeyPositions::new();
        find(self.args, &mut positions);
        let number_at = |&position: &usize| {
            let argument = (position < self.args.len()).then(|| self.args.get(position))?;
            let number = usize::try_from(parse_integer(argument)?).ok()?;
            (number < self.database_count).then_some(number)
        };
        let numbers: Option<KeyPositions> = positions.iter().map(number_at).collect();
        let denied = numbers?.iter().position(|&number| !allowed.contains(number))?;
        Some(positions[denied])
    }
}

/// Merges the permissions on keys of the same pattern.
fn merge_patterns(keys: &mut Vec<KeyPattern>) {
    merge_equal(keys, KeyPattern::pattern, KeyPattern::add);
}

/// Commands, keys, channels and databases that a user may use together. To be settled behind the
/// last of its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub(super) commands: AllowedCommands,
    has_all_keys: bool,
    keys: Vec<KeyPattern>,
    has_all_channels: bool,
    channels: Vec<Box<[u8]>>,
    pub(super) databases: AllowedDatabases,
}

impl Selector {
    /// Nothing, but channels and databases as new users have them.
    pub(super) fn new(table: &CommandTable, channels: ChannelsOfNewUsers) -> Selector {
        Selector {
            commands: AllowedCommands::none(table),
            has_all_keys: false,
            keys: Vec::new(),
            has_all_channels: channels == ChannelsOfNewUsers::All,
            channels: Vec::new(),
            databases: AllowedDatabases::All,
        }
    }

    /// Everything.
    pub(super) fn everything(table: &CommandTable) -> Selector {
        let mut all = Selector::new(table, ChannelsOfNewUsers::All);
        all.commands.set_all(true);
        all.has_all_keys = true;
        all
    }

    /// True if it allows everything.
    pub(super) fn is_everything(&self, table: &CommandTable) -> bool {
        self.has_all_keys
            && self.databases.are_all()
            && self.has_all_channels
            && self.commands.are_all(table)
    }

    /// True if it allows all keys.
    pub(super) fn has_all_keys(&self) -> bool {
        self.has_all_keys
    }

    /// Judges a call.
    ///
    /// # Errors
    ///
    /// The first thing that is denied.
    pub(super) fn check(&self, call: &Call<'_>) -> Result<(), Denial> {
        let denied = |reason, argument| Err(Denial { reason, argument });
        if !self.databases.are_all()
            && let Some(argument) = call.denied_database(&self.databases)
        {
            return denied(Reason::Database, argument);
        }
        if !self.allows_command(call) {
            return denied(Reason::Command, 0);
        }
        if !self.has_all_keys {
            for key in call.keys() {
                if !self.allows_access(key.flags, call.args.get(key.position)) {
                    return denied(Reason::Key, key.position);
                }
            }
        }
        if let (false, Some(channels)) = (self.has_all_channels, call.command.channels) {
            for position in channels.positions(call.args) {
                if !self.allows_channel(call.args.get(position), channels.are_patterns) {
                    return denied(Reason::Channel, position);
                }
            }
        }
        Ok(())
    }

    fn allows_command(&self, call: &Call<'_>) -> bool {
        use crate::command::Flags;
        self.commands.allows(call.id)
            || call.command.flags.contains(Flags::NO_AUTH)
            || self
                .commands
                .allows_first_argument(call.id, (call.args.len() > 1).then(|| call.args.get(1)))
    }

    /// True if a key may be accessed as a command does.
    #[inline]
    pub(super) fn allows_access(&self, flags: KeyFlags, key: &[u8]) -> bool {
        self.allows_key(Access::needed_for(flags), key)
    }

    #[inline]
    fn allows_key(&self, needed: Access, key: &[u8]) -> bool {
        self.keys.iter().any(|pattern| pattern.allows(needed, key))
    }

    /// Prefix of all keys that may be used, if that is all there is to know of a key that is read.
    pub(super) fn readable_prefix(&self) -> Option<ReadablePrefix> {
        match &self.keys[..] {
            [pattern] => pattern.readable_prefix(),
            _ => None,
        }
    }

    /// True if a channel may be used. A pattern may be subscribed to if it is allowed literally.
    #[must_use]
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.has_all_channels
            || self.channels.iter().any(|allowed| match is_pattern {
                true => **allowed == *channel,
                false => glob::matches(allowed, channel, false),
            })
    }

    /// True if it allows all channels.
    pub(super) fn has_all_channels(&self) -> bool {
        self.has_all_channels
    }

    /// Patterns of channels that it allows, all apart.
    pub(super) fn channels(&self) -> impl Iterator<Item = &[u8]> {
        self.channels.iter().map(|channel| &**channel)
    }

    /// True if any key may be read: keys that elements name, and no argument.
    pub(super) fn reads_any_key(&self) -> bool {
        self.has_all_keys || self.keys.iter().any(|pattern| pattern.allows_all(Access::READ))
    }

    pub(super) fn allow_all_keys(&mut self) {
        self.has_all_keys = true;
        self.keys.clear();
    }

    pub(super) fn reset_keys(&mut self) {
        self.has_all_keys = false;
        self.keys.clear();
    }

    /// A rule `~pattern` or `%RW~pattern`.
    pub(super) fn allow_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.has_all_keys {
            return Err(RuleError::PatternBesideAllKeys);
        }
        let mut access = Access::empty();
        let mut pattern = &rule[1..];
        if rule[0] == b'~' {
            access = Access::all();
        } else {
            while let [letter, rest @ ..] = pattern {
                pattern = rest;
                match letter {
                    b'R' | b'r' if !access.contains(Access::READ) => access |= Access::READ,
                    b'W' | b'w' if !access.contains(Access::WRITE) => access |= Access::WRITE,
                    b'~' if !access.is_empty() => break,
                    _ => return Err(RuleError::Syntax),
                }
            }
        }
        if access.is_empty() || has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        append(&mut self.keys, KeyPattern::new(pattern, access), merge_patterns);
        Ok(())
    }

    pub(super) fn allow_all_channels(&mut self) {
        self.has_all_channels = true;
        self.channels.clear();
    }

    pub(super) fn reset_channels(&mut self) {
        self.has_all_channels = false;
        self.channels.clear();
    }

    pub(super) fn allow_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.has_all_channels {
            return Err(RuleError::PatternBesideAllChannels);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        append(&mut self.channels, pattern.into(), remove_repeated);
        Ok(())
    }

    /// Removes what rules have made superfluous, behind the last of them.
    pub(super) fn settle(&mut self) {
        self.commands.settle();
        merge_patterns(&mut self.keys);
        remove_repeated(&mut self.channels);
    }

    /// Allows or denies all commands of a category, subcommands included.
    pub(super) fn set_category(
        &mut self,
        table: &CommandTable,
        name: &[u8],
        allows: bool,
    ) -> Result<(), RuleError> {
        let category = Categories::named(name).ok_or(RuleError::Unknown)?;
        self.commands.note_rule(&[b"@", name].concat(), allows);
        // Those of a container come behind it: what it says of them does not count.
        for (id, command) in table.iter() {
            if command.all_categories().contains(category) {
                self.commands.set(table, id, allows);
            }
        }
        Ok(())
    }

    /// Bytes of the names and patterns in its rules.
    pub(super) fn text_bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(KeyPattern::text_bytes).sum();
        let channels: usize = self.channels().map(<[u8]>::len).sum();
        keys + channels + self.commands.text_bytes()
    }

    /// Rules about commands.
    pub(crate) fn commands_text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.commands.describe(&mut text);
        text
    }

    /// Rule about databases.
    pub(crate) fn databases_text(&self) -> String {
        self.databases.describe()
    }

    /// Patterns of keys as their rules.
    pub(crate) fn keys_text(&self) -> Vec<u8> {
        if self.has_all_keys {
            return b"~*".to_vec();
        }
        let described = self.keys.iter().map(|pattern| {
            let mut text = Vec::new();
            pattern.describe(&mut text);
            text
        });
        described.collect::<Vec<_>>().join(&b' ')
    }

    /// Patterns of channels as their rules.
    pub(crate) fn channels_text(&self) -> Vec<u8> {
        if self.has_all_channels {
            return b"&*".to_vec();
        }
        let described: Vec<Vec<u8>> =
            self.channels.iter().map(|pattern| [b"&", &**pattern].concat()).collect();
        described.join(&b' ')
    }

    /// The rules that make it, in the order of `ACL LIST`.
    pub(super) fn describe(&self) -> Vec<u8> {
        let mut parts: SmallVec<[Vec<u8>; 4]> = SmallVec::new();
        parts.push(self.keys_text());
        if !self.has_all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        parts.push(self.channels_text());
        if !self.databases.are_all() {
            let databases = self.databases_text();
            let none = String::from("resetdbs");
            parts.push(if databases.is_empty() { none } else { databases }.into_bytes());
        }
        parts.push(self.commands_text());
        parts.retain(|part| !part.is_empty());
        parts.join(&b' ')
    }
}
