//! Result of a turn, for the loop that gives a connection its turns.

use crate::slots::parking::WakeUp;

/// Next need of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More bytes.
    Input {
        /// Bytes that the next request lacks at the very least.
        wanted: usize,
    },
    /// Another turn: it has used this one up.
    Turn,
    /// A wake-up: something that its next request needs is not to be had now.
    WakeUp(WakeUp),
    /// An `Unblocked` message: its last request waits for a key.
    Unblock,
    /// To be closed once its replies are sent.
    Close,
}

/// Result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Bytes of input that are done with.
    pub consumed: usize,
    /// Next need of the connection.
    pub next: Next,
}
