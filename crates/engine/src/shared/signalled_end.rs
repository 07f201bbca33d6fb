//! The end of the server that a signal asked for, which a client may call off until it is certain.

use std::sync::atomic::{AtomicU8, Ordering};

/// No signal asks for the end.
const ABSENT: u8 = 0;
/// It is asked for: the server waits for scripts and saves that are under way.
const AWAITED: u8 = 1;
/// A client called it off.
const CALLED_OFF: u8 = 2;
/// It is certain, unless the save fails: all workers are stopped, or there is nothing to save.
const CERTAIN: u8 = 3;

/// State of the end by a signal. [`begin`](Self::begin), [`decide`](Self::decide) and
/// [`forget`](Self::forget) are called by the thread that ends the server.
#[derive(Debug, Default)]
pub struct SignalledEnd(AtomicU8);

impl SignalledEnd {
    /// A signal asks for the end.
    pub fn begin(&self) {
        // Relaxed, all: the value says everything, and nothing is read because of it.
        self.0.store(AWAITED, Ordering::Relaxed);
    }

    /// Calls the end off; tells whether one was awaited. It does not come then.
    pub(crate) fn call_off(&self) -> bool {
        let changed =
            self.0.compare_exchange(AWAITED, CALLED_OFF, Ordering::Relaxed, Ordering::Relaxed);
        changed.is_ok()
    }

    /// True if a client called the end off.
    #[must_use]
    pub fn is_called_off(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CALLED_OFF
    }

    /// Makes the end certain, unless a client called it off; tells whether it is.
    #[must_use]
    pub fn decide(&self) -> bool {
        let changed =
            self.0.compare_exchange(AWAITED, CERTAIN, Ordering::Relaxed, Ordering::Relaxed);
        changed.is_ok()
    }

    /// The server goes on behind the signal.
    pub fn forget(&self) {
        self.0.store(ABSENT, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_called_off_or_certain_and_never_both() {
        let end = SignalledEnd::default();
        assert!(!end.call_off(), "there is none");
        end.begin();
        assert!(end.call_off() && end.is_called_off());
        assert!(!end.decide() && !end.call_off(), "once");
        end.forget();
        assert!(!end.is_called_off());
        end.begin();
        assert!(end.decide());
        assert!(!end.call_off() && !end.is_called_off(), "too late");
    }
}
