//! Connections of a worker whose replies wait for the append-only file.
//!
//! Knows connections and records only; the replies are with their connections, in
//! [`crate::held_replies`], and their memory is here while there are none.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tidemill_engine::commit::RecordNumber;
use tidemill_persist::append_only::AppendOnlyFile;
use tidemill_resp::encode::ReplyBuffer;

use crate::connection::Connection;
use crate::held_replies::SpareGroups;

/// Connections whose replies wait, by ascending records.
#[derive(Debug)]
pub(super) struct Holding {
    log: Arc<AppendOnlyFile>,
    /// True if replies have to wait, as of the last iteration.
    is_active: bool,
    /// By ascending need, and in the order in which they came.
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Number of those that have waited so far.
    waiting_count: u64,
    spare: SpareGroups,
}

/// A connection whose replies wait. It stays at its index until they are sent, or it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    need: RecordNumber,
    order: u64,
    pub(super) session: u64,
    pub(super) index: usize,
}

impl Holding {
    pub(super) fn new(log: Arc<AppendOnlyFile>) -> Holding {
        Holding {
            log,
            is_active: false,
            waiting: BinaryHeap::new(),
            waiting_count: 0,
            spare: SpareGroups::default(),
        }
    }

    /// Takes up whether there is a log. Inside of the gate, which it is closed for when that
    /// changes to yes.
    #[inline]
    pub(super) fn refresh(&mut self) {
        self.is_active = self.log.is_written();
    }

    /// True if there is a log, or there was and replies wait still.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.is_active || !self.waiting.is_empty()
    }

    /// The log that replies wait for.
    #[inline]
    pub(super) fn log(&self) -> &Arc<AppendOnlyFile> {
        &self.log
    }

    /// Keeps replies of a connection until a record is released; `reply` is empty afterwards.
    pub(super) fn hold(
        &mut self,
        need: RecordNumber,
        (index, connection): (usize, &mut Connection),
        reply: &mut ReplyBuffer,
    ) {
        connection.held.hold(need, reply, &mut self.spare);
        self.waiting_count += 1;
        let (order, session) = (self.waiting_count, connection.session.id());
        self.waiting.push(Reverse(Waiting { need, order, session, index }));
    }

    /// Memory for replies that will wait.
    pub(super) fn spare_mut(&mut self) -> &mut SpareGroups {
        &mut self.spare
    }

    /// The first record that replies wait for; 0 if none do.
    pub(super) fn first_need(&self) -> RecordNumber {
        self.waiting.peek().map_or(0, |Reverse(waiting)| waiting.need)
    }

    /// Takes a connection whose replies may leave.
    pub(super) fn take(&mut self, released: RecordNumber) -> Option<Waiting> {
        if self.waiting.peek().is_some_and(|Reverse(waiting)| waiting.need <= released) {
            self.waiting.pop().map(|Reverse(waiting)| waiting)
        } else {
            None
        }
    }
}
