//! Declarations in short: a family is a command without a name, a command is a row of it.
//!
//! ```text
//! const HASH: Command = Command::keyed(Group::Hash, Categories::HASH);
//!
//! const HLEN: Command = HASH
//!     .command("hlen", 2, "2.0.0", "Counts the fields.")
//!     .flags(&[READONLY, FAST])
//!     .keys(&[KeySpec::first(&[RO])])
//!     .arguments(&[key("key")]);
//! ```
//!
//! All of it is evaluated at compile time. A command that differs little from another one is a row
//! of that one: `HTTL.command("hpttl", ...)` has all of `HTTL` but the row.

use super::arguments::Argument;
use super::declaration::{Categories, Command, Flags, Group, KeyFlagsOf, MoreKeys, Scope};
use super::keys::KeySpec;
use super::touched::{Channels, Databases};

impl Command {
    const fn family(group: Group, categories: Categories, scope: Scope) -> Command {
        Command { group, categories, scope, ..Command::BASE }
    }

    /// A family of commands on keys.
    #[must_use]
    pub const fn keyed(group: Group, categories: Categories) -> Command {
        Command::family(group, categories, Scope::Keys)
    }

    /// A family of commands on the session or the server.
    #[must_use]
    pub const fn session(group: Group, categories: Categories) -> Command {
        Command::family(group, categories, Scope::Session)
    }

    /// A family of commands on the whole keyspace.
    #[must_use]
    pub const fn whole_keyspace(group: Group, categories: Categories) -> Command {
        Command::family(group, categories, Scope::Keyspace)
    }

    /// A family of commands that run scripts.
    #[must_use]
    pub const fn scripts(group: Group, categories: Categories) -> Command {
        Command::family(group, categories, Scope::Script)
    }

    /// A row of a family: lower-case name (`container|name` of a subcommand), number of arguments
    /// with the name (at least that many when negative), version that brought it, summary.
    #[must_use]
    pub const fn command(
        self,
        name: &'static str,
        arity: i32,
        since: &'static str,
        summary: &'static str,
    ) -> Command {
        Command { name, arity, since, summary, ..self }
    }

    /// A command of the family's group that has subcommands only.
    #[must_use]
    pub const fn container(
        self,
        name: &'static str,
        since: &'static str,
        summary: &'static str,
        subcommands: &'static [&'static Command],
    ) -> Command {
        Command::family(self.group, Categories::empty(), Scope::Container)
            .command(name, -2, since, summary)
            .complexity("Depends on subcommand.")
            .subcommands(subcommands)
    }

    /// The subcommand `HELP` of a container.
    #[must_use]
    pub const fn help(self, name: &'static str, since: &'static str) -> Command {
        Command::session(self.group, self.categories)
            .command(name, 2, since, "Lists the subcommands.")
            .flags(&[Flags::LOADING, Flags::STALE])
    }

    /// Its complexity, when it is not O(1).
    #[must_use]
    pub const fn complexity(self, complexity: &'static str) -> Command {
        Command { complexity, ..self }
    }

    /// Its flags, instead of those of its family.
    #[must_use]
    pub const fn flags(self, flags: &[Flags]) -> Command {
        Command { flags: Flags::empty(), ..self }.more_flags(flags)
    }

    /// Flags besides those of its family.
    #[must_use]
    pub const fn more_flags(self, flags: &[Flags]) -> Command {
        let mut all = self.flags;
        let mut rest = flags;
        while let [flag, others @ ..] = rest {
            all = all.union(*flag);
            rest = others;
        }
        Command { flags: all, ..self }
    }

    /// Its ACL categories that do not follow from the flags, instead of those of its family.
    #[must_use]
    pub const fn categories(self, categories: &[Categories]) -> Command {
        let mut all = Categories::empty();
        let mut rest = categories;
        while let [category, others @ ..] = rest {
            all = all.union(*category);
            rest = others;
        }
        Command { categories: all, ..self }
    }

    /// Rules that find its keys.
    #[must_use]
    pub const fn keys(self, keys: &'static [KeySpec]) -> Command {
        Command { keys, ..self }
    }

    /// Finder of keys that no rule describes.
    #[must_use]
    pub const fn more_keys(self, more_keys: MoreKeys) -> Command {
        Command { more_keys: Some(more_keys), ..self }
    }

    /// Use of its keys, when the arguments decide that.
    #[must_use]
    pub const fn key_flags(self, key_flags: KeyFlagsOf) -> Command {
        Command { key_flags: Some(key_flags), ..self }
    }

    /// Channels that it publishes or subscribes to.
    #[must_use]
    pub const fn channels(self, channels: Channels) -> Command {
        Command { channels: Some(channels), ..self }
    }

    /// Databases that it touches, when it is not the selected one alone.
    #[must_use]
    pub const fn databases(self, databases: Databases) -> Command {
        Command { databases, ..self }
    }

    /// Its syntax.
    #[must_use]
    pub const fn arguments(self, arguments: &'static [Argument]) -> Command {
        Command { arguments, ..self }
    }

    /// Hints for clients and proxies.
    #[must_use]
    pub const fn tips(self, tips: &'static [&'static str]) -> Command {
        Command { tips, ..self }
    }

    /// Changes of its behaviour: version and what changed.
    #[must_use]
    pub const fn history(self, history: &'static [(&'static str, &'static str)]) -> Command {
        Command { history, ..self }
    }

    /// Version since which it is deprecated, and what replaces it.
    #[must_use]
    pub const fn deprecated(self, since: &'static str, replacement: &'static str) -> Command {
        Command { deprecated: Some((since, replacement)), ..self }
    }

    /// Its subcommands.
    #[must_use]
    pub const fn subcommands(self, subcommands: &'static [&'static Command]) -> Command {
        Command { subcommands, ..self }
    }

    /// Data that it works on, when it differs from its family's.
    #[must_use]
    pub const fn scope(self, scope: Scope) -> Command {
        Command { scope, ..self }
    }
}
