//! Connections that were read and not executed yet, so that the cache misses of their requests
//! overlap; and the buffer that a worker reads all of its sockets into.
//!
//! The buffer begins with the input of the gathered connections, one behind the other. The bytes
//! behind them are free for the next read, of a connection that is gathered too or of one whose
//! bytes are copied away. Nothing here touches a socket or the engine's state.

use std::ops::Range;

use tidemill_engine::execute::LookAhead;

use crate::limits::{GATHERED_BYTES_MAX, GATHERED_MAX, READ_BYTES};

/// Place of a gathered connection.
#[derive(Debug)]
struct GatheredTurn {
    index: usize,
    /// Range of its input in the buffer.
    input: Range<usize>,
    ahead: LookAhead,
}

/// A gathered connection.
#[derive(Debug)]
pub(crate) struct Gathered<'g> {
    /// Index of the connection.
    pub(crate) index: usize,
    pub(crate) input: &'g [u8],
    pub(crate) ahead: &'g mut LookAhead,
}

/// Gathered connections, in the order in which they became ready.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// Buffer that sockets are read into.
    bytes: Vec<u8>,
    /// Reused; the first `count` are in use.
    places: Vec<GatheredTurn>,
    count: usize,
}

impl Gathering {
    pub(crate) fn new() -> Gathering {
        let place = || GatheredTurn { index: 0, input: 0..0, ahead: LookAhead::default() };
        Gathering {
            bytes: vec![0; GATHERED_BYTES_MAX + READ_BYTES],
            places: (0..GATHERED_MAX).map(|_| place()).collect(),
            count: 0,
        }
    }

    /// Offset at which the next connection's input begins.
    fn end(&self) -> usize {
        self.places[..self.count].last().map_or(0, |last| last.input.end)
    }

    /// Memory for a read of at most `bytes_max`, which [`READ_BYTES`] bounds.
    pub(crate) fn spare(&mut self, bytes_max: usize) -> &mut [u8] {
        let start = self.end();
        &mut self.bytes[start..start + bytes_max]
    }

    /// The first `count` bytes of the memory that [`spare`](Self::spare) returned.
    pub(crate) fn arrived(&self, count: usize) -> &[u8] {
        let start = self.end();
        &self.bytes[start..start + count]
    }

    /// Adds a connection whose input is the first `count` bytes of the memory that
    /// [`spare`](Self::spare) returned; returns true if it is the last to be gathered.
    pub(crate) fn add(&mut self, index: usize, count: usize) -> bool {
        let start = self.end();
        let end = start + count;
        let place = &mut self.places[self.count];
        place.index = index;
        place.input = start..end;
        // Nothing is left of the input that was here before, if its turn never came.
        place.ahead.clear();
        self.count += 1;
        self.count == GATHERED_MAX || end >= GATHERED_BYTES_MAX
    }

    /// Number of gathered connections.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Index of the connection that was gathered as number `position`, from 0.
    pub(crate) fn index(&self, position: usize) -> usize {
        self.places[..self.count][position].index
    }

    /// The connection that was gathered as number `position`, from 0.
    pub(crate) fn at(&mut self, position: usize) -> Gathered<'_> {
        let Gathering { bytes, places, count } = self;
        gathered(bytes, &mut places[..*count][position])
    }

    /// All gathered connections.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = Gathered<'_>> {
        let Gathering { bytes, places, count } = self;
        let bytes: &[u8] = bytes;
        places[..*count].iter_mut().map(move |place| gathered(bytes, place))
    }

    /// Look-aheads of all gathered connections, each with its input and what is behind that in the
    /// buffer.
    pub(crate) fn ahead(&mut self) -> impl Iterator<Item = (&mut LookAhead, &[u8])> {
        let Gathering { bytes, places, count } = self;
        let bytes: &[u8] = bytes;
        let places = places[..*count].iter_mut();
        places.map(move |place| (&mut place.ahead, &bytes[place.input.start..]))
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }
}

fn gathered<'g>(bytes: &'g [u8], place: &'g mut GatheredTurn) -> Gathered<'g> {
    Gathered { index: place.index, input: &bytes[place.input.clone()], ahead: &mut place.ahead }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gathers a connection that has sent `text`.
    fn add(gathering: &mut Gathering, index: usize, text: &[u8]) -> bool {
        gathering.spare(READ_BYTES)[..text.len()].copy_from_slice(text);
        gathering.add(index, text.len())
    }

    #[test]
    fn gathered_connection_has_its_own_input_alone() {
        let mut gathering = Gathering::new();
        assert!(!add(&mut gathering, 7, b"first"));
        assert!(!add(&mut gathering, 3, b"second one"));
        // Read, and copied away.
        gathering.spare(4).copy_from_slice(b"kept");
        assert_eq!(gathering.arrived(4), b"kept");
        assert!(!add(&mut gathering, 9, b"third"));
        let all: Vec<(usize, &[u8])> =
            gathering.all().map(|gathered| (gathered.index, gathered.input)).collect();
        assert_eq!(all, [(7, &b"first"[..]), (3, b"second one"), (9, b"third")]);
        assert_eq!((gathering.index(1), gathering.at(1).input), (3, &b"second one"[..]));
        gathering.clear();
        assert_eq!(gathering.len(), 0);
        add(&mut gathering, 1, b"next");
        assert_eq!(gathering.at(0).input, b"next");
    }

    #[test]
    fn gathering_ends_with_its_last_place_or_with_much_input() {
        let mut gathering = Gathering::new();
        for index in 1..GATHERED_MAX {
            assert!(!add(&mut gathering, index, b"PING\r\n"));
        }
        assert!(add(&mut gathering, 0, b"PING\r\n"));
        gathering.clear();
        assert!(!add(&mut gathering, 0, &[0; GATHERED_BYTES_MAX - 1]));
        assert_eq!(gathering.spare(READ_BYTES).len(), READ_BYTES, "a whole read has room");
        assert!(add(&mut gathering, 1, &[0; READ_BYTES]));
    }
}
