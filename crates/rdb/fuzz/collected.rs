//! Values as vectors of elements, to be compared and encoded again. Shared by the fuzz targets and
//! the tests.
#![allow(dead_code, reason = "each user takes some of it")]

use std::collections::TryReserveError;

use tidemill_rdb::encode::{
    Compression, Compressor, Encoder, NodeLimit, Output, Place, StreamListpack,
};
use tidemill_rdb::payload::{self, Payload};
use tidemill_rdb::value::{Item, StreamId, StreamState, ValueEncoding};
use tidemill_rdb::{DecodeError, ReadError, Text, VersionCheck};

/// An element with its own memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Owned {
    One(Vec<u8>),
    Scored(Vec<u8>, u64),
    Field(Vec<u8>, Vec<u8>, Option<u64>),
    Entry(StreamId, Vec<(Vec<u8>, Vec<u8>)>),
    State(StreamState),
    Group(Vec<u8>, StreamId, Option<u64>),
    Pending(StreamId, i64, u64),
    Consumer(Vec<u8>, i64, Option<i64>),
    ConsumerPending(StreamId),
}

impl Owned {
    pub fn of(item: &Item<'_>) -> Owned {
        let mut digits = itoa::Buffer::new();
        match item {
            Item::String(one) | Item::ListElement(one) | Item::SetMember(one) => {
                Owned::One(one.to_vec())
            }
            Item::SortedSetMember { member, score } => {
                Owned::Scored(member.to_vec(), score.to_bits())
            }
            Item::HashField { field, value, expires_at_ms } => {
                Owned::Field(field.to_vec(), value.to_vec(), *expires_at_ms)
            }
            Item::StreamEntry { id, fields, .. } => {
                let mut owned = |text: Text<'_>| text.bytes(&mut digits).to_vec();
                let fields = fields.clone().map(|(name, value)| (owned(name), owned(value)));
                Owned::Entry(*id, fields.collect())
            }
            Item::StreamState(state) => Owned::State(*state),
            Item::StreamGroup { name, last_id, entries_read } => {
                Owned::Group(name.to_vec(), *last_id, *entries_read)
            }
            Item::StreamPending { id, delivered_at_ms, delivery_count } => {
                Owned::Pending(*id, *delivered_at_ms, *delivery_count)
            }
            Item::StreamConsumer { name, seen_at_ms, active_at_ms } => {
                Owned::Consumer(name.to_vec(), *seen_at_ms, *active_at_ms)
            }
            Item::StreamConsumerPending(id) => Owned::ConsumerPending(*id),
        }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub struct Collected {
    pub encoding: ValueEncoding,
    pub items: Vec<Owned>,
}

impl Collected {
    pub fn of_payload(bytes: &[u8]) -> Result<Collected, DecodeError> {
        let payload = Payload::new(bytes, VersionCheck::Relaxed, true)?;
        let mut items = Vec::new();
        let decoded = payload.decode(|item| {
            items.push(Owned::of(&item));
            Ok::<(), std::convert::Infallible>(())
        });
        match decoded {
            Ok(()) => Ok(Collected { encoding: payload.encoding()?, items }),
            Err(ReadError::Decode(error)) => Err(error),
            Err(ReadError::Sink(never)) => match never {},
        }
    }

    /// The payload as it is written today.
    pub fn payload(&self, limit: NodeLimit) -> Vec<u8> {
        let encoded =
            payload::encode(Compression::Lzf, &mut Compressor::default(), |encoder, place| {
                self.write(encoder, place, limit)
            });
        encoded.expect("there is memory")
    }

    pub fn write(
        &self,
        encoder: &mut Encoder<impl Output<Error = TryReserveError>>,
        place: Place<'_>,
        limit: NodeLimit,
    ) -> Result<(), TryReserveError> {
        let count = self.items.len() as u64;
        match self.encoding {
            ValueEncoding::String => encoder.string(place, self.ones().next().expect("one")),
            ValueEncoding::List
            | ValueEncoding::ListZiplist
            | ValueEncoding::ListOfZiplists
            | ValueEncoding::ListOfListpacks => encoder.list(place, self.ones(), limit),
            ValueEncoding::Set => encoder.set(place, count, self.ones().map(Text::Bytes)),
            ValueEncoding::SetListpack => encoder.set_listpack(place, self.ones().map(Text::Bytes)),
            ValueEncoding::SetIntset => {
                let number = |text| std::str::from_utf8(text).expect("digits").parse();
                let members: Vec<i64> =
                    self.ones().map(|text| number(text).expect("an integer")).collect();
                encoder.set_intset(place, &members)
            }
            ValueEncoding::SortedSetText | ValueEncoding::SortedSet => {
                encoder.sorted_set(place, count, self.scored())
            }
            ValueEncoding::SortedSetZiplist | ValueEncoding::SortedSetListpack => {
                encoder.sorted_set_listpack(place, self.scored())
            }
            ValueEncoding::Hash => {
                encoder.hash(place, count, self.fields().map(|field| (field.0, field.1)))
            }
            ValueEncoding::HashZipmap
            | ValueEncoding::HashZiplist
            | ValueEncoding::HashListpack => {
                encoder.hash_listpack(place, self.fields().map(|field| (field.0, field.1)))
            }
            ValueEncoding::HashExpiring
            | ValueEncoding::HashAbsoluteExpiries
            | ValueEncoding::HashRelativeExpiries
            | ValueEncoding::HashListpackExpiringEarly
            | ValueEncoding::HashListpackExpiring => {
                encoder.hash_expiring(place, count, self.fields())
            }
            ValueEncoding::Stream | ValueEncoding::Stream2 | ValueEncoding::Stream3 => {
                self.write_stream(encoder, place)
            }
        }
    }

    pub fn ones(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.items.iter().map(|item| match item {
            Owned::One(one) => one.as_slice(),
            other => panic!("{other:?} is no single element"),
        })
    }

    pub fn scored(&self) -> impl Iterator<Item = (&[u8], f64)> {
        self.items.iter().map(|item| match item {
            Owned::Scored(member, score) => (member.as_slice(), f64::from_bits(*score)),
            other => panic!("{other:?} has no score"),
        })
    }

    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8], Option<u64>)> {
        self.items.iter().map(|item| match item {
            Owned::Field(field, value, at_ms) => (field.as_slice(), value.as_slice(), *at_ms),
            other => panic!("{other:?} is no field"),
        })
    }

    /// In listpacks of at most 100 entries and 4 KiB, as Valkey's by default.
    fn write_stream(
        &self,
        encoder: &mut Encoder<impl Output<Error = TryReserveError>>,
        place: Place<'_>,
    ) -> Result<(), TryReserveError> {
        let mut listpacks: Vec<StreamListpack> = Vec::new();
        for item in &self.items {
            let Owned::Entry(id, fields) = item else { continue };
            let fields: Vec<(&[u8], &[u8])> =
                fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect();
            let is_full = |last: &StreamListpack| {
                last.entry_count() >= 100 || last.total_bytes().is_ok_and(|bytes| bytes >= 4096)
            };
            if listpacks.last().is_none_or(is_full) {
                listpacks.push(StreamListpack::new(*id));
            }
            listpacks.last_mut().expect("one was pushed").push(*id, &fields)?;
        }
        encoder.stream(place, listpacks.len() as u64)?;
        for listpack in &listpacks {
            encoder.stream_entries(listpack)?;
        }
        self.write_groups(encoder)
    }

    fn write_groups(
        &self,
        encoder: &mut Encoder<impl Output<Error = TryReserveError>>,
    ) -> Result<(), TryReserveError> {
        let is_group = |item: &Owned| matches!(item, Owned::Group(..));
        let is_pending = |item: &&Owned| matches!(item, Owned::Pending(..));
        let is_consumer = |item: &&Owned| matches!(item, Owned::Consumer(..));
        let is_theirs = |item: &&Owned| matches!(item, Owned::ConsumerPending(..));
        let group_count = self.items.iter().filter(|item| is_group(item)).count() as u64;
        for (index, item) in self.items.iter().enumerate() {
            let rest = &self.items[index + 1..];
            let group = || rest.iter().take_while(|item| !is_group(item));
            match item {
                Owned::One(_) | Owned::Scored(..) | Owned::Field(..) | Owned::Entry(..) => {}
                Owned::State(state) => encoder.stream_state(state, group_count)?,
                Owned::Group(name, last_id, read) => {
                    let pending = group().filter(is_pending).count() as u64;
                    encoder.stream_group(name, *last_id, *read, pending)?;
                    if pending == 0 {
                        encoder.stream_consumers(group().filter(is_consumer).count() as u64)?;
                    }
                }
                Owned::Pending(id, at_ms, count) => {
                    encoder.stream_pending(*id, *at_ms, *count)?;
                    if !group().next().is_some_and(|next| is_pending(&next)) {
                        encoder.stream_consumers(group().filter(is_consumer).count() as u64)?;
                    }
                }
                Owned::Consumer(name, seen_ms, active_ms) => {
                    let active_ms = active_ms.unwrap_or(*seen_ms);
                    let pending = rest.iter().take_while(is_theirs).count() as u64;
                    encoder.stream_consumer(name, *seen_ms, active_ms, pending)?;
                }
                Owned::ConsumerPending(id) => encoder.stream_consumer_pending(*id)?,
            }
        }
        Ok(())
    }
}
