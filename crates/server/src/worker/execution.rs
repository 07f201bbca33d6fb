//! Execution side of a worker: the engine's state of the thread, its RCU reader, and the buffers in
//! which requests are parsed and replies are made.
//!
//! Calls the engine and frees retired memory. No socket, no poller, no other connection than the
//! one it is given.

use std::sync::Arc;

use tidemill_engine::access::section::ReadSide;
use tidemill_engine::execute::{self, Ahead, Batch, LookAhead, Requests, Turn};
use tidemill_engine::shared::Shared;
use tidemill_engine::telemetry::stats::WorkerStats;
use tidemill_engine::worker::Worker;
use tidemill_rcu::{Budget, Flavour, Span};
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::{LargeArgument, RequestParser};
use tidemill_store::Member;

use crate::connection::Connection;
use crate::limits::{
    FREED_BYTES_MAX, FREED_FRACTION, FREED_ITEMS_MAX, KEPT_REPLY_BYTES, RECLAIM_EARLY_BYTES,
    RECLAIM_MS, SWEEP_SOON_US, TICK_MS,
};

/// Execution side of a worker.
pub(super) struct Execution<F: Flavour> {
    reader: Member<F>,
    worker: Worker,
    /// Requests of the connection whose turn it is.
    batch: Batch,
    /// Replies of the connection whose turn it is; empty between two turns.
    reply: ReplyBuffer,
    /// True if one RCU section spans an iteration.
    spans_iteration: bool,
    next_sweep_us: u64,
    next_defrag_us: u64,
    /// Bytes of retired memory from which some is freed before the iteration ends.
    reclaim_from_bytes: usize,
}

impl<F: Flavour> Execution<F> {
    pub(super) fn new(reader: Member<F>, worker: Worker, spans_iteration: bool) -> Execution<F> {
        Execution {
            reader,
            worker,
            batch: Batch::default(),
            reply: ReplyBuffer::new(Protocol::Resp2),
            spans_iteration,
            next_sweep_us: 0,
            next_defrag_us: 0,
            reclaim_from_bytes: RECLAIM_EARLY_BYTES,
        }
    }

    /// The engine's state of this thread.
    #[inline]
    pub(super) fn worker(&self) -> &Worker {
        &self.worker
    }

    /// As [`worker`](Self::worker).
    #[inline]
    pub(super) fn worker_mut(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// The engine's state of this thread, and its membership.
    pub(super) fn parts_mut(&mut self) -> (&mut Worker, &mut Member<F>) {
        (&mut self.worker, &mut self.reader)
    }

    /// Counters of this worker.
    #[inline]
    pub(super) fn stats<'s>(&self, shared: &'s Shared) -> &'s WorkerStats {
        self.worker.stats(shared)
    }

    /// Replies of the turn that has just ended.
    #[inline]
    pub(super) fn reply_mut(&mut self) -> &mut ReplyBuffer {
        &mut self.reply
    }

    /// Takes up what was posted for receivers of this worker.
    #[inline]
    pub(super) fn begin_pushes(&mut self, shared: &Shared) {
        self.worker.receivers.begin_sending(&shared.lanes, self.worker.index);
    }

    /// Puts what was taken up into inboxes, as much as is to be sent together. Returns false if
    /// there is nothing to be sent.
    #[inline]
    pub(super) fn collect_pushes(&mut self, shared: &Shared) -> bool {
        self.worker.collect_pushes(shared)
    }

    /// Moves what a session is to be sent, beside its replies, into the reply buffer.
    pub(super) fn take_pushes(&mut self, session: u64) {
        self.worker.receivers.take_inbox(session, &mut self.reply);
    }

    /// Runs `wait`, which may block, while grace periods do not wait for this thread.
    #[inline]
    pub(super) fn offline<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        self.reader.offline(wait)
    }

    /// Enters the gate, and takes up the time, `now_us` by the monotonic clock, and the settings.
    /// Returns the section of the iteration if one spans it.
    #[inline]
    pub(super) fn begin_iteration(&mut self, shared: &Shared, now_us: u64) -> Option<Span> {
        let span = self.spans_iteration.then(|| self.reader.span());
        if self.reader.seat().enter() {
            self.worker.boundary(shared);
        } else {
            self.worker.boundary_at(shared, now_us * 1000);
        }
        span
    }

    /// Enters the gate once more within an iteration that has ended.
    pub(super) fn enter_gate(&mut self) {
        let seat = self.reader.seat().clone();
        self.reader.offline(|| seat.enter());
    }

    /// Leaves the gate again.
    pub(super) fn leave_gate(&mut self) {
        self.reader.seat().leave();
        self.reader.quiescent();
    }

    /// Leaves the gate, frees memory and announces a quiescent state.
    #[inline]
    pub(super) fn end_iteration(&mut self, span: Option<Span>) {
        self.reader.seat().leave();
        drop(span);
        self.reclaim();
        self.reader.quiescent();
    }

    /// Parses a gathered connection's request ahead, if that is one whole request.
    #[inline]
    pub(super) fn look_ahead(&self, parser: &RequestParser, ahead: &mut LookAhead, input: &[u8]) {
        ahead.look(&self.worker, parser, input);
    }

    /// Prefetches what requests that were parsed ahead will read, each from the beginning of a
    /// buffer.
    #[inline]
    pub(super) fn prefetch<'b>(
        &self,
        shared: &Shared,
        database: usize,
        ahead: impl Iterator<Item = (&'b mut LookAhead, &'b [u8])>,
    ) {
        execute::prefetch(shared, &self.reader, database, ahead);
    }

    /// Gives a connection its turn on `input`, which is in `ahead` if it was parsed ahead, and
    /// lacks the argument `large`. Replies are in the reply buffer afterwards.
    #[inline]
    pub(super) fn run_turn(
        &mut self,
        shared: &Arc<Shared>,
        connection: &mut Connection,
        (input, large): (&[u8], Option<LargeArgument<'_>>),
        ahead: Option<Ahead<'_>>,
    ) -> Turn {
        let Execution { reader, worker, batch, reply, .. } = self;
        let requests = match (ahead, large) {
            (Some(ahead), _) => Requests::Ahead(ahead),
            (None, Some(large)) => Requests::WithLarge(batch, large),
            (None, None) => Requests::Unparsed(batch),
        };
        reply.set_protocol(connection.protocol());
        let Connection { session, parser, output, .. } = connection;
        let turn =
            execute::run_turn(shared, worker, session, reader, requests, parser, input, reply);
        output.set_protocol(reply.protocol());
        // Before the replies leave.
        worker.post_changes(shared);
        turn
    }

    /// Does the engine's work between the commands of clients: deletes expired keys, serves
    /// postponed waiters, evicts keys while too much memory is in use.
    pub(super) fn between_commands(&mut self, shared: &Arc<Shared>) {
        let Execution { worker, reader, .. } = self;
        execute::run_orphans(shared, worker, reader);
        reader.section(&mut |section| {
            execute::delete_expired(shared, worker, section);
            execute::serve_postponed(shared, worker, section);
        });
        execute::relieve(shared, worker, reader);
        worker.post_changes(shared);
    }

    /// Sweeps for expired keys if it is time to.
    pub(super) fn sweep_if_due(&mut self, shared: &Shared, now_us: u64) {
        let Execution { worker, reader, .. } = self;
        if now_us >= self.next_sweep_us {
            let is_behind = execute::sweep(shared, worker, reader);
            worker.post_changes(shared);
            self.next_sweep_us = now_us + if is_behind { SWEEP_SOON_US } else { TICK_MS * 1000 };
        }
    }

    /// Defragments memory if it is time to. While there is nothing to do, it is looked at as often
    /// as the sweep runs, in the same iterations.
    pub(super) fn defragment_if_due(&mut self, shared: &Shared, now_us: u64) {
        if now_us >= self.next_defrag_us {
            let pause_us = execute::defragment(shared, &mut self.worker, &mut self.reader);
            let after = |pause_us| shared.clock.monotonic_us() + pause_us;
            self.next_defrag_us = pause_us.map_or(self.next_sweep_us, after);
        }
    }

    /// Ends a pause of the defragmentation, as its settings may have changed.
    pub(super) fn defragment_soon(&mut self) {
        self.next_defrag_us = 0;
    }

    /// Keeps what is remembered for client-side caching within its bound.
    pub(super) fn limit_tracked(&mut self, shared: &Shared) {
        execute::limit_tracked(shared, &mut self.worker);
    }

    /// Puts the next sweep off, and the look at the memory's fragmentation.
    #[cfg(test)]
    pub(super) fn postpone_sweep(&mut self, until_us: u64) {
        (self.next_sweep_us, self.next_defrag_us) = (until_us, until_us);
    }

    /// Latest end of the worker's next wait for events, in monotonic microseconds.
    #[inline]
    pub(super) fn look_again_us(&self, now_us: u64) -> u64 {
        if self.worker.evicts_soon() {
            return now_us;
        }
        let next_us = self.next_sweep_us.min(self.next_defrag_us);
        let mut until_us = next_us.clamp(now_us, now_us + TICK_MS * 1000);
        if !self.worker.heap.retired().is_empty() {
            until_us = until_us.min(now_us + RECLAIM_MS * 1000);
        }
        if let Some(at_us) = self.worker.deadlines.next_us() {
            until_us = until_us.min(at_us);
        }
        until_us
    }

    /// Frees retired memory between two connections when an iteration retires much. Writers get
    /// memory back that is still in the caches, instead of going through as much memory as one
    /// iteration can retire. Only where readers announce: elsewhere a grace period costs a barrier,
    /// and may wait for the section that spans the iteration.
    #[inline]
    pub(super) fn reclaim_early(&mut self) {
        let is_much = self.worker.heap.retired().retired_bytes() >= self.reclaim_from_bytes;
        if F::ANNOUNCES && is_much {
            // Between two connections nothing that was read is held.
            self.reader.quiescent();
            self.reclaim();
        }
    }

    fn reclaim(&mut self) {
        self.worker.heap.retire_unpinned(FREED_ITEMS_MAX);
        let retired = self.worker.heap.retired();
        // More when much has gathered, so that many small pieces come and go at the same rate
        // without holding back their writers.
        let items = FREED_ITEMS_MAX.max(retired.len() / FREED_FRACTION);
        retired.reclaim(self.reader.domain(), Budget { items, bytes: FREED_BYTES_MAX });
        // Memory that cannot be freed yet, because another worker takes its time, is not looked at
        // again until more has gathered.
        self.reclaim_from_bytes = retired.retired_bytes() + RECLAIM_EARLY_BYTES;
    }

    /// Gives back memory of the buffers beyond what is kept between connections.
    pub(super) fn shrink_buffers(&mut self) {
        self.batch.shrink();
        self.reply.shrink(KEPT_REPLY_BYTES);
        self.worker.receivers.shrink();
    }
}
