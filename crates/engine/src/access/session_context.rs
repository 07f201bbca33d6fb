//! Context of a handler of the session, the server or the whole keyspace.

use std::sync::Arc;

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::request::ArgumentView;
use tidemill_store::gate::ClosedGate;

use super::section::ReadSide;
use super::unit::Unit;
use crate::command::Command;
use crate::shared::Shared;
use crate::worker::Worker;
use crate::worker::session::Session;

/// Context of a handler of the session, the server or the whole keyspace.
pub struct SessionCx<'k, 's> {
    /// The command's name and arguments.
    pub args: ArgumentView<'s>,
    /// Target of the reply.
    pub reply: &'s mut ReplyBuffer,
    /// The worker that runs the command.
    pub worker: &'s mut Worker,
    /// The client's session.
    pub session: &'s mut Session,
    /// The server.
    pub shared: &'k Arc<Shared>,
    /// Opens read sections.
    pub reader: &'s mut dyn ReadSide,
    /// The command.
    pub command: &'static Command,
    /// True if it runs in `EXEC`.
    pub in_transaction: bool,
    /// The closed gate, when all other workers are stopped for the transaction at hand.
    pub alone: Option<&'s ClosedGate<'s>>,
    /// The unit that the command is a part of; none for one that is a unit by itself.
    pub unit: Option<&'s mut Unit<'k>>,
}

impl std::fmt::Debug for SessionCx<'_, '_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SessionCx").field("command", &self.command).finish_non_exhaustive()
    }
}

impl<'s> SessionCx<'_, 's> {
    /// The argument at `index`; 0 is the command's name.
    ///
    /// # Panics
    ///
    /// When there is no such argument; the arity is checked before a handler runs.
    #[must_use]
    pub fn arg(&self, index: usize) -> &'s [u8] {
        self.args.get(index)
    }
}
