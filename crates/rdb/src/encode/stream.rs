//! Streams, part by part in the order of the functions here.

use std::collections::TryReserveError;

use super::{Encoder, Output, Place};
use crate::packed::listpack::Builder;
use crate::value::{StreamId, StreamState, ValueEncoding};

/// Flag of an entry with the names of the listpack.
const SAME_NAMES: i64 = 2;

/// Listpack of entries under construction.
#[derive(Debug)]
pub struct StreamListpack {
    first_id: StreamId,
    /// The names of the first entry, as elements of a listpack.
    names: Builder,
    names_of_first: Vec<Vec<u8>>,
    entries: Builder,
    entry_count: u64,
}

impl StreamListpack {
    /// An empty one, whose first entry is to be that of `first_id`.
    #[must_use]
    pub fn new(first_id: StreamId) -> StreamListpack {
        StreamListpack {
            first_id,
            names: Builder::default(),
            names_of_first: Vec::new(),
            entries: Builder::default(),
            entry_count: 0,
        }
    }

    /// Entries that were added.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.entry_count
    }

    /// Bytes of the listpack, as Valkey counts them against `stream-node-max-bytes`.
    ///
    /// # Errors
    ///
    /// When there is no memory.
    pub fn total_bytes(&self) -> Result<usize, TryReserveError> {
        Ok(self.head()?.total_bytes() + self.entries.body().len())
    }

    /// Adds an entry with a greater id than those before.
    ///
    /// # Errors
    ///
    /// When there is no memory for it.
    pub fn push(&mut self, id: StreamId, fields: &[(&[u8], &[u8])]) -> Result<(), TryReserveError> {
        if self.entry_count == 0 {
            for (name, _) in fields {
                self.names.push(name)?;
                self.names_of_first.try_reserve(1)?;
                let mut copy = Vec::new();
                copy.try_reserve_exact(name.len())?;
                copy.extend_from_slice(name);
                self.names_of_first.push(copy);
            }
        }
        let has_same_names = self.names_of_first.len() == fields.len()
            && self.names_of_first.iter().zip(fields).all(|(first, (name, _))| first == name);
        self.push_entry(id, fields, has_same_names)
    }

    /// Adds an entry as [`StreamListpack::push`] does, whose names are those of the first one, so
    /// that they are not compared: they may be long, and shared by many entries.
    ///
    /// # Errors
    ///
    /// When there is no memory for it.
    pub fn push_with_same_names(
        &mut self,
        id: StreamId,
        fields: &[(&[u8], &[u8])],
    ) -> Result<(), TryReserveError> {
        debug_assert_eq!(self.names_of_first.len(), fields.len());
        self.push_entry(id, fields, true)
    }

    fn push_entry(
        &mut self,
        id: StreamId,
        fields: &[(&[u8], &[u8])],
        has_same_names: bool,
    ) -> Result<(), TryReserveError> {
        let entries = &mut self.entries;
        entries.push_integer(if has_same_names { SAME_NAMES } else { 0 })?;
        entries.push_integer(id.ms.wrapping_sub(self.first_id.ms) as i64)?;
        entries.push_integer(id.seq.wrapping_sub(self.first_id.seq) as i64)?;
        if !has_same_names {
            entries.push_integer(fields.len() as i64)?;
        }
        for (name, value) in fields {
            if !has_same_names {
                entries.push(name)?;
            }
            entries.push(value)?;
        }
        let element_count = if has_same_names { fields.len() + 3 } else { fields.len() * 2 + 4 };
        entries.push_integer(element_count as i64)?;
        self.entry_count += 1;
        Ok(())
    }

    /// Elements before the entries.
    fn head(&self) -> Result<Builder, TryReserveError> {
        let mut head = Builder::default();
        head.push_integer(self.entry_count as i64)?;
        head.push_integer(0)?;
        head.push_integer(self.names_of_first.len() as i64)?;
        head.append(&self.names)?;
        head.push_integer(0)?;
        Ok(head)
    }
}

impl<O: Output<Error: From<TryReserveError>>> Encoder<O> {
    /// Begins a stream whose entries are in `count` listpacks.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn stream(&mut self, place: Place<'_>, count: u64) -> Result<(), O::Error> {
        self.begin(ValueEncoding::Stream3, place)?;
        self.length(count)
    }

    /// Writes the next listpack of entries.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn stream_entries(&mut self, entries: &StreamListpack) -> Result<(), O::Error> {
        self.text(&entries.first_id.to_bytes())?;
        let mut whole = entries.head()?;
        whole.append(&entries.entries)?;
        self.text(whole.finish()?)
    }

    /// Writes what a stream has besides entries, and how many groups follow. What is none becomes
    /// what an empty stream has.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn stream_state(&mut self, state: &StreamState, group_count: u64) -> Result<(), O::Error> {
        self.length(state.length)?;
        self.stream_id(state.last_id)?;
        self.stream_id(state.first_id.unwrap_or_default())?;
        self.stream_id(state.max_deleted_id.unwrap_or_default())?;
        self.length(state.entries_added.unwrap_or(state.length))?;
        self.length(group_count)
    }

    fn stream_id(&mut self, id: StreamId) -> Result<(), O::Error> {
        self.length(id.ms)?;
        self.length(id.seq)
    }

    /// Writes a group, and how many pending entries follow.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn stream_group(
        &mut self,
        name: &[u8],
        last_id: StreamId,
        entries_read: Option<u64>,
        pending_count: u64,
    ) -> Result<(), O::Error> {
        self.text(name)?;
        self.stream_id(last_id)?;
        self.length(entries_read.unwrap_or(u64::MAX))?;
        self.length(pending_count)
    }

    /// Writes a pending entry of a group.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn stream_pending(
        &mut self,
        id: StreamId,
        delivered_at_ms: i64,
        delivery_count: u64,
    ) -> Result<(), O::Error> {
        self.raw(&id.to_bytes())?;
        self.raw(&delivered_at_ms.to_le_bytes())?;
        self.length(delivery_count)
    }

    /// Writes how many consumers of the group follow.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn stream_consumers(&mut self, count: u64) -> Result<(), O::Error> {
        self.length(count)
    }

    /// Writes a consumer, and how many of its pending entries follow; `active_at_ms` is -1 for
    /// never.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn stream_consumer(
        &mut self,
        name: &[u8],
        seen_at_ms: i64,
        active_at_ms: i64,
        pending_count: u64,
    ) -> Result<(), O::Error> {
        self.text(name)?;
        self.raw(&seen_at_ms.to_le_bytes())?;
        self.raw(&active_at_ms.to_le_bytes())?;
        self.length(pending_count)
    }

    /// Writes the id of a pending entry of the consumer.
    ///
    /// # Errors
    ///
    /// As [`Encoder::string`].
    pub fn stream_consumer_pending(&mut self, id: StreamId) -> Result<(), O::Error> {
        self.raw(&id.to_bytes())
    }
}
