//! Going on with a reply that is made in pieces: see [`long_reply`](crate::long_reply).

use std::sync::atomic::Ordering;

use tidemill_resp::request::ArgumentView;

use super::executor::Executor;
use super::measure::request_bytes;
use super::turn_result::{Next, Turn};
use crate::access::section::ReadSide;
use crate::command::{Command, CommandId, Flags};
use crate::long_reply::Noted;
use crate::telemetry::command_log::{LogKind, shortened};
use crate::telemetry::shown_arguments;
use crate::worker::session::ReplyMode;

impl<E: ReadSide> Executor<'_, '_, E> {
    /// True if the client's replies may be made in pieces. `HOTKEYS` measures whole ones.
    pub(crate) fn takes_pieces(&self) -> bool {
        let is_pushed = self.session.is_subscriber || self.session.may_have_pushes;
        let is_limited = self.worker.limits_output || is_pushed || self.shared.hot_keys.is_on();
        !is_limited && self.session.reply_mode == ReplyMode::On
    }

    /// A command has answered the first piece of its reply, of `reply_bytes`: it counts and is
    /// shown now, and is measured when the reply is complete.
    #[cold]
    pub(crate) fn note_begun(
        &mut self,
        id: CommandId,
        command: &'static Command,
        args: &ArgumentView<'_>,
        reply_bytes: usize,
    ) {
        let elapsed_ns = self.worker.run.take_elapsed_ns(self.shared.clock.monotonic_ns());
        self.worker.stats(self.shared).commands_processed.add(1);
        self.session.client.commands.add(1);
        self.show(command, args);
        if let Some(rest) = &mut self.session.pending_reply {
            rest.noted = Some(Noted {
                id,
                arguments: shortened(shown_arguments(command, *args)),
                request_bytes: request_bytes(args) as u64,
                reply_bytes: reply_bytes as u64,
                elapsed_ns,
            });
        }
    }

    /// Makes the next piece of a reply if there is one left: that is the connection's turn.
    /// Requests behind it wait in `input`.
    #[cold]
    pub(crate) fn go_on(&mut self, input: &[u8]) -> Option<Turn> {
        let shared = self.shared;
        let mut rest = self.session.pending_reply.take()?;
        self.reader.seat().pass();
        self.worker.refresh_settings(shared);
        if self.session.client.is_killed() {
            return Some(Turn { consumed: input.len(), next: Next::Close });
        }
        let start_ns = shared.clock.monotonic_ns();
        self.worker.run.begin_turn(start_ns);
        let before = self.reply.len();
        rest.write_piece(self.reply, shared.keyspace.seed());
        if self.reply.has_failed() {
            self.reply.recover(before);
            self.session.lacked_memory = true;
            return Some(Turn { consumed: input.len(), next: Next::Close });
        }
        let end_ns = shared.clock.monotonic_ns();
        self.worker.run.begin(end_ns);
        if let Some(noted) = &mut rest.noted {
            noted.reply_bytes += (self.reply.len() - before) as u64;
            noted.elapsed_ns += end_ns.saturating_sub(start_ns);
        }
        // Relaxed: for others' information only. A client that is being answered is not idle.
        self.session.client.last_command_ms.store(self.worker.now_ms(), Ordering::Relaxed);
        let next = if !rest.is_complete() {
            self.session.pending_reply = Some(rest);
            Next::Turn
        } else {
            if let Some(noted) = rest.noted {
                self.note_complete(noted);
            }
            if input.is_empty() { Next::Input { wanted: 1 } } else { Next::Turn }
        };
        Some(Turn { consumed: 0, next })
    }

    /// Notes all about a command whose reply is complete.
    fn note_complete(&self, noted: Noted) {
        let Noted { id, arguments, request_bytes, reply_bytes, elapsed_ns } = noted;
        let command = self.shared.commands.command(id);
        let settings = &self.worker.settings;
        self.worker.stats(self.shared).command(id).ran(1, elapsed_ns, settings.latency_tracking);
        if elapsed_ns >= settings.latency_ns_min {
            self.note_latency(command.flags.contains(Flags::FAST), elapsed_ns);
        }
        let figures = [
            (LogKind::Slow, elapsed_ns / 1000),
            (LogKind::LargeRequest, request_bytes),
            (LogKind::LargeReply, reply_bytes),
        ];
        for (kind, value) in figures {
            if value >= settings.command_logs[kind as usize].value_min {
                self.log_shortened(kind, value, command, arguments.clone());
            }
        }
    }
}
