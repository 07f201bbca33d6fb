//! Caller of a command on keys: in whose name it runs.

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::request::ArgumentView;
use tidemill_store::Section;

use super::cx::{Access, Cx};
use crate::access::key_hashes::KeyHashes;
use crate::command::Command;
use crate::long_reply::LongReply;
use crate::shared::Shared;
use crate::slots::waiter::Waiter;
use crate::worker::Worker;
use crate::worker::session::Session;

/// Caller of a command on keys. The only way to a [`Cx`].
#[derive(Debug)]
pub(crate) struct Caller<'k, 'g> {
    shared: &'k Shared,
    worker: &'g mut Worker,
    reply: &'g mut ReplyBuffer,
    /// Database that the command works on.
    database: usize,
    /// Keys that it looks at count as used.
    touch: bool,
    may_discover_keys: bool,
    may_wait: bool,
    may_release: bool,
    pending_reply: Option<&'g mut Option<Box<LongReply>>>,
    ready_key: Option<&'g [u8]>,
}

impl<'k: 'g, 'g> Caller<'k, 'g> {
    /// The server itself: nothing that it reads is used.
    #[inline(always)]
    pub(crate) fn server(
        shared: &'k Shared,
        worker: &'g mut Worker,
        reply: &'g mut ReplyBuffer,
        database: usize,
    ) -> Caller<'k, 'g> {
        Caller {
            shared,
            worker,
            reply,
            database,
            touch: false,
            may_discover_keys: true,
            may_wait: false,
            may_release: false,
            pending_reply: None,
            ready_key: None,
        }
    }

    /// A client, by its session. It waits for nothing, and takes its reply in one piece.
    #[inline(always)]
    pub(crate) fn client(
        shared: &'k Shared,
        worker: &'g mut Worker,
        reply: &'g mut ReplyBuffer,
        session: &Session,
    ) -> Caller<'k, 'g> {
        let server = Caller::server(shared, worker, reply, session.database);
        let may_discover_keys = session.may_discover_keys;
        Caller { touch: !session.no_touch, may_discover_keys, ..server }
    }

    /// A blocked client, whose session another worker may have, when `key` became ready.
    pub(crate) fn blocked_client(
        shared: &'k Shared,
        worker: &'g mut Worker,
        reply: &'g mut ReplyBuffer,
        waiter: &Waiter,
        key: &'g [u8],
    ) -> Caller<'k, 'g> {
        let server = Caller::server(shared, worker, reply, waiter.database);
        Caller { touch: waiter.touches, ready_key: Some(key), ..server }
    }

    /// Lets it wait for its keys or not.
    #[inline(always)]
    pub(crate) fn may_wait(self, may_wait: bool) -> Caller<'k, 'g> {
        Caller { may_wait, ..self }
    }

    /// Lets it stop to run again without its locks, or not.
    #[inline(always)]
    pub(crate) fn may_release(self, may_release: bool) -> Caller<'k, 'g> {
        Caller { may_release, ..self }
    }

    /// Lets it take its reply in pieces, of which those to come are left here.
    #[inline(always)]
    pub(crate) fn takes_pieces(
        self,
        pending_reply: Option<&'g mut Option<Box<LongReply>>>,
    ) -> Caller<'k, 'g> {
        Caller { pending_reply, ..self }
    }

    /// Context of a command that it calls.
    #[inline(always)]
    pub(crate) fn calls(
        self,
        (command, args): (&'static Command, &'g ArgumentView<'g>),
        section: Section<'g>,
        access: Access<'k, 'g>,
        known: KeyHashes<'g>,
    ) -> Cx<'k, 'g> {
        Cx {
            args,
            reply: self.reply,
            worker: self.worker,
            shared: self.shared,
            database: self.database,
            section,
            access,
            known,
            touch: self.touch,
            may_discover_keys: self.may_discover_keys,
            may_block: self.may_wait,
            may_release: self.may_release,
            pending_reply: self.pending_reply,
            ready_key: self.ready_key,
            command,
        }
    }
}
