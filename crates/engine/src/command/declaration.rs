//! The declaration of a command.

use bitflags::bitflags;
use tidemill_resp::request::ArgumentView;

use super::arguments::{Argument, position_of};
use super::keys::{Find, KeyFlags, KeyPositions, KeySpec};
use super::touched::{Channels, Databases};

bitflags! {
    /// Flags of a command, with the names of `COMMAND INFO`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u32 {
        /// May change data.
        const WRITE = 1;
        /// Reads data only.
        const READONLY = 1 << 1;
        /// Refused when memory is short.
        const DENYOOM = 1 << 2;
        /// Administrative.
        const ADMIN = 1 << 3;
        /// About pub/sub.
        const PUBSUB = 1 << 4;
        /// Not from scripts.
        const NOSCRIPT = 1 << 5;
        /// May block the client.
        const BLOCKING = 1 << 6;
        /// Allowed while loading.
        const LOADING = 1 << 7;
        /// Allowed on a stale replica.
        const STALE = 1 << 8;
        /// Not shown to `MONITOR`.
        const SKIP_MONITOR = 1 << 9;
        /// Not in the slow log.
        const SKIP_SLOWLOG = 1 << 10;
        /// Takes constant or logarithmic time.
        const FAST = 1 << 11;
        /// Allowed before authentication.
        const NO_AUTH = 1 << 12;
        /// Keys cannot be found by specifications alone.
        const MOVABLEKEYS = 1 << 13;
        /// Not allowed in `MULTI`.
        const NO_MULTI = 1 << 14;
        /// Allowed while a script keeps the server busy.
        const ALLOW_BUSY = 1 << 15;
        /// Not for asynchronous loading.
        const NO_ASYNC_LOADING = 1 << 16;
        /// May replicate without being a write. Not shown to clients.
        const MAY_REPLICATE = 1 << 17;
        /// Makes several changes although it names one key. Not shown to clients.
        const SEVERAL_CHANGES = 1 << 18;
        /// Reads keys that its arguments do not name. Not shown to clients.
        const DISCOVERS_KEYS = 1 << 19;
        /// Allowed on a slot that is being imported.
        const ASKING = 1 << 20;
        /// Made for servers, not for clients. Shown in `COMMAND DOCS` alone.
        const SYSTEM = 1 << 21;
        /// May be called without a key although it declares some.
        const NO_MANDATORY_KEYS = 1 << 22;
        /// Registers something of a client or of the server, as small as that may be. Not shown to
        /// clients.
        const REGISTERS = 1 << 23;
    }
}

bitflags! {
    /// ACL categories. Those from `READ` on follow from the flags and are not declared.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Categories: u32 {
        /// `@keyspace`
        const KEYSPACE = 1;
        /// `@string`
        const STRING = 1 << 1;
        /// `@bitmap`
        const BITMAP = 1 << 2;
        /// `@list`
        const LIST = 1 << 3;
        /// `@hash`
        const HASH = 1 << 4;
        /// `@connection`
        const CONNECTION = 1 << 5;
        /// `@transaction`
        const TRANSACTION = 1 << 6;
        /// `@dangerous`
        const DANGEROUS = 1 << 7;
        /// `@admin`
        const ADMIN = 1 << 8;
        /// `@set`
        const SET = 1 << 9;
        /// `@sortedset`
        const SORTED_SET = 1 << 10;
        /// `@hyperloglog`
        const HYPERLOGLOG = 1 << 11;
        /// `@geo`
        const GEO = 1 << 12;
        /// `@stream`
        const STREAM = 1 << 13;
        /// `@pubsub`
        const PUBSUB = 1 << 14;
        /// `@scripting`
        const SCRIPTING = 1 << 15;
        /// `@read`
        const READ = 1 << 16;
        /// `@write`
        const WRITE = 1 << 17;
        /// `@fast`
        const FAST = 1 << 18;
        /// `@slow`
        const SLOW = 1 << 19;
        /// `@blocking`
        const BLOCKING = 1 << 20;
    }
}

macro_rules! groups {
    ($($group:ident = $name:literal, $holds_collections:literal;)*) => {
        /// Group under which `COMMAND DOCS` files a command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Group {
            $(#[doc = concat!("`", $name, "`")] $group,)*
        }

        impl Group {
            /// Name of the group.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Group::$group => $name,)*
                }
            }

            /// True if the group's keys hold collections: their trees are prefetched.
            #[must_use]
            pub fn is_of_collections(self) -> bool {
                match self {
                    $(Group::$group => $holds_collections,)*
                }
            }
        }
    };
}

// Name, and whether the keys of its commands hold collections.
groups! {
    Bitmap = "bitmap", false;
    Cluster = "cluster", false;
    Connection = "connection", false;
    Generic = "generic", false;
    Geo = "geo", true;
    Hash = "hash", true;
    HyperLogLog = "hyperloglog", false;
    List = "list", true;
    PubSub = "pubsub", false;
    Server = "server", false;
    Set = "set", true;
    SortedSet = "sorted-set", true;
    Stream = "stream", true;
    Scripting = "scripting", false;
    String = "string", false;
    Transactions = "transactions", false;
}

/// Data that a command works on, which decides how it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Its keys: executed without a lock, under one, or under several, as its flags and keys say.
    Keys,
    /// The session or the server.
    Session,
    /// The whole keyspace: a transaction that has it is executed while all other workers are
    /// stopped.
    Keyspace,
    /// Keys that a script touches, which may be others than those that it declares.
    Script,
    /// None: it has subcommands only.
    Container,
}

/// Appends the positions of keys to those that specifications found.
pub type MoreKeys = fn(&ArgumentView<'_>, &mut KeyPositions);

/// Says what a command with these arguments does with its keys.
pub type KeyFlagsOf = fn(&ArgumentView<'_>) -> KeyFlags;

/// One command, declared once.
#[derive(Clone, Copy)]
pub struct Command {
    /// Lower-case name; a subcommand's is `container|name`.
    pub name: &'static str,
    /// Its effect, in one sentence.
    pub summary: &'static str,
    /// The version of Redis or Valkey that brought it.
    pub since: &'static str,
    /// Its complexity; empty where `COMMAND DOCS` tells none.
    pub complexity: &'static str,
    /// Its group.
    pub group: Group,
    /// Number of arguments with the name; at least that many when negative.
    pub arity: i32,
    /// Its flags.
    pub flags: Flags,
    /// Its ACL categories that do not follow from the flags.
    pub categories: Categories,
    /// Positions of its keys.
    pub keys: &'static [KeySpec],
    /// Finds keys that no specification can describe, for commands that have such.
    pub more_keys: Option<MoreKeys>,
    /// Access to its keys, for commands of which the arguments decide that.
    pub key_flags: Option<KeyFlagsOf>,
    /// Channels that it publishes or subscribes to.
    pub channels: Option<Channels>,
    /// Databases that it touches.
    pub databases: Databases,
    /// Its syntax.
    pub arguments: &'static [Argument],
    /// Hints for clients and proxies.
    pub tips: &'static [&'static str],
    /// Changes of its behaviour: version and what changed.
    pub history: &'static [(&'static str, &'static str)],
    /// Since when it is deprecated and what replaces it.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Its subcommands.
    pub subcommands: &'static [&'static Command],
    /// Data that it works on.
    pub scope: Scope,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Command").field(&self.name).finish()
    }
}

impl Command {
    /// A command without a name, of constant complexity and without anything else.
    pub const BASE: Command = Command {
        name: "",
        summary: "",
        since: "1.0.0",
        complexity: "O(1)",
        group: Group::Generic,
        arity: 1,
        flags: Flags::empty(),
        categories: Categories::empty(),
        keys: &[],
        more_keys: None,
        key_flags: None,
        channels: None,
        databases: Databases::Selected,
        arguments: &[],
        tips: &[],
        history: &[],
        deprecated: None,
        subcommands: &[],
        scope: Scope::Container,
    };

    /// A command that is none, for work that no client asked for.
    pub(crate) const BASE_REF: Command = Command { name: "internal", ..Command::BASE };

    /// True if `count` arguments, the name included, are as many as the command takes.
    #[must_use]
    pub fn takes(&self, count: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exact) => count == exact,
            Err(_) => count >= self.arity.unsigned_abs() as usize,
        }
    }

    /// True if the arguments may name more than one key.
    #[must_use]
    #[inline]
    pub fn may_have_several_keys(&self) -> bool {
        let is_one = |spec: &KeySpec| matches!(spec.find, Find::Range { last: 0, .. });
        self.more_keys.is_some() || self.keys.len() > 1 || !self.keys.iter().all(is_one)
    }

    /// Index of the first argument that names an element of a hash, a set or a sorted set, in a
    /// call without options.
    pub(super) fn element_argument(&self) -> Option<usize> {
        if !matches!(self.group, Group::Hash | Group::Set | Group::SortedSet) {
            return None;
        }
        let is_name = |argument: &Argument| matches!(argument.name, "field" | "member");
        position_of(self.arguments, is_name).ok().map(|index| index + 1)
    }

    /// True if a specification finds keys itself: one that only tells clients about them roughly is
    /// left to the finder.
    pub(super) fn follows(&self, spec: &KeySpec) -> bool {
        self.more_keys.is_none() || !spec.flags.contains(KeyFlags::VARIABLE_FLAGS)
    }

    /// The positions of all keys among the arguments, or `None` when the arguments do not fit.
    #[must_use]
    pub fn key_positions(&self, args: &ArgumentView<'_>) -> Option<KeyPositions> {
        let mut positions = KeyPositions::new();
        let mut specs = self.keys.iter().filter(|spec| self.follows(spec));
        if !specs.all(|spec| spec.positions(args, &mut positions)) {
            return None;
        }
        if let Some(more_keys) = self.more_keys {
            more_keys(args, &mut positions);
        }
        Some(positions)
    }
}
