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
    log: Option<Arc<AppendOnlyFile>>,
    waiting: VecDeque<(RecordNumber, u64)>,
}

impl Holding {
    pub(super) fn new(log: Option<Arc<AppendOnlyFile>>) -> Holding {
        Holding { log, waiting: VecDeque::new() }
    }

    /// The log that replies wait for, if there is one.
    #[inline]
    pub(super) fn log(&self) -> Option<&Arc<AppendOnlyFile>> {
        self.log.as_ref()
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
