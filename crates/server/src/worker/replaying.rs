//! Execution of a log's commands, by the first worker, a slice in each iteration.
//!
//! Clients that are served between two slices touch no key: data is being loaded. The worker judges
//! expiries by no clock while it executes a slice, and by the present time between them.

use std::ops::Range;
use std::sync::Arc;

use tidemill_engine::execute::{Batch, Requests, Turn, run_turn};
use tidemill_engine::shared::Shared;
use tidemill_engine::worker::Worker;
use tidemill_engine::worker::session::Session;
use tidemill_rcu::{Budget, Flavour};
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::RequestParser;
use tidemill_store::Member;

use super::EventLoop;
use crate::limits::{REPLAY_ERRORS_LOGGED, REPLAY_SLICE_US};
use crate::replay::{LogCommands, ReplayQueue, ReplayWork};
use crate::replay_errors::{ReplayError, errors};

/// Session of a log that is executed. Commands are gathered, so that keys are looked ahead as those
/// of a pipeline are.
struct ReplaySession {
    session: Session,
    batch: Batch,
    reply: ReplyBuffer,
}

/// Execution of a log's commands.
pub(super) struct Replaying {
    queue: Arc<ReplayQueue>,
    /// None between two logs.
    session: Option<ReplaySession>,
    /// Commands in hand.
    commands: LogCommands,
    /// Bytes of them that are executed.
    position: usize,
    /// Error replies to them.
    error_count: u64,
    /// Errors of this log that were named in the server's.
    logged_count: u64,
    /// True if the queue may have more, or commands are in hand.
    has_more: bool,
}

impl Replaying {
    pub(super) fn new(queue: Arc<ReplayQueue>) -> Replaying {
        Replaying {
            queue,
            session: None,
            commands: LogCommands::default(),
            position: 0,
            error_count: 0,
            logged_count: 0,
            has_more: false,
        }
    }

    /// True if the next iteration is to begin at once.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Takes up the next work, and executes a slice of it. Outside of the gate.
    fn advance<F: Flavour>(
        &mut self,
        shared: &Arc<Shared>,
        (worker, reader): (&mut Worker, &mut Member<F>),
    ) {
        if !self.is_executing() {
            let work = self.queue.take();
            self.has_more = work.is_some();
            match work {
                None => return,
                Some(ReplayWork::Commands(commands)) => {
                    self.commands = commands;
                    self.position = 0;
                }
                Some(ReplayWork::Discard) => {
                    self.session.iter_mut().for_each(|replay| replay.session.discard());
                    return self.queue.note_done(0);
                }
                Some(ReplayWork::End) => {
                    self.session = None;
                    self.has_more = false;
                    self.logged_count = 0;
                    return self.queue.note_done(0);
                }
            }
        }
        worker.begin_replay();
        self.execute(shared, (worker, reader));
        worker.end_replay(shared);
        if !self.is_executing() {
            self.commands = LogCommands::default();
            self.queue.note_done(std::mem::take(&mut self.error_count));
        }
    }

    /// True if the commands in hand are not executed to their end.
    fn is_executing(&self) -> bool {
        self.position < self.commands.bytes.len()
            || self.session.as_ref().is_some_and(|replay| replay.session.has_pending_script())
    }

    /// Executes commands in hand, all of them or for the time of a slice.
    fn execute<F: Flavour>(
        &mut self,
        shared: &Arc<Shared>,
        (worker, reader): (&mut Worker, &mut Member<F>),
    ) {
        // A log calls commands by their own names.
        if shared.commands.is_renamed() {
            worker.forget_heads();
        }
        self.execute_slice(shared, (worker, reader));
        if shared.commands.is_renamed() {
            worker.forget_heads();
        }
    }

    fn execute_slice<F: Flavour>(
        &mut self,
        shared: &Arc<Shared>,
        (worker, reader): (&mut Worker, &mut Member<F>),
    ) {
        let index = worker.index;
        let replay = self.session.get_or_insert_with(|| ReplaySession {
            session: Session::of_replay(shared.clients.unlisted(index), &shared.users),
            batch: Batch::default(),
            reply: ReplyBuffer::new(Protocol::Resp2),
        });
        let ReplaySession { session, batch, reply } = replay;
        let until_us = shared.clock.monotonic_us() + REPLAY_SLICE_US;
        while self.position < self.commands.bytes.len() || session.has_pending_script() {
            let errors_before = worker.stats(shared).error_replies.value();
            reader.seat().enter();
            worker.boundary(shared);
            let (requests, parser) = (Requests::Unparsed(batch), &mut RequestParser::new());
            let rest = &self.commands.bytes[self.position..];
            let Turn { consumed, .. } =
                run_turn(shared, worker, session, reader, requests, parser, rest, reply);
            let from = self.position;
            self.position += consumed;
            reader.seat().leave();
            let error_count = worker.stats(shared).error_replies.value() - errors_before;
            if session.is_broken {
                self.queue.fail(describe_broken(&self.commands, from));
            } else if error_count > 0 {
                self.error_count += error_count;
                let left = REPLAY_ERRORS_LOGGED.saturating_sub(self.logged_count);
                let range = from..self.position;
                self.logged_count += log_errors(&self.commands, range, &reply.to_vec(), left);
            }
            reply.clear();
            reader.quiescent();
            worker.heap.retired().reclaim(reader.domain(), Budget::UNLIMITED);
            // Without progress something is taken that others give back soon.
            if consumed == 0 || shared.clock.monotonic_us() >= until_us {
                return;
            }
        }
    }
}

/// Names commands that were answered by errors in the server's log, at most `left`; returns how
/// many.
#[cold]
fn log_errors(commands: &LogCommands, range: Range<usize>, replies: &[u8], left: u64) -> u64 {
    let (start, file) = (range.start, &commands.file);
    let found = errors(&commands.bytes[range], replies).into_iter().take(left as usize);
    let mut count = 0;
    for ReplayError { position, command, text } in found {
        let offset = commands.offset_of(start + position);
        log::warn!("Command '{command}' at offset {offset} of {file} was answered: {text}");
        count += 1;
    }
    count
}

/// Text for the operator when nothing is executed from a position on, because there is no command.
/// The reader has found one with the same parser: it is here for an error in either of them.
#[cold]
fn describe_broken(commands: &LogCommands, position: usize) -> String {
    let (offset, file) = (commands.offset_of(position), &commands.file);
    format!(
        "Bad file format reading the append only file {file} at or behind offset {offset}. Nothing \
         was changed: load it with the server that wrote it"
    )
}

impl<F: Flavour> EventLoop<F> {
    /// Executes a slice of a log that is loaded.
    #[cold]
    pub(super) fn replay(&mut self) {
        let EventLoop { spec, execution, replaying, .. } = self;
        if spec.index == 0 {
            replaying.advance(&spec.shared, execution.parts_mut());
        }
    }
}
