//! Users.

use std::collections::HashSet;

use super::denial::{Denial, Reason};
use super::password::Passwords;
use super::patterns::ReadablePrefix;
use super::rules::{ChannelsOfNewUsers, RuleError, Rules};
use super::selector::{Call, Selector};
use crate::command::{CommandId, CommandTable, KeyFlags};

/// Brief reads that a user may send without a look at their arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BriefReads {
    /// None.
    None,
    /// Those that [`User::allows_brief_read`].
    Some,
    /// All.
    All,
}

/// A user: name, passwords, selectors. Immutable once among the [`Users`](super::Users).
#[derive(Clone, Debug)]
pub struct User {
    pub(super) name: Box<[u8]>,
    pub(super) is_on: bool,
    pub(super) needs_no_password: bool,
    pub(super) passwords: Passwords,
    /// The user's own rules, then the selectors in parentheses.
    pub(super) selectors: Vec<Selector>,
    is_unrestricted: bool,
    brief_reads: BriefReads,
    /// Prefix with which every key may be read by every brief read.
    readable_prefix: Option<ReadablePrefix>,
}

impl User {
    /// A user who is off, has no password and may do nothing.
    pub(super) fn new(table: &CommandTable, name: &[u8], channels: ChannelsOfNewUsers) -> User {
        User {
            name: name.into(),
            is_on: false,
            needs_no_password: false,
            passwords: Passwords::default(),
            selectors: vec![Selector::new(table, channels)],
            is_unrestricted: false,
            brief_reads: BriefReads::None,
            readable_prefix: None,
        }
    }

    /// A user who needs no password and may do everything.
    pub(super) fn everything(table: &CommandTable, name: &[u8]) -> User {
        User {
            is_on: true,
            needs_no_password: true,
            selectors: vec![Selector::everything(table)],
            is_unrestricted: true,
            brief_reads: BriefReads::All,
            ..User::new(table, name, ChannelsOfNewUsers::All)
        }
    }

    /// The user with rules applied. Fails with the rule that cannot be.
    pub(super) fn with_rules<'r>(
        mut self,
        table: &CommandTable,
        channels: ChannelsOfNewUsers,
        rules: &'r Rules<'_>,
    ) -> Result<User, (&'r [u8], RuleError)> {
        for rule in rules.iter() {
            self.apply(table, channels, rule).map_err(|error| (rule, error))?;
        }
        self.settle();
        self.is_unrestricted = self.selectors.iter().any(|selector| selector.is_everything(table));
        self.brief_reads = self.judge_brief_reads(table);
        let prefix = self.selectors[0].readable_prefix();
        self.readable_prefix = prefix.filter(|_| self.allows_all_brief_reads(table));
        Ok(self)
    }

    fn allows_all_brief_reads(&self, table: &CommandTable) -> bool {
        let own = &self.selectors[0];
        let is_denied = |id| table.traits(id).is_brief_read && !own.commands.allows(id);
        own.databases.are_all() && !table.iter().any(|(id, _)| is_denied(id))
    }

    fn judge_brief_reads(&self, table: &CommandTable) -> BriefReads {
        let own = &self.selectors[0];
        if self.is_unrestricted {
            BriefReads::All
        } else if !own.databases.are_all() {
            BriefReads::None
        } else if own.has_all_keys() && self.allows_all_brief_reads(table) {
            BriefReads::All
        } else {
            BriefReads::Some
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// True if it may authenticate.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// True if it authenticates with any password.
    #[must_use]
    pub fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// True if connections are this user's from the beginning, when it is the default one.
    #[must_use]
    pub fn admits_everybody(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    /// True if a password lets this user in.
    #[must_use]
    pub fn accepts(&self, password: &[u8]) -> bool {
        if !self.is_on || self.needs_no_password {
            return self.is_on;
        }
        self.passwords.contains(password)
    }

    /// True if it may do everything: nothing of its calls needs to be looked at.
    #[must_use]
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }

    /// Brief reads that need no look at their arguments.
    #[must_use]
    pub fn brief_reads(&self) -> BriefReads {
        self.brief_reads
    }

    /// True if its own rules, which allow all databases, allow a command that reads; `only_key` is
    /// the access to its key and that key, if it has exactly one. False says nothing: the call has
    /// to be judged.
    #[must_use]
    #[inline]
    pub fn allows_brief_read(&self, id: CommandId, only_key: Option<(KeyFlags, &[u8])>) -> bool {
        let begins = |(_, key)| self.readable_prefix.is_some_and(|prefix| prefix.begins(key));
        only_key.is_some_and(begins) || self.own_rules_allow(id, only_key)
    }

    #[inline(never)]
    fn own_rules_allow(&self, id: CommandId, only_key: Option<(KeyFlags, &[u8])>) -> bool {
        let own = &self.selectors[0];
        own.commands.allows(id)
            && (own.has_all_keys()
                || only_key.is_some_and(|(flags, key)| own.allows_access(flags, key)))
    }

    /// Judges a call: one selector has to allow all of it.
    ///
    /// # Errors
    ///
    /// The denial: of several selectors' the greatest.
    #[inline]
    pub fn check(&self, call: &Call<'_>) -> Result<(), Denial> {
        if self.is_unrestricted { Ok(()) } else { self.check_selectors(call) }
    }

    fn check_selectors(&self, call: &Call<'_>) -> Result<(), Denial> {
        let mut worst = Denial { reason: Reason::Database, argument: 0 };
        for selector in &self.selectors {
            match selector.check(call) {
                Ok(()) => return Ok(()),
                Err(denial) => worst = worst.max(denial),
            }
        }
        Err(worst)
    }

    /// True if a call may read keys that its arguments do not name: a selector allows all of it and
    /// the reading of any key.
    #[must_use]
    pub fn may_discover_keys(&self, call: &Call<'_>) -> bool {
        let allows = |selector: &Selector| selector.reads_any_key() && selector.check(call).is_ok();
        self.is_unrestricted || self.selectors.iter().any(allows)
    }

    /// True if it may be subscribed to a channel or a pattern.
    #[must_use]
    pub fn may_subscribe(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors.iter().any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// True if it has all patterns of channels that it had before: its subscriptions stay.
    pub(super) fn keeps_channels_of(&self, before: &User) -> bool {
        let has_all = |user: &User| user.selectors.iter().any(Selector::has_all_channels);
        has_all(self) || !has_all(before) && before.channels().is_subset(&self.channels())
    }

    fn channels(&self) -> HashSet<&[u8]> {
        self.selectors.iter().flat_map(Selector::channels).collect()
    }

    /// Hashes of its passwords, as digits.
    pub(crate) fn password_digits(&self) -> impl ExactSizeIterator<Item = String> {
        self.passwords.digits()
    }

    /// Its own rules, then those of the selectors in parentheses.
    pub(crate) fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Bytes of its name, of its passwords as digits, and of what its rules name.
    pub(crate) fn text_bytes(&self) -> usize {
        let of_selectors: usize = self.selectors.iter().map(Selector::text_bytes).sum();
        self.name.len() + self.passwords.text_bytes() + of_selectors
    }

    /// The rules that make it, in the order of `ACL LIST`, behind its name.
    pub(crate) fn describe(&self) -> Vec<u8> {
        let mut text = self.name.to_vec();
        text.extend_from_slice(if self.is_on { b" on" } else { b" off" });
        if self.needs_no_password {
            text.extend_from_slice(b" nopass");
        }
        for digits in self.password_digits() {
            text.extend_from_slice(b" #");
            text.extend_from_slice(digits.as_bytes());
        }
        for (index, selector) in self.selectors.iter().enumerate() {
            let (before, after): (&[u8], &[u8]) =
                if index == 0 { (b" ", b"") } else { (b" (", b")") };
            text.extend_from_slice(before);
            text.extend_from_slice(&selector.describe());
            text.extend_from_slice(after);
        }
        text
    }
}
