//! Brief reads: requests that need no more than the lookup of their keys.

use tidemill_resp::request::ArgumentView;

use super::batch::Request;
use super::executor::{Executor, Step};
use super::keyed;
use crate::access::section::Enter;
use crate::acl::BriefReads;
use crate::settings::Quiescent;
use crate::worker::called::Course;
use crate::worker::session::ReplyMode;

impl<E: Enter> Executor<'_, '_, E> {
    /// Brief reads of this client that need no more than their lookup: nothing about the client or
    /// its user, and nothing about the server, asks for a look at each command. Commands of others
    /// that change this are seen from the next batch on.
    #[inline]
    pub(super) fn reads_briefly(&self) -> BriefReads {
        if self.is_plain() { self.session.brief_reads } else { BriefReads::None }
    }

    /// True if nothing about the client but its user, and nothing about the server, asks for a look
    /// at each command.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        let session = &*self.session;
        let settings = &self.worker.settings;
        session.transaction.is_none()
            && session.reply_mode == ReplyMode::On
            && session.lock_attempts == 0
            && !session.is_monitor
            && !session.is_subscriber
            && !session.may_have_pushes
            && self.worker.reads_briefly
            && !self.shared.may_hold_back()
            && !self.shared.monitors.is_watched()
            && !self.times_each_alone()
            && settings.quiescent != Quiescent::Command
    }

    /// True if a request is one of the brief reads.
    #[inline]
    pub(super) fn is_brief(
        &self,
        request: &Request,
        view: &ArgumentView<'_>,
        reads: BriefReads,
    ) -> bool {
        request.course == Course::BriefRead
            && match reads {
                BriefReads::All => true,
                BriefReads::Some => self.is_allowed_brief_read(request, view),
                BriefReads::None => false,
            }
    }

    /// True if the session's user, whose own rules allow all databases, may send a read.
    #[inline(never)]
    fn is_allowed_brief_read(&self, request: &Request, view: &ArgumentView<'_>) -> bool {
        let Some(id) = request.id else { return false };
        let only_key = self.shared.commands.traits(id).only_key;
        let key = request.key.zip(only_key).map(|((at, _), flags)| (flags, view.get(at)));
        self.session.user().allows_brief_read(id, key)
    }

    /// Executes a brief read, which [`Executor::is_brief`] has told.
    #[inline]
    pub(super) fn read_briefly(
        &mut self,
        (index, before): (usize, usize),
        request: &Request,
        view: &ArgumentView<'_>,
    ) -> Step {
        let id = request.id.expect("a recognized request has a command");
        let (command, handler) = self.handlers.of_keyed(id);
        self.worker.run.request = index;
        let result = keyed::run(self, (command, handler), view, request.key);
        let step = self.settle(id, result, before);
        if !matches!(step, Step::Wait(_)) {
            self.worker.run.note(id);
            let reply_bytes = self.reply.len() - before;
            self.note_sizes(command, view, request.end - request.start, reply_bytes);
        }
        step
    }

    /// Notes the slots of brief reads, behind all of them: what they saw was numbered before.
    #[inline(never)]
    pub(super) fn note_reads(&mut self, requests: &[Request]) {
        let (need, records) = (&mut self.worker.reply_need, &self.shared.slot_records);
        for request in requests.iter().filter(|request| request.course == Course::BriefRead) {
            let reads_one = |id| self.shared.commands.traits(id).only_key.is_some();
            match request.key_hash() {
                Some(key_hash) if request.id.is_some_and(reads_one) => {
                    need.depend_on(key_hash.slot, records);
                }
                _ => need.depend_on_all(),
            }
        }
    }
}
