//! Pause of clients (`CLIENT PAUSE`). Times are monotonic microseconds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::command::Flags;

/// Commands that wait while clients are paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMode {
    /// All but those about connections.
    All,
    /// Those that may write.
    Write,
}

/// Pause of clients: its end (0 is never), and the commands that it holds back.
#[derive(Debug, Default)]
pub(super) struct Pause {
    until_us: AtomicU64,
    only_writes: AtomicBool,
    /// Number of pauses that began or were ended by command. A client that waited before checks
    /// again whether it must.
    version: AtomicU64,
}

impl Pause {
    /// Begins a pause, or makes the one under way longer and stricter. Returns true if there was
    /// none: workers are to be told then.
    #[must_use]
    pub(super) fn begin(&self, mode: PauseMode, now_us: u64, timeout_ms: u64) -> bool {
        let until_us = now_us.saturating_add(timeout_ms.saturating_mul(1000));
        let was_paused = now_us < self.until_us();
        let only_writes = mode == PauseMode::Write;
        // Relaxed, all: commands that run at this moment count as before the pause or as in it.
        let stays_strict = was_paused && !self.only_writes.load(Ordering::Relaxed);
        self.only_writes.store(only_writes && !stays_strict, Ordering::Relaxed);
        self.until_us.fetch_max(until_us, Ordering::Relaxed);
        !was_paused
    }

    /// Ends the pause. Returns true if there was one: workers are to be told then.
    #[must_use]
    pub(super) fn end(&self) -> bool {
        // Relaxed: as in `begin`.
        self.until_us.swap(0, Ordering::Relaxed) != 0
    }

    /// Makes a new version, of which the workers are to be told.
    pub(super) fn renew(&self) {
        // Release: pairs with the Acquire in `version`; who sees the number sees the pause as it is
        // now.
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(super) fn version(&self) -> u64 {
        // Acquire: pairs with the Release in `renew`.
        self.version.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn until_us(&self) -> u64 {
        // Relaxed: as in `begin`. A pause is only made longer without another version.
        self.until_us.load(Ordering::Relaxed)
    }

    /// Commands that are held back, and milliseconds that are left.
    pub(super) fn at(&self, now_us: u64) -> Option<(PauseMode, u64)> {
        let left_us = self.until_us().saturating_sub(now_us);
        // Relaxed: as in `begin`.
        let only_writes = self.only_writes.load(Ordering::Relaxed);
        let mode = if only_writes { PauseMode::Write } else { PauseMode::All };
        (left_us > 0).then_some((mode, left_us / 1000))
    }

    /// True if it is for commands with these flags.
    pub(super) fn concerns(&self, flags: Flags) -> bool {
        // Relaxed: as in `begin`.
        flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE)
            || !self.only_writes.load(Ordering::Relaxed)
    }
}
