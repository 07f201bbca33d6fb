//! Progress of a walk over the keyspace that may have to wait in the midst of it.

use tidemill_resp::encode::ReplyBuffer;

use crate::error::CommandError;
use crate::memory;

/// Keys that a walk found, end to end: two allocations that may fail, whatever their count.
#[derive(Debug, Default)]
pub(crate) struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyList {
    /// Adds a key.
    pub(crate) fn push(&mut self, key: &[u8]) -> Result<(), CommandError> {
        memory::extend(&mut self.bytes, key)?;
        memory::push(&mut self.ends, self.bytes.len())
    }

    /// Answers all of them.
    pub(crate) fn answer(&self, reply: &mut ReplyBuffer) {
        reply.array(self.ends.len());
        let mut start = 0;
        for &end in &self.ends {
            reply.bulk(&self.bytes[start..end]);
            start = end;
        }
    }
}

/// Position that `KEYS` or `DBSIZE` has reached.
#[derive(Debug, Default)]
pub(crate) struct KeysWalk {
    /// The slot to go on from.
    pub(crate) next: usize,
    /// Keys of `KEYS`.
    pub(crate) found: KeyList,
    /// Number of keys, of `DBSIZE`.
    pub(crate) count: u64,
}
