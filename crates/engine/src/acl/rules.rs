//! Rules that make a user: `on`, `>password`, `~key`, `+@read`, `(+get ~other)`.

use std::borrow::Cow;

use tidemill_resp::request::split_arguments;

use super::databases::AllowedDatabases;
use super::password::PasswordHash;
use super::selector::Selector;
use super::user::User;
use crate::command::CommandTable;
use crate::settings::Settings;

/// Channels that new users and selectors begin with: `acl-pubsub-default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelsOfNewUsers {
    /// `allchannels`
    All,
    /// `resetchannels`
    None,
}

impl ChannelsOfNewUsers {
    /// As settings say.
    #[must_use]
    pub fn of(settings: &Settings) -> ChannelsOfNewUsers {
        if settings.new_users_have_channels {
            ChannelsOfNewUsers::All
        } else {
            ChannelsOfNewUsers::None
        }
    }
}

/// Reason why a rule is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// It is no rule.
    Syntax,
    /// Its command or category does not exist.
    Unknown,
    /// It allows a first argument of a subcommand.
    FirstArgumentOfSubcommand,
    /// It allows keys beside all keys.
    PatternBesideAllKeys,
    /// It allows channels beside all channels.
    PatternBesideAllChannels,
    /// It removes a password that the user does not have.
    NoSuchPassword,
    /// Its hash of a password is none.
    MalformedHash,
    /// It numbers a database that no server has.
    DatabaseOutOfRange,
}

impl RuleError {
    /// Its text, as Valkey gives it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            RuleError::Syntax => "Syntax error",
            RuleError::Unknown => "Unknown command or category name in ACL",
            RuleError::FirstArgumentOfSubcommand => {
                "Allowing first-arg of a subcommand is not supported"
            }
            RuleError::PatternBesideAllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and \
                 does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::PatternBesideAllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and \
                 does not have any effect. Try 'resetchannels' to start with an empty list of \
                 channels"
            }
            RuleError::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            RuleError::MalformedHash => {
                "The password hash must be exactly 64 characters and contain only lowercase \
                 hexadecimal characters"
            }
            RuleError::DatabaseOutOfRange => "The provided database ID is out of range",
        }
    }
}

/// A selector that is opened by an argument of this index, and closed by none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnclosedSelector(pub(crate) usize);

/// Rules of one user, in which the arguments of a selector are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules<'a>(Vec<Cow<'a, [u8]>>);

impl<'a> Rules<'a> {
    /// The rules that arguments make.
    pub(crate) fn of(arguments: &[&'a [u8]]) -> Result<Rules<'a>, UnclosedSelector> {
        let mut rules: Vec<Cow<'a, [u8]>> = Vec::with_capacity(arguments.len());
        let mut open: Option<(usize, Vec<u8>)> = None;
        for (index, &argument) in arguments.iter().enumerate() {
            let closes = argument.last() == Some(&b')');
            match &mut open {
                None if argument.first() == Some(&b'(') && !closes => {
                    open = Some((index, argument.to_vec()));
                }
                None => rules.push(argument.into()),
                Some((_, selector)) => {
                    selector.push(b' ');
                    selector.extend_from_slice(argument);
                    if closes {
                        rules.extend(open.take().map(|(_, selector)| selector.into()));
                    }
                }
            }
        }
        match open {
            Some((index, _)) => Err(UnclosedSelector(index)),
            None => Ok(Rules(rules)),
        }
    }

    /// The rules one by one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|rule| &**rule)
    }
}

impl User {
    /// Applies a rule. Behind the last one the user is to be settled; after an error it is in
    /// between, and to be dropped.
    pub(super) fn apply(
        &mut self,
        table: &CommandTable,
        channels: ChannelsOfNewUsers,
        rule: &[u8],
    ) -> Result<(), RuleError> {
        match (&*rule.to_ascii_lowercase(), rule) {
            (b"", _) | (b"sanitize-payload" | b"skip-sanitize-payload", _) => {}
            (b"on", _) => self.is_on = true,
            (b"off", _) => self.is_on = false,
            (b"nopass", _) => {
                self.needs_no_password = true;
                self.passwords.clear();
            }
            (b"resetpass", _) => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            (b"clearselectors", _) => self.selectors.truncate(1),
            (b"reset", _) => {
                let name = std::mem::take(&mut self.name);
                *self = User::new(table, &name, channels);
            }
            (_, [b'>', password @ ..]) => self.add_password(PasswordHash::of(password)),
            (_, [b'#', digits @ ..]) => {
                self.add_password(PasswordHash::parse(digits).ok_or(RuleError::MalformedHash)?);
            }
            (_, [b'<', password @ ..]) => self.remove_password(PasswordHash::of(password))?,
            (_, [b'!', digits @ ..]) => {
                let hash = PasswordHash::parse(digits).ok_or(RuleError::MalformedHash)?;
                self.remove_password(hash)?;
            }
            (_, [b'(', inner @ .., b')']) => {
                let mut selector = Selector::new(table, channels);
                for rule in split_arguments(inner).map_err(|_| RuleError::Syntax)? {
                    selector.apply(table, &rule)?;
                }
                selector.settle();
                self.selectors.push(selector);
            }
            _ => self.selectors[0].apply(table, rule)?,
        }
        Ok(())
    }

    /// Removes what rules have made superfluous, behind the last of them.
    pub(super) fn settle(&mut self) {
        self.passwords.settle();
        self.selectors[0].settle();
    }

    fn add_password(&mut self, hash: PasswordHash) {
        self.needs_no_password = false;
        self.passwords.add(hash);
    }

    fn remove_password(&mut self, hash: PasswordHash) -> Result<(), RuleError> {
        if self.passwords.remove(&hash) { Ok(()) } else { Err(RuleError::NoSuchPassword) }
    }
}

impl Selector {
    fn apply(&mut self, table: &CommandTable, rule: &[u8]) -> Result<(), RuleError> {
        match (&*rule.to_ascii_lowercase(), rule) {
            (b"", _) => {}
            (b"allkeys" | b"~*", _) => self.allow_all_keys(),
            (b"resetkeys", _) => self.reset_keys(),
            (b"allchannels" | b"&*", _) => self.allow_all_channels(),
            (b"resetchannels", _) => self.reset_channels(),
            (b"alldbs", _) => self.databases = AllowedDatabases::All,
            (b"resetdbs", _) => self.databases = AllowedDatabases::none(),
            (b"allcommands" | b"+@all", _) => self.commands.set_all(true),
            (b"nocommands" | b"-@all", _) => self.commands.set_all(false),
            ([b'd', b'b', b'=', list @ ..], _) => self.databases = AllowedDatabases::parse(list)?,
            (_, [b'~' | b'%', ..]) => self.allow_keys(rule)?,
            (_, [b'&', pattern @ ..]) => self.allow_channels(pattern)?,
            (_, [b'+', b'@', name @ ..]) => self.set_category(table, name, true)?,
            (_, [b'-', b'@', name @ ..]) => self.set_category(table, name, false)?,
            (_, [b'+', name @ ..]) => self.allow_command(table, name)?,
            (_, [b'-', name @ ..]) => {
                let id = table.find_full(name).ok_or(RuleError::Unknown)?;
                self.commands.set(table, id, false);
                self.commands.note_rule(name, false);
            }
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    /// `+command`, `+command|subcommand`, `+command|first-argument`.
    fn allow_command(&mut self, table: &CommandTable, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
            let id = table.find_full(name).ok_or(RuleError::Unknown)?;
            self.commands.set(table, id, true);
            self.commands.note_rule(name, true);
            return Ok(());
        };
        let (before, behind) = (&name[..bar], &name[bar + 1..]);
        let id = table.find_full(before).ok_or(RuleError::Unknown)?;
        let command = table.command(id);
        if command.name.contains('|') {
            return Err(RuleError::FirstArgumentOfSubcommand);
        }
        if behind.is_empty() {
            return Err(RuleError::Syntax);
        }
        if command.subcommands.is_empty() {
            self.commands.allow_first_argument(id, behind);
        } else {
            let id = table.find_full(name).ok_or(RuleError::Unknown)?;
            self.commands.set(table, id, true);
        }
        self.commands.note_rule(name, true);
        Ok(())
    }
}
