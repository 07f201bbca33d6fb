//! Functions that execute commands.

use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;

/// Function that executes a command.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// Works on the keys of a command.
    Keyed(KeyedHandler),
    /// Works on the session, the server or the whole keyspace.
    Session(SessionHandler),
    /// Runs a script, which calls commands.
    Script(ScriptCommand),
}

/// Way in which a command names the script that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptName {
    /// By its source.
    Source,
    /// By the digest of its source.
    Digest,
    /// By the name of a function.
    Function,
}

/// A command that runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptCommand {
    /// Way in which it names the script.
    pub name: ScriptName,
    /// True if the script may not write.
    pub is_read_only: bool,
}

/// Handler of a command on keys.
pub type KeyedHandler = fn(&mut Cx<'_, '_>) -> Outcome;

/// Handler of a command on the session, the server or the whole keyspace.
pub type SessionHandler = fn(&mut SessionCx<'_, '_>) -> Outcome;
