//! Time by which expiries are judged: a value, independent of the clock that it was taken from.

/// One moment by which expiries are judged and from which new ones are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryClock {
    now_ms: u64,
    ahead_ms: u64,
    /// The time before which all has expired: now, mostly.
    passed_ms: u64,
    /// True if all expiries are stored, those that have come included.
    keeps_expired: bool,
}

impl ExpiryClock {
    /// A clock that shows `now_ms`, which is `ahead_ms` ahead of the wall clock.
    pub(crate) fn new(now_ms: u64, ahead_ms: u64) -> ExpiryClock {
        ExpiryClock { now_ms, ahead_ms, passed_ms: now_ms, keeps_expired: false }
    }

    /// The clock in import mode: the source of the import deletes what expires, and until then what
    /// has expired stays and is there for the source alone.
    #[cold]
    pub(crate) fn in_import(self, is_of_source: bool) -> ExpiryClock {
        let passed_ms = if is_of_source { 0 } else { self.passed_ms };
        ExpiryClock { passed_ms, keeps_expired: true, ..self }
    }

    /// The server's time: Unix time in milliseconds that never goes back.
    #[must_use]
    pub fn now_ms(self) -> u64 {
        self.now_ms
    }

    /// The expiry that a client means by an absolute Unix time in milliseconds, which it takes from
    /// the wall clock.
    #[must_use]
    pub fn expiry_at(self, wall_ms: i64) -> Option<u64> {
        Some(wall_ms.checked_add_unsigned(self.ahead_ms)?.max(0) as u64)
    }

    /// An expiry as an absolute time for clients and journals: what
    /// [`expiry_at`](ExpiryClock::expiry_at) takes.
    #[must_use]
    pub fn wall_ms(self, at_ms: u64) -> u64 {
        at_ms.saturating_sub(self.ahead_ms)
    }

    /// True if something that expires at `at_ms` has expired.
    #[must_use]
    #[inline]
    pub fn has_passed(self, at_ms: u64) -> bool {
        self.passed_ms > at_ms
    }

    /// True if something that is to expire at `at_ms` need not be stored: a millisecond earlier
    /// than [`has_passed`], as in Redis.
    ///
    /// [`has_passed`]: ExpiryClock::has_passed
    #[must_use]
    pub fn has_come(self, at_ms: u64) -> bool {
        self.now_ms >= at_ms && !self.keeps_expired
    }

    /// True if what has expired stays until the source of an import deletes it.
    pub(crate) fn keeps_expired(self) -> bool {
        self.keeps_expired
    }

    /// The latest expiry that has passed.
    #[must_use]
    pub fn last_passed_ms(self) -> u64 {
        self.passed_ms.saturating_sub(1)
    }
}
