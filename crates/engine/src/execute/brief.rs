//! Brief requests: reads that need no more than the lookup of their keys, and writes that need no
//! more than their locks.

use tidemill_resp::request::ArgumentView;
use tidemill_store::{EntryRef, EntrySpec, Kind, NewValue, OwnedEntry, StringValue};

use super::batch::Request;
use super::executor::{Executor, Step};
use super::keyed;
use crate::access::section::{Enter, OpenSection};
use crate::acl::BriefReads;
use crate::command::{CommandId, Flags};
use crate::commit::Event;
use crate::handlers::string::{SET_EVENT, encoding_of};
use crate::limits::COPIED_REPLY_BYTES_MAX;
use crate::settings::Quiescent;
use crate::shared::Shared;
use crate::worker::Worker;
use crate::worker::called::Course;
use crate::worker::session::ReplyMode;

/// Brief requests that a client may have executed as things are.
#[derive(Clone, Copy, Debug)]
pub(super) struct BriefAccess {
    pub(super) reads: BriefReads,
    pub(super) writes: bool,
}

impl<E: Enter> Executor<'_, '_, E> {
    /// Brief requests of this client that nothing asks for a look at: nothing about the client or
    /// its user, and nothing about the server. Commands of others that change this are seen from
    /// the next batch on.
    #[inline]
    pub(super) fn brief_access(&self) -> BriefAccess {
        if !self.is_plain() {
            return BriefAccess { reads: BriefReads::None, writes: false };
        }
        let session = &*self.session;
        let writes = session.is_authenticated && session.is_unrestricted;
        BriefAccess { reads: session.brief_reads, writes: writes && !self.worker.is_restricted }
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
    pub(super) fn is_brief_read(
        &self,
        request: &Request,
        view: &ArgumentView<'_>,
        reads: BriefReads,
    ) -> bool {
        request.course.is_brief_read()
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

    /// Executes a brief read, which [`Executor::is_brief_read`] has told.
    #[inline]
    pub(super) fn read_briefly(
        &mut self,
        (index, before): (usize, usize),
        request: &Request,
        view: &ArgumentView<'_>,
    ) -> Step {
        let id = request.id.expect("a recognized request has a command");
        self.worker.run.request = index;
        let step = if request.course == Course::Get && self.get_plainly(request, view) {
            Step::Done
        } else {
            let (command, handler) = self.handlers.of_keyed(id);
            let result = keyed::run(self, (command, handler), view, request.key);
            self.settle(id, result, before)
        };
        if !matches!(step, Step::Wait(_)) {
            self.note_brief(id, request, view, before);
        }
        step
    }

    /// Notes a brief request that ran, behind replies of `before` bytes.
    #[inline(always)]
    fn note_brief(
        &mut self,
        id: CommandId,
        request: &Request,
        view: &ArgumentView<'_>,
        before: usize,
    ) {
        self.worker.run.note(id);
        let reply_bytes = self.reply.len() - before;
        self.note_sizes(id, view, request.end - request.start, reply_bytes);
    }

    /// Executes a `GET` as nearly all are: of no key, or of a short string that is one piece of
    /// memory and has not expired. False, with nothing done, of any other and when the lookup does
    /// not count: the handler answers that.
    ///
    /// It does what the handler does, without the context that lets a handler do anything else.
    #[inline(always)]
    fn get_plainly(&mut self, request: &Request, view: &ArgumentView<'_>) -> bool {
        let Some((index, hash)) = request.key else { return false };
        let (shared, worker) = (self.shared, &mut *self.worker);
        let word = shared.keyspace.word(hash.slot);
        let guard = self.reader.enter();
        let before = word.load();
        let database = self.session.database;
        let found = shared.keyspace.find(database, hash, view.get(index), guard.section());
        let Some(entry) = found else {
            let counts = before.confirms_miss(word.load_after());
            if counts {
                worker.count_lookup(false);
                self.reply.null();
            }
            return counts;
        };
        let bytes = if let Some(bytes) = entry.simple_string() {
            bytes
        } else {
            let is_expired = |at_ms| worker.expiry_clock(shared).has_passed(at_ms);
            match entry.string() {
                Some(StringValue::Plain(bytes))
                    if bytes.len() <= COPIED_REPLY_BYTES_MAX
                        && !entry.expires_at_ms().is_some_and(is_expired) =>
                {
                    bytes
                }
                _ => return false,
            }
        };
        if !before.confirms_hit(word.load_after()) {
            return false;
        }
        // A string in one piece never changes: it may be read behind the moment that counts.
        self.reply.bulk(bytes);
        worker.count_lookup(true);
        if !self.session.no_touch {
            worker.note_use(entry);
        }
        true
    }

    /// True if a request is a brief write that may run as things are. Nothing may be written once
    /// somebody has been told that writes are held back, so that is asked for each.
    #[inline]
    pub(super) fn is_brief_write(&mut self, request: &Request, writes: bool) -> bool {
        let Some(id) = request.id.filter(|_| writes && request.course.is_brief_write()) else {
            return false;
        };
        let worker = &*self.worker;
        !self.shared.may_hold_back()
            && !worker.must_reclaim()
            && (!worker.may_refuse_memory()
                || !self.shared.commands.command(id).flags.contains(Flags::DENYOOM)
                || matches!(self.make_room(), Ok(None)))
    }

    /// Executes a brief write, which [`Executor::is_brief_write`] has told, behind replies of
    /// `before` bytes; true if the turn ends with it.
    #[inline]
    pub(super) fn write_briefly(
        &mut self,
        (index, before): (usize, usize),
        request: &Request,
        view: &ArgumentView<'_>,
    ) -> (Step, bool) {
        let id = request.id.expect("a recognized request has a command");
        self.worker.run.request = index;
        let step = if request.course == Course::Set && self.set_plainly(request, view) {
            Step::Done
        } else {
            let (command, handler) = self.handlers.of_keyed(id);
            let result = keyed::run_write(self, (command, handler), view, request.key);
            self.settle(id, result, before)
        };
        if !matches!(step, Step::Wait(_)) {
            self.note_brief(id, request, view, before);
        }
        let is_full = self.is_turn_used_up(false);
        if is_full {
            self.replace_failed_reply(before);
        }
        (step, is_full)
    }

    /// Executes a `SET` without options as nearly all are: nobody watches, tracks or awaits keys of
    /// the slot, no change is journaled, and the key is new or never expires. False, with nothing
    /// done, of any other and when the slot is taken: the handler sees to that.
    ///
    /// It does what the handler does in a unit, under the slot's lock and without the unit.
    #[inline(always)]
    fn set_plainly(&mut self, request: &Request, view: &ArgumentView<'_>) -> bool {
        let Some((index, hash)) = request.key else { return false };
        let (shared, worker) = (self.shared, &mut *self.worker);
        let sinks = &shared.sinks;
        if sinks.journal().is_some() || sinks.events().is_some() || worker.counts_uses() {
            return false;
        }
        let Some(mut lock) = shared.keyspace.try_lock(hash.slot) else { return false };
        if lock.side_if_any().is_some_and(|side| !side.is_idle()) {
            return false;
        }
        let guard = self.reader.enter();
        let (key, value) = (view.get(index), view.get(index + 1));
        let mut is_new = false;
        let build = |former: Option<EntryRef<'_>>| {
            is_new = former.is_none();
            let expires = former.is_some_and(|former| former.expires_at_ms().is_some());
            (!expires).then(|| {
                let spec = EntrySpec {
                    key,
                    kind: Kind::String,
                    encoding: encoding_of(key, value, false),
                    expires_at_ms: None,
                    recency: worker.written_recency(former),
                    value: NewValue::String(value),
                };
                OwnedEntry::new(spec, &worker.heap)
            })
        };
        let database = self.session.database;
        if !lock.put_with(database, (hash, key), guard.section(), &worker.heap, build) {
            return false;
        }
        worker.stats(shared).changes.add(1);
        // Under the lock, as `Prefixes::count` demands.
        if shared.tracking.prefixes.count() > 0 {
            worker.gather_change(key, true);
        }
        if !worker.settings.published_events.is_empty() && shared.pubsub.has_listeners() {
            tell_set(shared, worker, (database, key), is_new);
        }
        self.reply.ok();
        true
    }

    /// Notes the slots of brief reads, behind all of them: what they saw was numbered before.
    #[inline(never)]
    pub(super) fn note_reads(&mut self, requests: &[Request]) {
        let (need, records) = (&mut self.worker.reply_need, &self.shared.slot_records);
        for request in requests.iter().filter(|request| request.course.is_brief_read()) {
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

/// Tells of a key that was set, first of one that was not there before. Its slot is locked.
#[cold]
fn tell_set(shared: &Shared, worker: &Worker, (database, key): (usize, &[u8]), is_new: bool) {
    if is_new {
        worker.tell_event(shared, database, key, Event::NEW_KEY);
    }
    worker.tell_event(shared, database, key, SET_EVENT);
}
