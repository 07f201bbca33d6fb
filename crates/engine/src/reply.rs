//! Replies that leave by reference.

use bytes::Bytes;
use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::entry::SharedString;
use tidemill_store::{EntryRef, StringValue};

use crate::error::CommandError;
use crate::limits::COPIED_REPLY_BYTES_MAX;
use crate::memory;

struct Shared(SharedString);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.slice
    }
}

/// Answers the string of an entry: a short one copied, a long one by reference. Null when it is no
/// string.
///
/// # Errors
///
/// [`CommandError::NoMemory`] when it has to be copied and there is no memory for that.
#[inline(always)]
pub fn string(reply: &mut ReplyBuffer, entry: EntryRef<'_>) -> Result<(), CommandError> {
    match entry.string() {
        Some(StringValue::Plain(bytes)) if bytes.len() <= COPIED_REPLY_BYTES_MAX => {
            reply.bulk(bytes);
        }
        Some(value) => return long_string(reply, entry, value),
        None => reply.null(),
    }
    Ok(())
}

#[cold]
fn long_string(
    reply: &mut ReplyBuffer,
    entry: EntryRef<'_>,
    value: StringValue<'_>,
) -> Result<(), CommandError> {
    match entry.shared() {
        Some(shared) => reply.bulk_shared(Bytes::from_owner(Shared(shared))),
        None => owned(reply, memory::copy(value)?),
    }
    Ok(())
}

/// The string that a command answers and replaces. What has to be copied of it is copied before the
/// change, so that nothing is changed when there is no memory for the copy.
#[derive(Debug)]
pub(crate) enum FormerString<'g> {
    Kept(EntryRef<'g>),
    Copied(Vec<u8>),
}

impl<'g> FormerString<'g> {
    /// # Errors
    ///
    /// [`CommandError::NoMemory`].
    pub(crate) fn of(entry: EntryRef<'g>) -> Result<FormerString<'g>, CommandError> {
        match entry.string() {
            Some(value @ StringValue::Chunks(_)) => Ok(Self::Copied(memory::copy(value)?)),
            _ => Ok(Self::Kept(entry)),
        }
    }

    /// Answers it; null when it is no string.
    pub(crate) fn answer(self, reply: &mut ReplyBuffer) -> Result<(), CommandError> {
        match self {
            Self::Kept(entry) => string(reply, entry)?,
            Self::Copied(bytes) => owned(reply, bytes),
        }
        Ok(())
    }
}

/// Answers bytes that were made for the reply: short ones copied, long ones by reference.
pub fn owned(reply: &mut ReplyBuffer, bytes: Vec<u8>) {
    if bytes.len() <= COPIED_REPLY_BYTES_MAX {
        reply.bulk(bytes);
    } else {
        reply.bulk_shared(Bytes::from(bytes));
    }
}
