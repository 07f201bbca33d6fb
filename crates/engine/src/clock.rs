//! Time, given to the engine from outside.

/// Where the engine gets the time.
pub trait Clock: Send + Sync + 'static {
    /// Unix time in microseconds. May jump.
    fn unix_us(&self) -> u64;

    /// Microseconds since some moment in the past. Never goes back.
    fn monotonic_us(&self) -> u64;

    /// As [`Clock::monotonic_us`], in nanoseconds.
    fn monotonic_ns(&self) -> u64 {
        self.monotonic_us().saturating_mul(1000)
    }
}
