//! State by which a connection's requests are executed.

use std::sync::Arc;

use tidemill_resp::encode::ReplyBuffer;

use super::registry::Handlers;
use crate::access::locks::Contender;
use crate::access::section::ReadSide;
use crate::shared::Shared;
use crate::slots::parking::{Ticket, WaitTarget};
use crate::worker::Worker;
use crate::worker::session::Session;

/// Result of one request.
pub(crate) enum Step {
    Done,
    Wait(WaitTarget),
    Blocked,
}

/// Everything that executing for one connection needs.
pub(crate) struct Executor<'k, 's, E> {
    pub(crate) shared: &'k Arc<Shared>,
    pub(crate) handlers: &'static Handlers,
    pub(crate) worker: &'s mut Worker,
    pub(crate) session: &'s mut Session,
    pub(crate) reader: &'s mut E,
    pub(crate) reply: &'s mut ReplyBuffer,
}

impl<'k, E> Executor<'k, '_, E> {
    /// The same with another target of replies.
    pub(crate) fn with_reply<'t>(&'t mut self, reply: &'t mut ReplyBuffer) -> Executor<'k, 't, E> {
        Executor {
            shared: self.shared,
            handlers: self.handlers,
            worker: &mut *self.worker,
            session: &mut *self.session,
            reader: &mut *self.reader,
            reply,
        }
    }

    /// Answers by what a buffer of its own was filled with, and goes on in its protocol: `HELLO`
    /// may have been among the commands.
    pub(crate) fn answer_with(&mut self, replies: &mut ReplyBuffer) {
        self.reply.set_protocol(replies.protocol());
        self.reply.append(replies);
    }

    /// Place of the session in a line.
    pub(crate) fn ticket(&self) -> Ticket {
        self.session.ticket(self.worker.index)
    }

    /// The session as one that locks slots with the token.
    pub(crate) fn contender(&self) -> Contender<'_>
    where
        E: ReadSide,
    {
        Contender::of(self.session, self.worker.index, self.reader.seat())
    }
}
