//! Targets of blocking commands, and their answers without them.

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::request::ArgumentView;
use tidemill_store::hash::Seed;
use tidemill_store::{EntryRef, Kind};

use crate::command::KeyPositions;

/// Reply to a client whose wait ends without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReply {
    /// A null array in RESP2.
    NullArray,
    /// A null bulk string in RESP2.
    Null,
    /// The number 0.
    Zero,
    /// Twice the number 0.
    TwoZeros,
    /// The numbers 1 and 0.
    OneAndZero,
}

impl TimeoutReply {
    /// Writes the reply.
    pub fn write(self, reply: &mut ReplyBuffer) {
        match self {
            TimeoutReply::NullArray => reply.null_array(),
            TimeoutReply::Null => reply.null(),
            TimeoutReply::Zero => reply.integer(0),
            TimeoutReply::TwoZeros | TimeoutReply::OneAndZero => {
                reply.array(2);
                reply.integer(i64::from(self == TimeoutReply::OneAndZero));
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
    /// Arguments that are others once it waits, by ascending position: those with the meaning that
    /// they had when it began.
    pub fixed_arguments: Vec<(usize, Vec<u8>)>,
    /// How long it waits, in microseconds; 0 is for ever.
    pub timeout_us: u64,
    /// Its reply when that is over.
    pub on_timeout: TimeoutReply,
}
