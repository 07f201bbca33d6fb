//! Spread of a figure of a worker: its histogram and its sum.
//!
//! As all counters of a worker, with one writer and any readers. Values are nanoseconds or plain
//! numbers; a histogram of [`TimeHistogram`] knows them to 3 %.

use super::histogram::{TimeHistogram, Times};
use super::stats::Counter;

/// Histogram and sum of one figure.
#[derive(Debug, Default)]
pub struct Spread {
    values: TimeHistogram,
    sum: Counter,
}

impl Spread {
    /// Adds a value. Only the owning worker may call this.
    #[inline]
    pub fn record(&self, value: u64) {
        self.values.record(value, 1);
        self.sum.add(value);
    }

    /// Sum of all values.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum.value()
    }

    /// Values by their size.
    #[must_use]
    pub fn values(&self) -> Times {
        Times::of(std::iter::once(&self.values))
    }

    /// Forgets all values.
    pub fn reset(&self) {
        self.values.reset();
        self.sum.set(0);
    }
}

/// Figures of one worker that tell what its clients wait for.
#[derive(Debug, Default)]
pub struct WorkerSpreads {
    /// Iterations of the event loop, without the wait for events, ns.
    pub iteration_ns: Spread,
    /// Commands per iteration.
    pub iteration_commands: Spread,
    /// Time that a session waited for slots or the token before its command ran, ns.
    pub park_ns: Spread,
    /// Time for which a unit's slots were held, so that reads of them waited, ns; of one unit in
    /// [`HELD_SAMPLE`](crate::limits::HELD_SAMPLE).
    pub held_ns: Spread,
}

impl WorkerSpreads {
    /// All of them, with their names; the unit comes last.
    #[must_use]
    pub fn all(&self) -> [(&'static str, &Spread); 4] {
        [
            ("iteration_ns", &self.iteration_ns),
            ("iteration_commands", &self.iteration_commands),
            ("park_ns", &self.park_ns),
            ("held_ns", &self.held_ns),
        ]
    }
}
