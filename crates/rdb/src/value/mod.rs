//! Values: their types and encodings, and the decoder that delivers their elements.

mod decoder;
mod kind;
mod stream;

pub(crate) use decoder::{Stop, ValueDecoder};
pub(crate) use kind::MODULE_TYPES;
pub use kind::{ValueEncoding, ValueType};
pub use stream::{StreamFields, StreamId, StreamState};

/// Element of a value. A decoder delivers those of one value in their order; a string is one item.
#[derive(Clone, Debug)]
pub enum Item<'a> {
    /// A whole string.
    String(&'a [u8]),
    /// The next element of a list, from the head on.
    ListElement(&'a [u8]),
    /// A member of a set. May come twice: the sink has to look.
    SetMember(&'a [u8]),
    /// A member of a sorted set, in no certain order. May come twice.
    SortedSetMember {
        /// The member.
        member: &'a [u8],
        /// Its score; never NaN.
        score: f64,
    },
    /// A field of a hash. May come twice.
    HashField {
        /// Its name.
        field: &'a [u8],
        /// Its value.
        value: &'a [u8],
        /// When it expires, as Unix time in milliseconds; may have passed.
        expires_at_ms: Option<u64>,
    },
    /// An entry of a stream, with a greater id than the one before.
    StreamEntry {
        /// Its id.
        id: StreamId,
        /// Its fields.
        fields: StreamFields<'a>,
        /// True if it is the first of its listpack.
        starts_node: bool,
    },
    /// State of a stream besides entries and groups; after the last entry.
    StreamState(StreamState),
    /// A group of consumers; what follows until the next group belongs to it.
    StreamGroup {
        /// Its name.
        name: &'a [u8],
        /// Id of the last entry that was delivered.
        last_id: StreamId,
        /// Entries that were read; none when that is not known.
        entries_read: Option<u64>,
    },
    /// An entry of a group that was delivered and not acknowledged.
    StreamPending {
        /// Its id.
        id: StreamId,
        /// When it was delivered last, as Unix time in milliseconds.
        delivered_at_ms: i64,
        /// Number of its deliveries.
        delivery_count: u64,
    },
    /// A consumer of the group.
    StreamConsumer {
        /// Its name.
        name: &'a [u8],
        /// When it was seen last, as Unix time in milliseconds.
        seen_at_ms: i64,
        /// When it was given something last; none when that is not known, -1 for never.
        active_at_ms: Option<i64>,
    },
    /// A pending entry that belongs to the consumer; it came as [`Item::StreamPending`] before, or
    /// the input is wrong, which the sink has to judge.
    StreamConsumerPending(StreamId),
}
