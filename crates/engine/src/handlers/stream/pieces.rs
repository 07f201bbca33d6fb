//! Entries in replies, long ones piece by piece.

use std::ops::Range;

use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::Version;
use tidemill_store::hash::Seed;
use tidemill_store::value::stream::{FieldValue, Stream, StreamEntry};

use super::id;
use crate::long_reply::{Elements, Piece};

/// Answers an entry.
pub(super) fn write_entry(reply: &mut ReplyBuffer, entry: &StreamEntry<'_>) {
    reply.array(2);
    id::reply(reply, entry.id);
    reply.array(2 * entry.field_count() as usize);
    for (name, value) in entry.fields() {
        reply.bulk(name);
        match value {
            FieldValue::Integer(value) => reply.bulk_integer(value),
            FieldValue::Text(text) => reply.bulk(text),
        }
    }
}

/// Entries of a range of ranks.
#[derive(Clone, Debug)]
pub(super) struct StreamElements {
    pub(super) ranks: Range<u64>,
    pub(super) is_descending: bool,
}

impl StreamElements {
    /// Entries from a position of the reply on.
    pub(super) fn entries<'g>(
        &self,
        stream: Stream<'g>,
        positions: Range<u64>,
    ) -> impl Iterator<Item = StreamEntry<'g>> + use<'g> {
        let count = (positions.end - positions.start) as usize;
        let (ascending, descending) = if self.is_descending {
            (None, Some(stream.iter_back_from(self.ranks.end - positions.start)))
        } else {
            (Some(stream.iter_from(self.ranks.start + positions.start)), None)
        };
        ascending.into_iter().flatten().chain(descending.into_iter().flatten()).take(count)
    }
}

impl Elements for StreamElements {
    fn write(
        &self,
        version: &Version,
        seed: &Seed,
        positions: Range<u64>,
        piece: &mut Piece<'_>,
    ) -> u64 {
        let stream = version.view::<Stream<'_>>(seed).expect("a stream was pinned");
        let mut count = 0;
        for entry in self.entries(stream, positions) {
            write_entry(piece.reply, &entry);
            count += 1;
            if piece.is_full() {
                break;
            }
        }
        count
    }
}
