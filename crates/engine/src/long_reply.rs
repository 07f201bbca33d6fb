//! Replies that are made in pieces, so that one client's million elements do not keep its
//! neighbours waiting.
//!
//! A command that reads many elements of a collection pins the version that it sees ([`Version`])
//! and answers the header and a first piece. The rest stays with the session: each further turn of
//! the connection makes one piece, behind which other connections have their turns and the client's
//! socket takes what is there. A client that takes its replies slowly is not given more: the reply
//! never lies in memory whole, and the session's next request waits until it is complete.
//!
//! The command takes effect when it pins: under its slot's lock, where the version is the present
//! one. All elements are of that version, whatever becomes of the key meanwhile. What `EXEC`
//! answers is made at once, and so is everything for clients that have a limit for unsent replies
//! (`client-output-buffer-limit`), which counts whole replies as Valkey's does, or that do not want
//! the reply. Others write into the output of a monitor only, which may not read keys.

use std::ops::Range;

use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::Version;
use tidemill_store::hash::Seed;

use crate::command::CommandId;
use crate::limits::{PIECE_BYTES, PIECE_ELEMENTS_MAX};

/// Elements of a collection that a reply consists of; each type has its own.
pub(crate) trait Elements: std::fmt::Debug + Send {
    /// Appends elements from position `positions.start` on until the piece is full, one at least;
    /// returns the number of positions that are done. `version` is of the type's collection, `seed`
    /// the keyspace's.
    fn write(
        &self,
        version: &Version,
        seed: &Seed,
        positions: Range<u64>,
        piece: &mut Piece<'_>,
    ) -> u64;
}

/// Piece of a reply that is being made.
pub(crate) struct Piece<'r> {
    pub(crate) reply: &'r mut ReplyBuffer,
    /// Length of the reply at which the piece is complete.
    full_bytes: usize,
}

impl Piece<'_> {
    pub(crate) fn is_full(&self) -> bool {
        self.reply.len() >= self.full_bytes
    }

    /// Appends elements until the piece is full; returns their number.
    pub(crate) fn bulks<'v>(&mut self, elements: impl Iterator<Item = &'v [u8]>) -> u64 {
        let mut count = 0;
        for element in elements {
            self.reply.bulk(element);
            count += 1;
            if self.is_full() {
                break;
            }
        }
        count
    }
}

/// Notes on the command for when its reply is complete.
#[derive(Debug)]
pub(crate) struct Noted {
    pub(crate) id: CommandId,
    /// As logs keep them.
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) request_bytes: u64,
    pub(crate) reply_bytes: u64,
    /// Nanoseconds that its pieces took.
    pub(crate) elapsed_ns: u64,
}

/// The rest of a reply.
#[derive(Debug)]
pub(crate) struct LongReply {
    version: Version,
    elements: Box<dyn Elements>,
    /// The positions of what is still to be answered.
    rest: Range<u64>,
    pub(crate) noted: Option<Noted>,
}

impl LongReply {
    pub(crate) fn new(
        version: Version,
        elements: impl Elements + 'static,
        range: Range<u64>,
    ) -> LongReply {
        LongReply { version, elements: Box::new(elements), rest: range, noted: None }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.rest.is_empty()
    }

    /// Appends the next piece: elements up to [`PIECE_BYTES`] and [`PIECE_ELEMENTS_MAX`], one at
    /// least. `seed` is the keyspace's.
    pub(crate) fn write_piece(&mut self, reply: &mut ReplyBuffer, seed: &Seed) {
        let full_bytes = reply.len() + PIECE_BYTES;
        let end = self.rest.end.min(self.rest.start + PIECE_ELEMENTS_MAX);
        let mut piece = Piece { reply, full_bytes };
        let positions = self.rest.start..end;
        self.rest.start += self.elements.write(&self.version, seed, positions, &mut piece);
    }
}
