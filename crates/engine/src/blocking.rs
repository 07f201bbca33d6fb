//! Targets of blocking commands, and their answers without them.

use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::Kind;

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
}

impl TimeoutReply {
    /// Writes the reply.
    pub fn write(self, reply: &mut ReplyBuffer) {
        match self {
            TimeoutReply::NullArray => reply.null_array(),
            TimeoutReply::Null => reply.null(),
            TimeoutReply::Zero => reply.integer(0),
            TimeoutReply::TwoZeros => {
                reply.array(2);
                reply.integer(0);
                reply.integer(0);
            }
        }
    }
}

/// Keys that a handler waits for.
#[derive(Debug)]
pub struct Block {
    /// Positions of the keys that it waits for.
    pub keys: KeyPositions,
    /// Positions of further keys that it writes once it is served.
    pub also: KeyPositions,
    /// The kind that a key must have to be of use.
    pub kind: Kind,
    /// How long it waits, in microseconds; 0 is for ever.
    pub timeout_us: u64,
    /// Its reply when that is over.
    pub on_timeout: TimeoutReply,
}
