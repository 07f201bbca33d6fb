//! Pinning of the versions that a command reads without locks: of the one that a reply in pieces is
//! made from, see [`long_reply`](crate::long_reply), and of those that were found under locks.

use tidemill_store::{Pin, Version};

use crate::access::context::{Access, Cx};
use crate::access::outcome::{Outcome, Stop};
use crate::limits::{LONG_REPLY_BYTES_MIN, PIECE_ELEMENTS_MAX};
use crate::long_reply::LongReply;

/// True if `count` of the `length` elements of a collection that takes `bytes` make a long reply.
fn is_long(count: u64, length: u64, bytes: u64) -> bool {
    let share = u128::from(bytes) * u128::from(count) / u128::from(length.max(1));
    count > PIECE_ELEMENTS_MAX || share > u128::from(LONG_REPLY_BYTES_MIN)
}

impl Cx<'_, '_> {
    /// The present version of the collection under `key`, when `count` of its `length` elements are
    /// to be answered in pieces; none when they are to be answered at once. Nothing must have been
    /// answered yet. `bytes` is what the collection takes.
    ///
    /// # Errors
    ///
    /// [`Stop::NeedLocks`] when the key's slot has to be locked for it: the handler runs again
    /// then.
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
            Access::Optimistic(_) | Access::Found(_) => return Err(Box::new(Stop::NeedLocks)),
        };
        if self.pending_reply.is_none() {
            return Ok(None);
        }
        let lock = locks.lock(key_hash.slot).expect("the slots of all keys are locked");
        let found = lock.find(database, key_hash, key, section);
        Ok(found.and_then(|found| lock.pin(database, key_hash.hash, found)))
    }

    /// Pins the current versions of all collections whose slots the command has locked.
    ///
    /// # Panics
    ///
    /// Without locks.
    pub(crate) fn pin_all(&mut self) -> Pin {
        self.access.unit().pin_all().expect("a command that pins has locked its keys")
    }

    /// Answers the first piece of a reply whose header was answered, and leaves the rest to the
    /// session.
    pub(crate) fn answer_in_pieces(&mut self, mut reply: LongReply) -> Outcome {
        reply.write_piece(self.reply, self.shared.keyspace.seed());
        let place = self.pending_reply.as_mut().expect("only whom it may be left to pins");
        if !reply.is_complete() {
            **place = Some(Box::new(reply));
        }
        Ok(())
    }
}
