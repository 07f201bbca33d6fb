//! The declaration of a command.

use bitflags::bitflags;
use tidemill_resp::request::ArgumentView;

use super::arguments::Argument;
use super::keys::{Find, KeyFlags, KeyPositions, KeySpec};
use crate::blocking::Block;
use crate::context::{Cx, SessionCx};
use crate::error::CommandError;
use crate::parking::Place;

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
        /// May replicate without being a write.
        const MAY_REPLICATE = 1 << 17;
        /// Makes several changes although it names one key. Not shown to clients.
        const SEVERAL_CHANGES = 1 << 18;
        /// Reads keys that its arguments do not name. Not shown to clients.
        const MEETS_KEYS = 1 << 19;
    }
}

bitflags! {
    /// ACL categories that do not follow from the flags.
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
    }
}

/// The group that `COMMAND DOCS` files a command under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `bitmap`
    Bitmap,
    /// `connection`
    Connection,
    /// `generic`
    Generic,
    /// `hash`
    Hash,
    /// `list`
    List,
    /// `server`
    Server,
    /// `string`
    String,
    /// `transactions`
    Transactions,
}

/// What runs a command.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Works on its keys. Its flags and keys decide how it is run: without a lock, under one, or under several.
    Keyed(fn(&mut Cx<'_, '_>) -> Outcome),
    /// Works on the session, the server or the whole keyspace.
    Session(fn(&mut SessionCx<'_, '_>) -> Outcome),
    /// Works on the whole keyspace; inside `EXEC` the transaction runs with all other workers stopped.
    Whole(fn(&mut SessionCx<'_, '_>) -> Outcome),
    /// Has subcommands only.
    Container,
}

/// How a handler ends: it has replied, or it stops for a reason.
pub type Outcome = Result<(), Box<Stop>>;

/// Appends the positions of keys to those that specifications found.
pub type MoreKeys = fn(&ArgumentView<'_>, &mut KeyPositions);

/// Says what a command with these arguments does with its keys.
pub type KeyFlagsOf = fn(&ArgumentView<'_>) -> KeyFlags;

/// Why a handler stops without a reply.
#[derive(Debug)]
pub enum Stop {
    /// It failed; the error is the reply.
    Error(CommandError),
    /// It has to wait for its keys to be written.
    Block(Block),
    /// It waits for its keys to be written, and is registered with them.
    Blocked,
    /// Something that it needs is taken. The whole command runs again once it is free; nothing was changed yet.
    Wait(Place),
    /// It needs the slots of all its keys locked, not just read.
    NeedLocks,
    /// What it read without locks does not count, and it is not to go on trying.
    Disturbed,
}

impl Stop {
    /// Why a command stops for which something is taken.
    #[cold]
    pub(crate) fn wait(place: Place) -> Box<Stop> {
        Box::new(Stop::Wait(place))
    }

    /// Whether the whole command runs again: nothing that it did counts.
    pub(crate) fn is_repeated(&self) -> bool {
        matches!(self, Stop::Wait(_) | Stop::NeedLocks)
    }

    /// Takes out what a command waits for and leaves [`Stop::Blocked`], if that is why it stops.
    pub(crate) fn take_block(&mut self) -> Option<Block> {
        match std::mem::replace(self, Stop::Blocked) {
            Stop::Block(block) => Some(block),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl From<CommandError> for Box<Stop> {
    #[cold]
    fn from(error: CommandError) -> Box<Stop> {
        Box::new(Stop::Error(error))
    }
}

impl From<&'static str> for Box<Stop> {
    #[cold]
    fn from(text: &'static str) -> Box<Stop> {
        CommandError::from(text).into()
    }
}

/// One command, declared once.
#[derive(Clone, Copy)]
pub struct Command {
    /// Lower-case name; a subcommand's is `container|name`.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The version of Redis or Valkey that brought it.
    pub since: &'static str,
    /// Its complexity.
    pub complexity: &'static str,
    /// Its group.
    pub group: Group,
    /// Number of arguments with the name; at least that many when negative.
    pub arity: i32,
    /// Its flags.
    pub flags: Flags,
    /// Its ACL categories that do not follow from the flags.
    pub categories: Categories,
    /// Where its keys are.
    pub keys: &'static [KeySpec],
    /// Finds keys that no specification can describe, for commands that have such.
    pub more_keys: Option<MoreKeys>,
    /// What it does with its keys, for commands of which the arguments decide that.
    pub key_flags: Option<KeyFlagsOf>,
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
    /// What runs it.
    pub handler: Handler,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Command").field(&self.name).finish()
    }
}

impl Command {
    /// The fields that most commands leave empty; a declaration fills in the rest.
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
        arguments: &[],
        tips: &[],
        history: &[],
        deprecated: None,
        subcommands: &[],
        handler: Handler::Container,
    };

    /// A command that is none, for work that no client asked for.
    pub(crate) const BASE_REF: Command = Command { name: "internal", ..Command::BASE };

    /// Whether `count` arguments, the name included, are as many as the command takes.
    #[must_use]
    pub fn takes(&self, count: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exact) => count == exact,
            Err(_) => count >= self.arity.unsigned_abs() as usize,
        }
    }

    /// Whether the arguments may name more than one key.
    #[must_use]
    #[inline]
    pub fn may_have_several_keys(&self) -> bool {
        let is_one = |spec: &KeySpec| matches!(spec.find, Find::Range { last: 0, .. });
        self.more_keys.is_some() || self.keys.len() > 1 || !self.keys.iter().all(is_one)
    }

    /// The positions of all keys among the arguments, or `None` when the arguments do not fit.
    #[must_use]
    pub fn key_positions(&self, args: &ArgumentView<'_>) -> Option<KeyPositions> {
        let mut positions = KeyPositions::new();
        if !self.keys.iter().all(|spec| spec.positions(args, &mut positions)) {
            return None;
        }
        if let Some(more_keys) = self.more_keys {
            more_keys(args, &mut positions);
        }
        Some(positions)
    }
}
