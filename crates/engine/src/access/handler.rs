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
}

/// Handler of a command on keys.
pub type KeyedHandler = fn(&mut Cx<'_, '_>) -> Outcome;

/// Handler of a command on the session, the server or the whole keyspace.
pub type SessionHandler = fn(&mut SessionCx<'_, '_>) -> Outcome;
