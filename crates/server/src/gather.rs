//! Connections that were read and not executed yet, so that the cache misses of their requests overlap.

use std::ops::Range;

use tidemill_engine::execute::Batch;

use crate::limits::{GATHERED_BYTES_MAX, GATHERED_MAX};

/// A connection that was read.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Which connection.
    pub(crate) index: usize,
    /// Where in the worker's buffer its input stands.
    pub(crate) input: Range<usize>,
    /// Its request, if it is parsed ahead.
    pub(crate) batch: Batch,
}

/// All of them, in the order in which they became ready.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// Reused; the first `count` are in use.
    places: Vec<Gathered>,
    count: usize,
}

impl Gathering {
    pub(crate) fn new() -> Gathering {
        let place = || Gathered { index: 0, input: 0..0, batch: Batch::of_one() };
        Gathering { places: (0..GATHERED_MAX).map(|_| place()).collect(), count: 0 }
    }

    /// Where in the worker's buffer the next connection is read to.
    pub(crate) fn end(&self) -> usize {
        self.all().last().map_or(0, |last| last.input.end)
    }

    /// Adds a connection whose input ends at `end`; tells whether it was the last to be gathered.
    pub(crate) fn add(&mut self, index: usize, end: usize) -> bool {
        let input = self.end()..end;
        let place = &mut self.places[self.count];
        place.index = index;
        place.input = input;
        self.count += 1;
        self.count == GATHERED_MAX || end >= GATHERED_BYTES_MAX
    }

    pub(crate) fn all(&self) -> &[Gathered] {
        &self.places[..self.count]
    }

    pub(crate) fn all_mut(&mut self) -> &mut [Gathered] {
        &mut self.places[..self.count]
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }
}
