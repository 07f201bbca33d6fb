//! The decoder of one value: a state between elements, so that it goes on where bytes are missing.
//!
//! A step reads one element, or the elements of one packed string, and delivers nothing before all
//! bytes of it are there. What a step reads is not kept, so a value takes no memory here beyond two
//! decompressed strings.

use itoa::Buffer;
use tidemill_resp::number::parse_double;

use super::Item;
use super::kind::ValueEncoding;
use super::stream::{Entries, StreamId, StreamState};
use crate::cursor::{Cursor, Fault};
use crate::error::DecodeError;
use crate::limits::IDLE_BUFFER_BYTES_MAX;
use crate::packed::{Packed, Packing};
use crate::text::Text;

/// Reason why a step stops.
#[derive(Debug)]
pub(crate) enum Stop<E> {
    /// Bytes are missing or wrong.
    Fault(Fault),
    /// The sink refused an item.
    Sink(E),
}

impl<E> From<Fault> for Stop<E> {
    fn from(fault: Fault) -> Stop<E> {
        Stop::Fault(fault)
    }
}

impl<E> From<DecodeError> for Stop<E> {
    fn from(error: DecodeError) -> Stop<E> {
        Stop::Fault(Fault::Wrong(error))
    }
}

/// Order in which elements that are not packed follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    List,
    Set,
    ScoredText,
    Scored,
    Pairs,
    /// Behind each field and value eight bytes, -1 for none.
    PairsThenExpiry,
    /// Before each field and value a number that is zero for none; else this is added.
    ExpiryThenPairs {
        added_ms: u64,
    },
}

/// Meaning of packed elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    List,
    Set,
    Scores,
    Pairs,
    PairsWithExpiries,
}

/// Part of a stream.
#[derive(Clone, Copy, Debug)]
enum StreamStage {
    Entries { left: u64 },
    State,
    Groups { left: u64 },
    Pending { left: u64, groups_left: u64 },
    ConsumerCount { groups_left: u64 },
    Consumers { left: u64, groups_left: u64 },
    ConsumerPending { left: u64, consumers_left: u64, groups_left: u64 },
}

/// Part of a value that is read next.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Start,
    Elements { shape: Shape, left: u64 },
    Ziplists { left: u64 },
    Nodes { left: u64 },
    Stream(StreamStage),
    End,
}

/// Decoder of one value after the other.
#[derive(Debug)]
pub(crate) struct ValueDecoder {
    encoding: ValueEncoding,
    stage: Stage,
    /// Id of the last entry of the stream.
    last_id: Option<StreamId>,
    scratch: [Vec<u8>; 2],
}

impl ValueDecoder {
    pub(crate) fn new(encoding: ValueEncoding) -> ValueDecoder {
        let scratch = [Vec::new(), Vec::new()];
        ValueDecoder { encoding, stage: Stage::Start, last_id: None, scratch }
    }

    /// Begins another value.
    pub(crate) fn begin(&mut self, encoding: ValueEncoding) {
        for scratch in &mut self.scratch {
            if scratch.capacity() > IDLE_BUFFER_BYTES_MAX {
                *scratch = Vec::new();
            }
        }
        (self.encoding, self.stage, self.last_id) = (encoding, Stage::Start, None);
    }

    /// Reads on and tells whether the value is complete. On a fault the cursor is somewhere within
    /// the step, which begins anew when more bytes are there.
    pub(crate) fn step<E>(
        &mut self,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<bool, Stop<E>> {
        self.stage = match self.stage {
            Stage::Start => self.start(cursor, sink)?,
            Stage::Elements { left: 0, .. } | Stage::Ziplists { left: 0 } => Stage::End,
            Stage::Nodes { left: 0 } | Stage::End => Stage::End,
            Stage::Elements { shape, left } => {
                self.element(shape, cursor, sink)?;
                Stage::Elements { shape, left: left - 1 }
            }
            Stage::Ziplists { left } => {
                self.packed(Packing::Ziplist, Content::List, cursor, sink)?;
                Stage::Ziplists { left: left - 1 }
            }
            Stage::Nodes { left } => {
                self.node(cursor, sink)?;
                Stage::Nodes { left: left - 1 }
            }
            Stage::Stream(stage) => self.stream(stage, cursor, sink)?,
        };
        Ok(matches!(self.stage, Stage::End))
    }

    fn start<E>(
        &mut self,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<Stage, Stop<E>> {
        let mut elements = |shape| {
            let left = cursor.count("the count of elements")?;
            Ok::<_, Fault>(Stage::Elements { shape, left })
        };
        let (packing, content) = match self.encoding {
            ValueEncoding::String => {
                let text = cursor.string(&mut self.scratch[0], "a string")?;
                sink(Item::String(text.bytes(&mut Buffer::new()))).map_err(Stop::Sink)?;
                return Ok(Stage::End);
            }
            ValueEncoding::List => return Ok(elements(Shape::List)?),
            ValueEncoding::Set => return Ok(elements(Shape::Set)?),
            ValueEncoding::SortedSetText => return Ok(elements(Shape::ScoredText)?),
            ValueEncoding::SortedSet => return Ok(elements(Shape::Scored)?),
            ValueEncoding::Hash => return Ok(elements(Shape::Pairs)?),
            ValueEncoding::HashExpiring => return Ok(elements(Shape::PairsThenExpiry)?),
            ValueEncoding::HashAbsoluteExpiries => {
                return Ok(elements(Shape::ExpiryThenPairs { added_ms: 0 })?);
            }
            ValueEncoding::HashRelativeExpiries => {
                let first_ms = first_expiry(cursor)?;
                let left = cursor.count("the count of elements")?;
                // The first one is stored as 1.
                let added_ms = first_ms.saturating_sub(1);
                return Ok(Stage::Elements { shape: Shape::ExpiryThenPairs { added_ms }, left });
            }
            ValueEncoding::ListOfZiplists => {
                return Ok(Stage::Ziplists { left: cursor.count("the count of ziplists")? });
            }
            ValueEncoding::ListOfListpacks => {
                return Ok(Stage::Nodes { left: cursor.count("the count of nodes")? });
            }
            ValueEncoding::Stream | ValueEncoding::Stream2 | ValueEncoding::Stream3 => {
                let left = cursor.count("the count of listpacks")?;
                return Ok(Stage::Stream(StreamStage::Entries { left }));
            }
            ValueEncoding::HashZipmap => (Packing::Zipmap, Content::Pairs),
            ValueEncoding::ListZiplist => (Packing::Ziplist, Content::List),
            ValueEncoding::SetIntset => (Packing::Intset, Content::Set),
            ValueEncoding::SortedSetZiplist => (Packing::Ziplist, Content::Scores),
            ValueEncoding::HashZiplist => (Packing::Ziplist, Content::Pairs),
            ValueEncoding::HashListpack => (Packing::Listpack, Content::Pairs),
            ValueEncoding::SortedSetListpack => (Packing::Listpack, Content::Scores),
            ValueEncoding::SetListpack => (Packing::Listpack, Content::Set),
            ValueEncoding::HashListpackExpiringEarly => {
                (Packing::Listpack, Content::PairsWithExpiries)
            }
            ValueEncoding::HashListpackExpiring => {
                first_expiry(cursor)?;
                (Packing::Listpack, Content::PairsWithExpiries)
            }
        };
        self.packed(packing, content, cursor, sink)?;
        Ok(Stage::End)
    }

    /// Reads an element that is not packed.
    fn element<E>(
        &mut self,
        shape: Shape,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        let [first, second] = &mut self.scratch;
        let (mut digits, mut more_digits) = (Buffer::new(), Buffer::new());
        let mut expires_at_ms = None;
        if let Shape::ExpiryThenPairs { added_ms } = shape {
            expires_at_ms = expiry_behind(added_ms, cursor)?;
        }
        let element = cursor.string(first, "an element")?.bytes(&mut digits);
        let item = match shape {
            Shape::List => Item::ListElement(element),
            Shape::Set => Item::SetMember(element),
            Shape::ScoredText => {
                Item::SortedSetMember { member: element, score: text_score(cursor)? }
            }
            Shape::Scored => {
                let offset = cursor.offset();
                let score = cursor.double("a score")?;
                Item::SortedSetMember { member: element, score: number(score, offset)? }
            }
            Shape::Pairs | Shape::PairsThenExpiry | Shape::ExpiryThenPairs { .. } => {
                let value = cursor.string(second, "the value of a field")?;
                if shape == Shape::PairsThenExpiry {
                    expires_at_ms = optional_expiry(cursor)?;
                }
                let value = value.bytes(&mut more_digits);
                Item::HashField { field: element, value, expires_at_ms }
            }
        };
        sink(item).map_err(Stop::Sink)
    }

    /// Reads a node of a list: one element, or a listpack.
    fn node<E>(
        &mut self,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        const PLAIN: u64 = 1;
        const PACKED: u64 = 2;
        let offset = cursor.offset();
        match cursor.count("the kind of a node")? {
            PLAIN => {
                let mut is_empty = false;
                self.element(Shape::List, cursor, &mut |item| {
                    is_empty = matches!(item, Item::ListElement([]));
                    if is_empty { Ok(()) } else { sink(item) }
                })?;
                // Only large elements have nodes of their own.
                match is_empty {
                    true => Err(DecodeError::malformed(offset, "an element in its node", 0).into()),
                    false => Ok(()),
                }
            }
            PACKED => self.packed(Packing::Listpack, Content::List, cursor, sink),
            other => Err(DecodeError::malformed(offset, "the kind of a node", other).into()),
        }
    }

    fn packed<E>(
        &mut self,
        packing: Packing,
        content: Content,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        let offset = cursor.offset();
        let bytes = packed_bytes(cursor, &mut self.scratch[0], offset)?;
        deliver(Packed::new(packing, bytes, offset)?, content, offset, sink)
    }

    fn stream<E>(
        &mut self,
        stage: StreamStage,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<Stage, Stop<E>> {
        let next = match stage {
            StreamStage::Entries { left: 0 } => StreamStage::State,
            StreamStage::Entries { left } => {
                self.entries(cursor, sink)?;
                StreamStage::Entries { left: left - 1 }
            }
            StreamStage::State => {
                let (state, left) = self.state(cursor)?;
                sink(Item::StreamState(state)).map_err(Stop::Sink)?;
                StreamStage::Groups { left }
            }
            StreamStage::Groups { left: 0 } => return Ok(Stage::End),
            StreamStage::Groups { left } => {
                let pending = self.group(cursor, sink)?;
                StreamStage::Pending { left: pending, groups_left: left - 1 }
            }
            StreamStage::Pending { left: 0, groups_left } => {
                StreamStage::ConsumerCount { groups_left }
            }
            StreamStage::Pending { left, groups_left } => {
                let id = StreamId::from_bytes(cursor.array("the id of a pending entry")?);
                let delivered_at_ms = cursor.milliseconds("the time of a delivery")?;
                let delivery_count = cursor.count("the count of deliveries")?;
                let item = Item::StreamPending { id, delivered_at_ms, delivery_count };
                sink(item).map_err(Stop::Sink)?;
                StreamStage::Pending { left: left - 1, groups_left }
            }
            StreamStage::ConsumerCount { groups_left } => {
                let left = cursor.count("the count of consumers")?;
                StreamStage::Consumers { left, groups_left }
            }
            StreamStage::Consumers { left: 0, groups_left } => {
                StreamStage::Groups { left: groups_left }
            }
            StreamStage::Consumers { left, groups_left } => {
                let pending = self.consumer(cursor, sink)?;
                let consumers_left = left - 1;
                StreamStage::ConsumerPending { left: pending, consumers_left, groups_left }
            }
            StreamStage::ConsumerPending { left: 0, consumers_left, groups_left } => {
                StreamStage::Consumers { left: consumers_left, groups_left }
            }
            StreamStage::ConsumerPending { left, consumers_left, groups_left } => {
                let id = StreamId::from_bytes(cursor.array("the id of a pending entry")?);
                sink(Item::StreamConsumerPending(id)).map_err(Stop::Sink)?;
                StreamStage::ConsumerPending { left: left - 1, consumers_left, groups_left }
            }
        };
        Ok(Stage::Stream(next))
    }

    fn entries<E>(
        &mut self,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        let [first, second] = &mut self.scratch;
        let offset = cursor.offset();
        let key = packed_bytes(cursor, first, offset)?;
        let first_id = <[u8; 16]>::try_from(key)
            .map_err(|_| DecodeError::malformed(offset, "an id of 16 bytes", key.len() as u64))?;
        let offset = cursor.offset();
        let bytes = packed_bytes(cursor, second, offset)?;
        let mut entries = Entries::new(StreamId::from_bytes(first_id), bytes, offset)?;
        let mut starts_node = true;
        while let Some((id, fields)) = entries.next()? {
            if self.last_id.is_some_and(|last| last >= id) {
                return Err(DecodeError::malformed(offset, "ascending ids", id.ms).into());
            }
            self.last_id = Some(id);
            sink(Item::StreamEntry { id, fields, starts_node }).map_err(Stop::Sink)?;
            starts_node = false;
        }
        Ok(())
    }

    fn state(&self, cursor: &mut Cursor<'_>) -> Result<(StreamState, u64), Fault> {
        let mut state = StreamState {
            length: cursor.count("the length of a stream")?,
            last_id: StreamId::read(cursor, "the last id of a stream")?,
            first_id: None,
            max_deleted_id: None,
            entries_added: None,
        };
        if self.encoding != ValueEncoding::Stream {
            state.first_id = Some(StreamId::read(cursor, "the first id of a stream")?);
            state.max_deleted_id = Some(StreamId::read(cursor, "the last deleted id")?);
            state.entries_added = Some(cursor.count("the count of added entries")?);
        }
        Ok((state, cursor.count("the count of groups")?))
    }

    /// Reads a group's head and returns how many entries are pending.
    fn group<E>(
        &mut self,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<u64, Stop<E>> {
        let mut digits = Buffer::new();
        let name = cursor.string(&mut self.scratch[0], "the name of a group")?;
        let last_id = StreamId::read(cursor, "the last id of a group")?;
        let mut entries_read = None;
        if self.encoding != ValueEncoding::Stream {
            let count = cursor.count("the count of read entries")?;
            entries_read = (count != u64::MAX).then_some(count);
        }
        let pending = cursor.count("the count of pending entries")?;
        let name = name.bytes(&mut digits);
        sink(Item::StreamGroup { name, last_id, entries_read }).map_err(Stop::Sink)?;
        Ok(pending)
    }

    /// Reads a consumer's head and returns how many entries are pending.
    fn consumer<E>(
        &mut self,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<u64, Stop<E>> {
        let mut digits = Buffer::new();
        let name = cursor.string(&mut self.scratch[0], "the name of a consumer")?;
        let seen_at_ms = cursor.milliseconds("the time of a consumer")?;
        let mut active_at_ms = None;
        if self.encoding == ValueEncoding::Stream3 {
            active_at_ms = Some(cursor.milliseconds("the active time of a consumer")?);
        }
        let pending = cursor.count("the count of pending entries")?;
        let name = name.bytes(&mut digits);
        sink(Item::StreamConsumer { name, seen_at_ms, active_at_ms }).map_err(Stop::Sink)?;
        Ok(pending)
    }
}

/// A string that is no integer.
fn packed_bytes<'b: 's, 's>(
    cursor: &mut Cursor<'b>,
    scratch: &'s mut Vec<u8>,
    offset: u64,
) -> Result<&'s [u8], Fault> {
    match cursor.string(scratch, "packed elements")? {
        Text::Bytes(bytes) => Ok(bytes),
        Text::Integer(value) => {
            Err(DecodeError::malformed(offset, "packed elements", value as u64).into())
        }
    }
}

/// Delivers the elements of a packed string that begins at `offset`.
fn deliver<E>(
    mut packed: Packed<'_>,
    content: Content,
    offset: u64,
    sink: &mut impl FnMut(Item<'_>) -> Result<(), E>,
) -> Result<(), Stop<E>> {
    let (mut digits, mut more_digits) = (Buffer::new(), Buffer::new());
    while let Some(element) = packed.next()? {
        let element = element.bytes(&mut digits);
        let item = match content {
            Content::List => Item::ListElement(element),
            Content::Set => Item::SetMember(element),
            Content::Scores => {
                let score = packed_score(packed.partner(offset)?, offset)?;
                Item::SortedSetMember { member: element, score }
            }
            Content::Pairs | Content::PairsWithExpiries => {
                let value = packed.partner(offset)?.bytes(&mut more_digits);
                let mut expires_at_ms = None;
                if content == Content::PairsWithExpiries {
                    expires_at_ms = packed_expiry(packed.partner(offset)?, offset)?;
                }
                Item::HashField { field: element, value, expires_at_ms }
            }
        };
        sink(item).map_err(Stop::Sink)?;
    }
    Ok(())
}

fn number(score: f64, offset: u64) -> Result<f64, DecodeError> {
    if score.is_nan() {
        return Err(DecodeError::malformed(offset, "a score that is a number", score.to_bits()));
    }
    Ok(score)
}

fn packed_score(score: Text<'_>, offset: u64) -> Result<f64, DecodeError> {
    match score {
        Text::Integer(value) => Ok(value as f64),
        Text::Bytes(text) => {
            parse_double(text).ok_or(DecodeError::malformed(offset, "a score", text.len() as u64))
        }
    }
}

/// A score in decimal behind its length; three lengths stand for scores without digits.
fn text_score(cursor: &mut Cursor<'_>) -> Result<f64, Fault> {
    let offset = cursor.offset();
    match cursor.byte("a score")? {
        253 => Ok(number(f64::NAN, offset)?),
        254 => Ok(f64::INFINITY),
        255 => Ok(f64::NEG_INFINITY),
        length => {
            let text = cursor.take(length.into(), "a score")?;
            let score = parse_double(text);
            Ok(score.ok_or(DecodeError::malformed(offset, "a score", length.into()))?)
        }
    }
}

/// An expiry that must not be before the epoch.
fn first_expiry(cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
    let offset = cursor.offset();
    let first_ms = cursor.milliseconds("the first expiry")?;
    let wrong = DecodeError::malformed(offset, "an expiry after the epoch", first_ms as u64);
    Ok(u64::try_from(first_ms).map_err(|_| wrong)?)
}

/// Eight bytes of an expiry, -1 for none.
fn optional_expiry(cursor: &mut Cursor<'_>) -> Result<Option<u64>, Fault> {
    let offset = cursor.offset();
    match cursor.milliseconds("the expiry of a field")? {
        -1 => Ok(None),
        at_ms => {
            let wrong = DecodeError::malformed(offset, "an expiry or -1", at_ms as u64);
            Ok(Some(u64::try_from(at_ms).map_err(|_| wrong)?))
        }
    }
}

/// A number to which `added_ms` is added, or zero for none.
fn expiry_behind(added_ms: u64, cursor: &mut Cursor<'_>) -> Result<Option<u64>, Fault> {
    let offset = cursor.offset();
    match cursor.count("the expiry of a field")? {
        0 => Ok(None),
        behind => {
            let at_ms = behind.checked_add(added_ms).filter(|&at_ms| at_ms <= i64::MAX as u64);
            let wrong = DecodeError::malformed(offset, "an expiry", behind);
            Ok(Some(at_ms.ok_or(wrong)?))
        }
    }
}

fn packed_expiry(expiry: Text<'_>, offset: u64) -> Result<Option<u64>, DecodeError> {
    match expiry {
        Text::Integer(0) => Ok(None),
        Text::Integer(at_ms @ 1..) => Ok(Some(at_ms as u64)),
        Text::Integer(other) => Err(DecodeError::malformed(offset, "an expiry or 0", other as u64)),
        Text::Bytes(text) => {
            Err(DecodeError::malformed(offset, "an expiry or 0", text.len() as u64))
        }
    }
}
