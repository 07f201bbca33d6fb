//! Targets of blocking commands, and their answers without them.

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::request::ArgumentView;
use tidemill_store::hash::Seed;
use tidemill_store::{EntryRef, Kind};

use crate::command::KeyPositions;
use crate::commit::RecordNumber;

/// Records of the journal and of the append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// The last one that was numbered.
    pub last: RecordNumber,
    /// The last one that is durable.
    pub durable: RecordNumber,
}

/// Error of `WAITAOF` that asks for a log where there is none.
pub const NO_LOG: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// Reply to a client whose wait ends without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReply {
    /// A null array in RESP2.
    NullArray,
    /// A null bulk string in RESP2.
    Null,
    /// The number 0.
    Zero,
    /// Number of logs of this server in which a record is durable, and of replicas: 0.
    Durable {
        /// The record.
        record: RecordNumber,
        /// True if the client asked for this server's log.
        is_local_wanted: bool,
        /// True if it waits for nothing else.
        is_local_enough: bool,
    },
}

impl TimeoutReply {
    /// Record whose being durable ends the wait. One that none is enough for ends with the log: it
    /// waits for a record that never is.
    #[must_use]
    pub fn awaited_record(self) -> Option<RecordNumber> {
        match self {
            TimeoutReply::Durable { record, is_local_enough: true, .. } => Some(record),
            TimeoutReply::Durable { is_local_wanted: true, .. } => Some(RecordNumber::MAX),
            _ => None,
        }
    }

    /// Writes the reply; `durable` is the last record that is durable, none without a log.
    pub fn write(self, reply: &mut ReplyBuffer, durable: Option<RecordNumber>) {
        match self {
            TimeoutReply::NullArray => reply.null_array(),
            TimeoutReply::Null => reply.null(),
            TimeoutReply::Zero => reply.integer(0),
            TimeoutReply::Durable { is_local_wanted: true, .. } if durable.is_none() => {
                reply.error(NO_LOG);
            }
            TimeoutReply::Durable { record, .. } => {
                reply.array(2);
                reply.integer(i64::from(durable.is_some_and(|durable| durable >= record)));
                reply.integer(0);
            }
        }
    }
}

/// Tells whether a command with some arguments would answer something of a key, given the key's
/// entry: it is not served in vain then.
pub type Answers = fn(&ArgumentView<'_>, &[u8], Option<EntryRef<'_>>, &Seed) -> bool;

/// Keys that a handler waits for.
#[derive(Debug)]
pub struct Block {
    /// Positions of the keys that it waits for.
    pub keys: KeyPositions,
    /// Positions of further keys that it writes once it is served.
    pub also: KeyPositions,
    /// The kind that a key must have to be of use.
    pub kind: Kind,
    /// Test of whether the command would answer something of a key, where the kind does not tell.
    pub answers: Option<Answers>,
    /// True if it ends when a key is gone, too.
    pub ends_without_key: bool,
    /// Arguments that are others once it waits, by ascending position: those with the meaning that
    /// they had when it began.
    pub fixed_arguments: Vec<(usize, Vec<u8>)>,
    /// Time that it waits, in microseconds; 0 is for ever.
    pub timeout_us: u64,
    /// Its reply when that is over.
    pub on_timeout: TimeoutReply,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_the_log_ends_with_it_whatever_else_it_waits_for() {
        let reply = |is_local_wanted, is_local_enough| TimeoutReply::Durable {
            record: 5,
            is_local_wanted,
            is_local_enough,
        };
        assert_eq!(reply(true, true).awaited_record(), Some(5));
        assert_eq!(reply(true, false).awaited_record(), Some(RecordNumber::MAX));
        assert_eq!(reply(false, false).awaited_record(), None);
    }
}
