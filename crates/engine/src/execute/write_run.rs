//! Write runs: requests of a batch that follow each other and write to one key, carried out under
//! one lock and published once.
//!
//! A run is a unit like a single command: its number, its lock, its one publication. What readers
//! on other workers see is the key before or behind all of it. No reply leaves before that, so each
//! command still takes effect between its request and its reply.
//!
//! All commands of a run are of one batch: none is executed, and no boundary is passed, between
//! them. They are admitted together before the lock is taken, so a run is only begun where nothing
//! would look at a single one: events, waiters, watchers, clients that track, monitors, users with
//! rules, transactions. What counts commands counts each of them. A command that cannot be carried
//! out in a run ends it, and is executed by itself.

use tidemill_resp::encode::ReplyBuffer;

use super::batch::Batch;
use super::executor::Executor;
use super::unit::commit;
use crate::access::context::{Access, Caller};
use crate::access::key_hashes::KeyHashes;
use crate::access::locks::LockSet;
use crate::access::section::{Enter, OpenSection};
use crate::access::unit::Unit;
use crate::access::write_run::{DoneCall, DoneCalls, RunCall, RunCalls, WriteRun};
use crate::command::WriteRunFamily;
use crate::limits::{TURN_REPLY_BYTES_MAX, WRITE_RUN_BYTES_MAX, WRITE_RUN_COMMANDS_MAX};

/// End of a run, or of the search for one.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedRun {
    /// Index of the request behind it; that of its first request, if none was carried out.
    pub(super) end: usize,
    /// Index of the first request that may begin another run.
    pub(super) next: usize,
}

impl Batch {
    /// Index of the request behind a run that begins with the one at `first`.
    #[inline]
    fn end_of_run(&self, first: usize, input: &[u8]) -> usize {
        let begin = &self.requests[first];
        let key = self.view(first, input).get(1);
        let is_of_run = |&index: &usize| {
            let next = &self.requests[index];
            next.course == begin.course
                && next.key == begin.key
                && next.end - begin.start <= WRITE_RUN_BYTES_MAX
                && self.view(index, input).get(1) == key
        };
        let last = self.requests.len().min(first + WRITE_RUN_COMMANDS_MAX);
        first + 1 + (first + 1..last).take_while(is_of_run).count()
    }
}

impl<E: Enter> Executor<'_, '_, E> {
    /// Carries out the run that begins with the request at `first`, up to a command that is not for
    /// a run.
    #[inline(never)]
    pub(super) fn run_writes(
        &mut self,
        batch: &Batch,
        (first, family): (usize, WriteRunFamily),
        input: &[u8],
    ) -> EndedRun {
        let end = batch.end_of_run(first, input);
        if end - first < 2 {
            return EndedRun { end: first, next: end };
        }
        if !self.admits_runs() {
            return EndedRun { end: first, next: end };
        }
        self.prefetch_run(batch, (first, end), input);
        match self.carry_out(batch, (first, end, family), input) {
            // A value that is not for runs is not asked for each command.
            None | Some(0) => EndedRun { end: first, next: end },
            Some(done) => {
                let is_stopped = first + done < end;
                // The request that stopped it is executed by itself.
                EndedRun { end: first + done, next: first + done + usize::from(is_stopped) }
            }
        }
    }

    /// True if the turn ends behind a run that ended before the request at `end`.
    pub(super) fn ends_turn(&self, batch: &Batch, end: usize, input: &[u8]) -> bool {
        let is_full = self.reply.len() > TURN_REPLY_BYTES_MAX;
        if is_full {
            self.note_activity(&batch.requests[end - 1], batch.view(end - 1, input));
        }
        is_full
    }

    /// True if commands of this client may be carried out in runs as things are: each is admitted
    /// that a memory limit admits.
    fn admits_runs(&mut self) -> bool {
        let (shared, worker) = (self.shared, &*self.worker);
        let is_admitted = self.is_plain()
            && self.session.is_authenticated
            && self.session.is_unrestricted
            && !worker.is_restricted
            && !worker.must_reclaim()
            && worker.changes_quietly(shared)
            && shared.tracking.prefixes.count() == 0;
        is_admitted && (!worker.may_refuse_memory() || matches!(self.make_room(), Ok(None)))
    }

    /// Carries out as many of the requests of a run as can be, and returns their number; none if
    /// the slot is taken, or somebody waits for keys of it, watches or tracks them.
    fn carry_out(
        &mut self,
        batch: &Batch,
        (first, end, family): (usize, usize, WriteRunFamily),
        input: &[u8],
    ) -> Option<usize> {
        let shared = self.shared;
        let mut calls = RunCalls::new();
        for (index, request) in batch.requests[first..end].iter().enumerate() {
            let command = shared.commands.command(request.id?);
            calls.push(RunCall { command, args: batch.view(first + index, input) });
        }
        let request = &batch.requests[first];
        let (_, hash) = request.key?;
        let locks = LockSet::one(shared, hash.slot).ok()?;
        let mut unit = Unit::new(shared, self.worker, locks);
        let side = unit.lock(hash.slot).and_then(|lock| lock.side_if_any());
        if side.is_some_and(|side| !side.is_idle()) {
            return None;
        }
        let guard = self.reader.enter();
        let section = guard.section();
        let before = self.reply.len();
        let mut no_reply = ReplyBuffer::new(self.reply.protocol());
        let mut done = DoneCalls::new();
        let mut run = WriteRun::new(&calls, &mut done, self.reply);
        let call = &calls[0];
        let known = KeyHashes::One(call.args.get(1), hash);
        let mut cx = Caller::client(shared, self.worker, &mut no_reply, self.session).calls(
            (call.command, &call.args),
            section,
            Access::Locked(unit),
            known,
        );
        self.handlers.of_write_run(family)(&mut cx, &mut run);
        let mut unit = cx.into_unit();
        let database = self.session.database;
        for (RunCall { args, .. }, DoneCall { changes, journaled, .. }) in calls.iter().zip(&done) {
            if let Some((at, text)) = journaled
                && let Some(effects) = unit.effects()
            {
                let name = shared.commands.own_name(args.get(0)).map_or(args.get(0), str::as_bytes);
                let argument = |(index, given)| match index {
                    0 => name,
                    _ if index == *at => text,
                    _ => given,
                };
                effects.push(database, args.iter().enumerate().map(argument));
            }
            unit.set_changes(*changes);
            unit.end_command(shared, self.worker, database, args);
        }
        if let Some(effects) = unit.effects() {
            effects.record().set_divisible();
        }
        commit(shared, self.worker, unit, section);
        drop(guard);
        self.note_run(batch, first, &calls, (before, &done));
        // A reply that found no memory is the last one.
        let last_start = done.iter().nth_back(1).map_or(before, |done| done.reply_end);
        self.replace_failed_reply(last_start);
        Some(done.len())
    }

    /// Notes the commands of a run, each as if it had run by itself; before it, the replies had
    /// `before` bytes.
    fn note_run(
        &mut self,
        batch: &Batch,
        first: usize,
        calls: &[RunCall<'_>],
        (before, done): (usize, &[DoneCall]),
    ) {
        let mut reply_start = before;
        for (index, (call, done)) in (first..).zip(calls.iter().zip(done)) {
            let request = &batch.requests[index];
            let reply_bytes = done.reply_end - reply_start;
            if let Some(id) = request.id {
                self.worker.run.request = index;
                self.worker.run.note(id);
                self.note_sizes(id, &call.args, request.end - request.start, reply_bytes);
            }
            reply_start = done.reply_end;
        }
    }
}
