//! A worker's connections: by index, by session, and those that have reserved room for input.
//!
//! Touches the connections themselves and nothing else: no descriptor of the poller, no queue.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use crate::connection::Connection;
use crate::limits::{READ_BYTES, RESERVED_INPUT_BYTES_MAX, RESERVED_TOGETHER_BYTES_MAX};

/// Connections of a chunk: some 32 KiB.
const CHUNK_CONNECTIONS: usize = 64;

/// Places of connections, in chunks that are never moved. One vector of them would be copied as it
/// grows: some milliseconds for all clients at once, and twice the memory.
#[derive(Debug, Default)]
struct Places {
    chunks: Vec<Box<[Option<Connection>]>>,
    /// Indices of empty places; the last one is used next.
    vacant: Vec<usize>,
    /// Indices of places that were vacated since the last [`reuse`](Self::reuse).
    vacated: Vec<usize>,
}

impl Places {
    fn capacity(&self) -> usize {
        self.chunks.len() * CHUNK_CONNECTIONS
    }

    fn len(&self) -> usize {
        self.capacity() - self.vacant.len() - self.vacated.len()
    }

    fn next_index(&self) -> usize {
        self.vacant.last().copied().unwrap_or(self.capacity())
    }

    fn insert(&mut self, connection: Connection) -> usize {
        if self.vacant.is_empty() {
            let first = self.capacity();
            self.vacant.extend((first..first + CHUNK_CONNECTIONS).rev());
            self.chunks.push((0..CHUNK_CONNECTIONS).map(|_| None).collect());
        }
        let index = self.vacant.pop().expect("a chunk was added");
        self.chunks[index / CHUNK_CONNECTIONS][index % CHUNK_CONNECTIONS] = Some(connection);
        index
    }

    fn remove(&mut self, index: usize) -> Option<Connection> {
        let chunk = self.chunks.get_mut(index / CHUNK_CONNECTIONS)?;
        let connection = chunk[index % CHUNK_CONNECTIONS].take()?;
        self.vacated.push(index);
        Some(connection)
    }

    /// Lets the places be used that were vacated so far.
    fn reuse(&mut self) {
        self.vacant.append(&mut self.vacated);
    }

    #[inline]
    fn get(&self, index: usize) -> Option<&Connection> {
        self.chunks.get(index / CHUNK_CONNECTIONS)?[index % CHUNK_CONNECTIONS].as_ref()
    }

    #[inline]
    fn get_mut(&mut self, index: usize) -> Option<&mut Connection> {
        self.chunks.get_mut(index / CHUNK_CONNECTIONS)?[index % CHUNK_CONNECTIONS].as_mut()
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &Connection)> {
        let places = self.chunks.iter().flatten().enumerate();
        places.filter_map(|(index, place)| Some((index, place.as_ref()?)))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Connection)> {
        let places = self.chunks.iter_mut().flatten().enumerate();
        places.filter_map(|(index, place)| Some((index, place.as_mut()?)))
    }
}

/// Connections of a worker. The index of one that has ended is given to a later one, but not before
/// [`reuse_indices`](Self::reuse_indices).
#[derive(Debug, Default)]
pub(super) struct ConnectionTable {
    connections: Places,
    by_session: HashMap<u64, usize>,
    /// Connections that have room for what they have announced.
    reserving: Vec<Reservation>,
}

/// Room of a connection for input that has not arrived.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    index: usize,
    /// Number of bytes that had arrived at the last tick; 0 when the room was granted since.
    arrived_bytes: usize,
}

impl Index<usize> for ConnectionTable {
    type Output = Connection;

    #[inline]
    fn index(&self, index: usize) -> &Connection {
        self.get(index).expect("a connection that has not ended")
    }
}

impl IndexMut<usize> for ConnectionTable {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Connection {
        self.get_mut(index).expect("a connection that has not ended")
    }
}

impl ConnectionTable {
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Index that the next connection gets.
    pub(super) fn next_index(&self) -> usize {
        self.connections.next_index()
    }

    /// Lets indices of connections that have left be given to others. Called just before the events
    /// of an iteration are replaced by those of the next one, and nowhere else.
    ///
    /// A token of an event is an index alone. An event that was fetched before its connection left
    /// must not reach another connection: its hang-up would shut that one down. The kernel reports
    /// nothing of a socket that is closed or removed, so such events are among those fetched last,
    /// and none is left once they are replaced. Until then the index names nobody, wherever the
    /// connection left and the next one came. A generation in the token would cost a comparison of
    /// each event instead, and a number kept by place.
    #[inline]
    pub(super) fn reuse_indices(&mut self) {
        self.connections.reuse();
    }

    /// Adds a connection; returns its index.
    pub(super) fn insert(&mut self, connection: Connection) -> usize {
        let session = connection.session.id();
        let index = self.connections.insert(connection);
        self.by_session.insert(session, index);
        index
    }

    pub(super) fn remove(&mut self, index: usize) -> Connection {
        let connection = self.connections.remove(index).expect("a connection that has not ended");
        self.by_session.remove(&connection.session.id());
        connection
    }

    #[inline]
    pub(super) fn contains(&self, index: usize) -> bool {
        self.get(index).is_some()
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Connection> {
        self.connections.get(index)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Connection> {
        self.connections.get_mut(index)
    }

    /// Index of the connection of a session.
    pub(super) fn of_session(&self, session: u64) -> Option<usize> {
        self.by_session.get(&session).copied()
    }

    /// Connections with their indices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Connection)> {
        self.connections.iter()
    }

    /// As [`iter`](Self::iter).
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Connection)> {
        self.connections.iter_mut()
    }

    /// Indices of the connections of which `is_chosen` is true.
    pub(super) fn indices_of(&self, is_chosen: impl Fn(&Connection) -> bool) -> Vec<usize> {
        let chosen = self.iter().filter(|(_, connection)| is_chosen(connection));
        chosen.map(|(index, _)| index).collect()
    }

    /// Number of bytes that a connection may reserve for input that has not arrived. Notes the
    /// connection.
    pub(super) fn grant_room(&mut self, index: usize) -> usize {
        let ConnectionTable { connections, reserving, .. } = self;
        let room_bytes =
            |index: usize| connections.get(index).map_or(0, |other| other.input.room_bytes());
        // Drops connections that became full, were executed, or are by now other ones that have
        // reserved nothing.
        reserving.retain(|other| other.index != index && room_bytes(other.index) > READ_BYTES);
        let taken_bytes: usize = reserving.iter().map(|other| room_bytes(other.index)).sum();
        let left_bytes = RESERVED_TOGETHER_BYTES_MAX.saturating_sub(taken_bytes);
        if left_bytes == 0 {
            return 0;
        }
        reserving.push(Reservation { index, arrived_bytes: 0 });
        left_bytes.min(RESERVED_INPUT_BYTES_MAX)
    }

    /// Returns the room reserved for input of clients that have sent less than one read between two
    /// ticks. Others keep it, so that neither their input is copied nor the size that others see of
    /// them sinks while it arrives. A client that is late is given room again, for the cost of a
    /// copy within the time of a tick.
    pub(super) fn give_back_rooms(&mut self) {
        let ConnectionTable { connections, reserving, .. } = self;
        reserving.retain_mut(|reservation| {
            let Some(connection) = connections.get_mut(reservation.index) else { return false };
            if !connection.input.is_large() {
                return false;
            }
            let arrived_bytes = connection.input.len();
            let is_sending = arrived_bytes >= reservation.arrived_bytes + READ_BYTES;
            reservation.arrived_bytes = arrived_bytes;
            if !is_sending {
                connection.input.give_back();
                connection.publish_memory();
            }
            is_sending
        });
    }
}
