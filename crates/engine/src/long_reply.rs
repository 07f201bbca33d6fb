//! Replies that are made in pieces, so that one client's million elements do not keep its neighbours waiting.
//!
//! A command that reads many elements of a collection pins the version that it sees ([`Version`]) and answers the header
//! and a first piece. The rest stays with the session: each further turn of the connection makes one piece, behind which
//! other connections have their turns and the client's socket takes what is there. Whoever takes its replies slowly is
//! not given more: the reply never lies in memory whole, and the session's next request waits until it is complete.
//!
//! The command takes effect when it pins: under its slot's lock, where the version is the present one. All elements are
//! of that version, whatever becomes of the key meanwhile. What `EXEC` answers is made at once, and so is everything for
//! clients that have a limit for unsent replies (`client-output-buffer-limit`), which counts whole replies as Valkey's
//! does, or that do not want the reply. Others write into the output of a monitor only, which may not read keys.

use std::ops::Range;

use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::Version;
use tidemill_store::hash::Seed;

use crate::command::{CommandId, Outcome, Stop};
use crate::context::{Access, Cx};
use crate::expiry::ExpiryClock;
use crate::limits::{LONG_REPLY_BYTES_MIN, PIECE_BYTES, PIECE_ELEMENTS_MAX};

/// What of a collection is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    /// The elements of a list.
    List,
    /// The elements of a list, positions counted from the back.
    ListBack,
    /// The fields of a hash that have not expired.
    Hash {
        with_fields: bool,
        with_values: bool,
        /// A field that has expired by it is not there.
        clock: ExpiryClock,
    },
}

/// What is noted of the command when its reply is complete.
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
    elements: Elements,
    /// The positions of what is still to be answered.
    rest: Range<u64>,
    pub(crate) noted: Option<Noted>,
}

impl LongReply {
    pub(crate) fn new(version: Version, elements: Elements, range: Range<u64>) -> LongReply {
        LongReply { version, elements, rest: range, noted: None }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.rest.is_empty()
    }

    /// Appends the next piece: elements up to [`PIECE_BYTES`] and [`PIECE_ELEMENTS_MAX`], one at least. `seed` is the
    /// keyspace's.
    pub(crate) fn write_piece(&mut self, reply: &mut ReplyBuffer, seed: &Seed) {
        let full = reply.len() + PIECE_BYTES;
        let end = self.rest.end.min(self.rest.start + PIECE_ELEMENTS_MAX);
        match self.elements {
            Elements::List => {
                let list = self.version.list().expect("a list was pinned");
                self.rest.start += write(list.range(self.rest.start, end), reply, full);
            }
            Elements::ListBack => {
                let list = self.version.list().expect("a list was pinned");
                let count = (end - self.rest.start) as usize;
                let elements = list.iter_back_from(list.len() - 1 - self.rest.start).take(count);
                self.rest.start += write(elements, reply, full);
            }
            Elements::Hash { with_fields, with_values, clock } => {
                let hash = self.version.hash(seed).expect("a hash was pinned");
                let count = (end - self.rest.start) as usize;
                for entry in hash.iter_from(self.rest.start).take(count) {
                    self.rest.start += 1;
                    if entry.expires_at_ms.is_some_and(|at_ms| clock.has_passed(at_ms)) {
                        continue;
                    }
                    if with_fields {
                        reply.bulk(entry.field);
                    }
                    if with_values {
                        reply.bulk(entry.value);
                    }
                    if reply.len() >= full {
                        break;
                    }
                }
            }
        }
    }
}

/// Appends elements until the reply has `full` bytes; tells how many.
fn write<'v>(
    elements: impl Iterator<Item = &'v [u8]>,
    reply: &mut ReplyBuffer,
    full: usize,
) -> u64 {
    let mut count = 0;
    for element in elements {
        reply.bulk(element);
        count += 1;
        if reply.len() >= full {
            break;
        }
    }
    count
}

/// Whether `count` of the `length` elements of a collection that takes `bytes` make a long reply.
fn is_long(count: u64, length: u64, bytes: u64) -> bool {
    let share = u128::from(bytes) * u128::from(count) / u128::from(length.max(1));
    count > PIECE_ELEMENTS_MAX || share > u128::from(LONG_REPLY_BYTES_MIN)
}

impl Cx<'_, '_> {
    /// The present version of the collection under `key`, when `count` of its `length` elements are to be answered in
    /// pieces; none when they are to be answered at once. Nothing must have been answered yet. `bytes` is what the
    /// collection takes.
    ///
    /// # Errors
    ///
    /// [`Stop::NeedLocks`] when the key's slot has to be locked for it: the handler runs again then.
    pub(crate) fn pin(
        &mut self,
        key: &[u8],
        count: u64,
        (length, bytes): (u64, u64),
    ) -> Result<Option<Version>, Box<Stop>> {
        if !is_long(count, length, bytes) {
            return Ok(None);
        }
        let key_hash = self.key_hash(key);
        let (database, section) = (self.database, self.section);
        let locks = match &mut self.access {
            Access::Locked(locks) => locks,
            Access::Optimistic(_) | Access::Found(_) => {
                // The same lookup comes again and counts then.
                let hits = &self.worker.stats(self.shared).keyspace_hits;
                hits.set(hits.value().wrapping_sub(1));
                return Err(Box::new(Stop::NeedLocks));
            }
        };
        if self.rest.is_none() {
            return Ok(None);
        }
        let lock = locks.lock(key_hash.slot).expect("the slots of all keys are locked");
        let found = lock.find(database, key_hash, key, section);
        Ok(found.and_then(|found| lock.pin(database, key_hash.hash, found)))
    }

    /// Answers the first piece of a reply whose header was answered, and leaves the rest to the session.
    pub(crate) fn answer_in_pieces(&mut self, mut reply: LongReply) -> Outcome {
        reply.write_piece(self.reply, self.shared.keyspace.seed());
        let place = self.rest.as_mut().expect("only whom it may be left to pins");
        if !reply.is_complete() {
            **place = Some(Box::new(reply));
        }
        Ok(())
    }
}
