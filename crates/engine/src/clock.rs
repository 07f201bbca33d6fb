//! Time, given to the engine from outside.

/// Source of the time.
pub trait Clock: Send + Sync + 'static {
    /// The server's time: Unix time in microseconds that never goes back, whatever becomes of the
    /// wall clock.
    fn unix_us(&self) -> u64;

    /// As [`Clock::unix_us`], at a moment shortly before now that [`Clock::monotonic_ns`] gave: the
    /// clock is not read again.
    fn unix_us_at(&self, monotonic_ns: u64) -> u64 {
        let _ = monotonic_ns;
        self.unix_us()
    }

    /// Distance by which the server's time has stayed ahead of the wall clock since that was set
    /// back, in milliseconds. Whatever is an absolute time for clients, for logs or for another
    /// server is less by this.
    fn ahead_ms(&self) -> u64 {
        0
    }

    /// Unix time in microseconds as the wall clock shows it. It goes back when the wall clock does.
    fn wall_us(&self) -> u64 {
        self.unix_us().saturating_sub(self.ahead_ms() * 1000)
    }

    /// Microseconds since some moment in the past. Never goes back.
    fn monotonic_us(&self) -> u64;

    /// As [`Clock::monotonic_us`], in nanoseconds.
    fn monotonic_ns(&self) -> u64 {
        self.monotonic_us().saturating_mul(1000)
    }

    /// CPU time of the calling thread in nanoseconds. Reading it is a system call; a clock that
    /// knows of no threads says that this one always ran.
    fn thread_cpu_ns(&self) -> u64 {
        self.monotonic_ns()
    }
}

/// A clock that does not move, for tests.
#[cfg(test)]
pub(crate) struct Still;

#[cfg(test)]
impl Clock for Still {
    fn unix_us(&self) -> u64 {
        0
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}
