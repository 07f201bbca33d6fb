//! Connections of a worker whose replies wait for the append-only file.
//!
//! Knows sessions and records only; the replies are with their connections, in
//! [`crate::held_replies`].

use std::collections::VecDeque;
use std::sync::Arc;

use tidemill_engine::commit::RecordNumber;
use tidemill_persist::append_only::AppendOnlyFile;

/// Sessions whose replies wait, by ascending records.
#[derive(Debug)]
pub(super) struct Holding {
    log: Arc<AppendOnlyFile>,
    /// True if replies have to wait, as of the last iteration.
    is_active: bool,
    waiting: VecDeque<(RecordNumber, u64)>,
}

impl Holding {
    pub(super) fn new(log: Arc<AppendOnlyFile>) -> Holding {
        Holding { log, is_active: false, waiting: VecDeque::new() }
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

    /// Notes that replies of a session wait for a record.
    pub(super) fn push(&mut self, need: RecordNumber, session: u64) {
        self.waiting.push_back((need, session));
    }

    /// The first record that replies wait for; 0 if none do.
    pub(super) fn first_need(&self) -> RecordNumber {
        self.waiting.front().map_or(0, |&(need, _)| need)
    }

    /// Takes a session whose replies may leave.
    pub(super) fn take(&mut self, released: RecordNumber) -> Option<u64> {
        let (need, session) = *self.waiting.front()?;
        (need <= released).then(|| {
            self.waiting.pop_front();
            session
        })
    }
}
