//! Requests and replies that there is no memory for: see [`memory`](crate::memory).

use tidemill_resp::request::ArgumentView;

use super::executor::{Executor, Step};
use super::measure::request_bytes;
use crate::access::section::Enter;
use crate::command::{Command, CommandId, Flags, Group, Scope};
use crate::error::{CommandError, NO_MEMORY_FOR_REPLY};
use crate::limits::{ARGUMENT_OVERHEAD_BYTES, LARGE_BYTES_MIN};
use crate::memory::Room;
use crate::worker::session::{ReplyMode, Transaction};

/// Bytes of the error in the place of a reply; no array's header is longer.
const PLACE_BYTES: usize = "-\r\n".len() + NO_MEMORY_FOR_REPLY.len();

/// Copies of an argument that commands of clients and of the server make at most, many of them in
/// tables of small blocks, which cannot fail one by one.
const REGISTERED_COPIES: u64 = 5;

/// True if a command may keep arguments elsewhere than in values: in tables of clients, users and
/// directives, as a wait for a key, or as the name of a consumer.
fn registers_arguments(command: &Command) -> bool {
    match command.scope {
        Scope::Keys => command.flags.contains(Flags::BLOCKING) || command.group == Group::Stream,
        // A script's arguments are its own to copy, and its source is compiled by `compile`.
        Scope::Script => false,
        Scope::Session | Scope::Keyspace | Scope::Container => true,
    }
}

impl<E: Enter> Executor<'_, '_, E> {
    /// Ok if there is memory for what a request may take beside itself: the copies of its
    /// arguments that are stored or queued, what is noted of each, and what monitors are shown.
    pub(crate) fn check_request_room(
        &self,
        id: Option<CommandId>,
        view: &ArgumentView<'_>,
    ) -> Result<(), CommandError> {
        let command = id.map(|id| self.shared.commands.command(id));
        let registers = command.is_some_and(registers_arguments);
        // A run that is suspended keeps its request.
        let is_script = command.is_some_and(|command| command.scope == Scope::Script);
        let copy_count = u64::from(self.session.transaction.is_some())
            + 4 * u64::from(self.shared.monitors.is_watched())
            + u64::from(is_script)
            + REGISTERED_COPIES * u64::from(registers);
        self.check_room(request_bytes(view), view.len(), copy_count)
    }

    /// Ok if there is memory for what a script's command with arguments of `bytes` bytes may take
    /// beside them.
    #[inline]
    pub(crate) fn check_call_room(
        &self,
        bytes: usize,
        argument_count: usize,
    ) -> Result<(), CommandError> {
        if (bytes as u64) < LARGE_BYTES_MIN {
            return Ok(());
        }
        let copy_count = 4 * u64::from(self.shared.monitors.is_watched());
        self.check_room(bytes, argument_count, copy_count)
    }

    /// Ok if there is memory for the arguments of a transaction's commands once more, which are
    /// stored.
    pub(crate) fn check_transaction_room(
        &self,
        transaction: &Transaction,
    ) -> Result<(), CommandError> {
        self.check_room(transaction.queued_bytes, 0, 0)
    }

    /// Ok if there is memory for `argument_count` arguments of together `bytes` bytes, which are
    /// stored, journaled, and copied for `copy_count` others.
    fn check_room(
        &self,
        bytes: usize,
        argument_count: usize,
        copy_count: u64,
    ) -> Result<(), CommandError> {
        let bytes = bytes as u64;
        let copy_count = copy_count + u64::from(self.shared.sinks.journal().is_some());
        let overhead = argument_count as u64 * ARGUMENT_OVERHEAD_BYTES;
        Room::of(self.shared).check(bytes + bytes / 4 + copy_count * bytes + overhead)
    }

    /// Answers an error in the place of a command, which is not looked at.
    #[cold]
    pub(crate) fn refuse(&mut self, id: Option<CommandId>, error: &CommandError) -> Step {
        self.session.abort_transaction();
        if let Some(id) = id {
            self.worker.stats(self.shared).command(id).rejected.add(1);
        }
        let (mode, mark) = (self.session.reply_mode, self.reply.mark());
        self.error(error);
        self.keep_silent(mode, mark);
        Step::Done
    }

    /// Takes back what a command had answered before it found no memory: the only error that comes
    /// in the middle of a reply. `before` is the length of the replies before the command.
    pub(crate) fn take_back(&mut self, error: &CommandError, before: usize) {
        if matches!(error, CommandError::NoMemory(_)) {
            self.reply.recover(before);
        }
    }

    /// Makes room for the header of a transaction's reply, and for an error in the place of each of
    /// its `count` replies.
    ///
    /// # Errors
    ///
    /// When there is no memory for that. Nothing may have been carried out yet, for nobody could
    /// tell.
    pub(crate) fn make_places(&mut self, count: usize) -> Result<(), CommandError> {
        let is_made = self.reply.try_reserve((1 + count) * PLACE_BYTES);
        if is_made { Ok(()) } else { Err(NO_MEMORY_FOR_REPLY.into()) }
    }

    /// Keeps room for an error in the place of each of `count` replies to come, after one that is
    /// for a command of a transaction; `before` is the length of the replies before it. It becomes
    /// an error if it found no memory, or left none.
    ///
    /// There is room for that error: it was kept from the reply before, or from
    /// [`make_places`](Self::make_places).
    pub(crate) fn keep_places(&mut self, before: usize, count: usize) {
        if self.reply.has_failed() || !self.reply.try_reserve(count * PLACE_BYTES) {
            self.reply.recover(before);
            // The client's wish for a reply is decided about the whole array.
            self.error(&NO_MEMORY_FOR_REPLY.into());
        }
    }

    /// Notes that a reply would be larger than the largest that is made, if that exceeds the limit
    /// of what clients are sent: Valkey ends a client once so much of a reply for it is made.
    /// Subscribers have another limit, which counts when something is sent.
    #[cold]
    pub(crate) fn note_too_large(&mut self) {
        let limit_bytes = self.worker.output_bytes_max;
        let largest_bytes = self.worker.settings.bulk_bytes_max as u64;
        self.session.exceeds_output_limit =
            !self.session.is_subscriber && limit_bytes > 0 && limit_bytes <= largest_bytes;
    }

    /// Puts an error in the place of a reply that found no memory; before it, the replies had so
    /// many bytes.
    #[cold]
    pub(crate) fn replace_failed_reply(&mut self, before: usize) {
        if !self.reply.has_failed() {
            return;
        }
        self.reply.recover(before);
        self.session.pending_reply = None;
        if self.session.reply_mode == ReplyMode::On {
            self.error(&NO_MEMORY_FOR_REPLY.into());
        }
    }
}
