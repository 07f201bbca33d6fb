//! Replies that leave by reference.

use bytes::Bytes;
use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::entry::SharedString;
use tidemill_store::{EntryRef, StringValue};

use crate::limits::COPIED_REPLY_BYTES_MAX;

struct Shared(SharedString);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.slice
    }
}

/// Answers the string of an entry: a short one copied, a long one by reference. Null when it is no string.
#[inline(always)]
pub fn string(reply: &mut ReplyBuffer, entry: EntryRef<'_>) {
    match entry.string() {
        Some(StringValue::Plain(bytes)) if bytes.len() <= COPIED_REPLY_BYTES_MAX => {
            reply.bulk(bytes);
        }
        Some(value) => long_string(reply, entry, value),
        None => reply.null(),
    }
}

#[cold]
fn long_string(reply: &mut ReplyBuffer, entry: EntryRef<'_>, value: StringValue<'_>) {
    match (entry.shared(), value) {
        (Some(shared), _) => reply.bulk_shared(Bytes::from_owner(Shared(shared))),
        (None, value) => owned(reply, to_bytes(value)),
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

/// A copy of a string's bytes.
#[must_use]
pub fn to_bytes(value: StringValue<'_>) -> Vec<u8> {
    match value {
        StringValue::Plain(bytes) => bytes.to_vec(),
        StringValue::Chunks(text) => {
            let mut bytes = Vec::with_capacity(text.len() as usize);
            text.copy_to(0..text.len(), &mut bytes);
            bytes
        }
    }
}
