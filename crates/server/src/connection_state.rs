//! State of a connection in its event loop: what is done with its requests, and which directions of
//! its stream have ended.
//!
//! One value holds both, so that no combination exists that the event loop does not know: a
//! connection whose output has ended is never output blocked, and one that is closing is neither
//! read nor throttled. Membership in the run queue is no part of it: the queue owns that, see
//! `worker::run_queue`. Nothing here touches a socket, a clock or the engine.

/// Directions of a client's stream that have not ended. See `worker::ending`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// The client sends and takes.
    Both,
    /// The client sends nothing more: the end of its stream was read.
    OutputOnly,
    /// The client takes nothing more: sending to it has failed. Replies are dropped.
    InputOnly,
    /// The client has gone; the rest of its requests is executed.
    Neither,
}

impl Streams {
    fn without_input(self) -> Streams {
        match self {
            Streams::Both | Streams::OutputOnly => Streams::OutputOnly,
            Streams::InputOnly | Streams::Neither => Streams::Neither,
        }
    }

    fn without_output(self) -> Streams {
        match self {
            Streams::Both | Streams::InputOnly => Streams::InputOnly,
            Streams::OutputOnly | Streams::Neither => Streams::Neither,
        }
    }
}

/// Treatment of bytes that arrive while nothing is executed for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arriving {
    /// Read and kept.
    Kept,
    /// Left in the kernel: the connection is throttled as well.
    Unread,
}

/// State of a connection in its event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// Requests are read and executed.
    Open(Streams),
    /// Throttled: neither read nor executed for until others have had their share, or a time has
    /// passed. See [`crate::fairness`].
    Throttled(Streams),
    /// The last request waits for an event; nothing is executed until then.
    Waiting { arriving: Arriving, streams: Streams },
    /// Unsent replies are too many; nothing is executed until the client has taken some.
    OutputBlocked { arriving: Arriving, is_input_over: bool },
    /// Unsent replies are sent, and then the connection is closed. Nothing is read or executed.
    Closing,
}

use ConnectionState::{Closing, Open, OutputBlocked, Throttled, Waiting};

impl ConnectionState {
    /// State of a new connection.
    pub(crate) const NEW: ConnectionState = Open(Streams::Both);

    /// Directions that have not ended. A closing connection has nothing but replies on their way.
    fn streams(self) -> Streams {
        match self {
            Open(streams) | Throttled(streams) | Waiting { streams, .. } => streams,
            OutputBlocked { is_input_over: false, .. } => Streams::Both,
            OutputBlocked { is_input_over: true, .. } | Closing => Streams::OutputOnly,
        }
    }

    /// True if requests are read and executed.
    #[inline]
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Open(_))
    }

    /// True if a request may be executed now or once a throttle is over.
    fn is_open_or_throttled(self) -> bool {
        matches!(self, Open(_) | Throttled(_))
    }

    /// True if the last request waits for an event.
    pub(crate) fn is_waiting(self) -> bool {
        matches!(self, Waiting { .. })
    }

    /// True if nothing is executed because of unsent replies.
    pub(crate) fn is_output_blocked(self) -> bool {
        matches!(self, OutputBlocked { .. })
    }

    /// True if the connection is closed once its replies are sent.
    #[inline]
    pub(crate) fn is_closing(self) -> bool {
        self == Closing
    }

    /// True if the connection is not read for now: throttled, in whichever state.
    pub(crate) fn is_throttled(self) -> bool {
        matches!(
            self,
            Throttled(_)
                | Waiting { arriving: Arriving::Unread, .. }
                | OutputBlocked { arriving: Arriving::Unread, .. }
        )
    }

    /// True if the client sends nothing more and its requests are executed to their end.
    pub(crate) fn is_input_over(self) -> bool {
        self != Closing && matches!(self.streams(), Streams::OutputOnly | Streams::Neither)
    }

    /// True if the client takes nothing more: replies are dropped.
    pub(crate) fn is_output_over(self) -> bool {
        matches!(self.streams(), Streams::InputOnly | Streams::Neither)
    }

    /// True if the client has gone and its requests are executed to their end.
    pub(crate) fn is_gone(self) -> bool {
        self.streams() == Streams::Neither
    }

    /// True if the kernel is asked for arriving bytes.
    #[inline]
    pub(crate) fn is_read(self) -> bool {
        self == ConnectionState::NEW
            || !(self == Closing || self.is_throttled() || self.is_input_over())
    }

    /// True if another worker may take the connection over.
    pub(crate) fn is_movable(self) -> bool {
        matches!(self, Open(Streams::Both) | Throttled(Streams::Both))
    }

    /// True if the connection ends as soon as nothing of it is left to execute: its input is over
    /// and its last request waits for nothing.
    pub(crate) fn ends_when_done(self) -> bool {
        self.is_open_or_throttled() && self.is_input_over()
    }

    /// Begins a throttle. A closing connection is not read anyway.
    pub(crate) fn throttle(&mut self) {
        *self = match *self {
            Open(streams) | Throttled(streams) => Throttled(streams),
            Waiting { streams, .. } => Waiting { arriving: Arriving::Unread, streams },
            OutputBlocked { is_input_over, .. } => {
                OutputBlocked { arriving: Arriving::Unread, is_input_over }
            }
            Closing => Closing,
        };
    }

    /// Ends a throttle; returns true if there was one.
    pub(crate) fn end_throttle(&mut self) -> bool {
        let was_throttled = self.is_throttled();
        *self = match *self {
            Open(streams) | Throttled(streams) => Open(streams),
            Waiting { streams, .. } => Waiting { arriving: Arriving::Kept, streams },
            OutputBlocked { is_input_over, .. } => {
                OutputBlocked { arriving: Arriving::Kept, is_input_over }
            }
            Closing => Closing,
        };
        was_throttled
    }

    /// Begins the wait of the request that has just been executed; a throttle goes on.
    pub(crate) fn begin_waiting(&mut self) {
        debug_assert!(self.is_open_or_throttled(), "{self:?} executes nothing");
        let arriving = if self.is_throttled() { Arriving::Unread } else { Arriving::Kept };
        *self = Waiting { arriving, streams: self.streams() };
    }

    /// Stops executing because of unsent replies; a throttle goes on. A client that takes nothing
    /// more has no unsent replies, and one that waits executes nothing.
    pub(crate) fn block_output(&mut self) {
        if self.is_open_or_throttled() && !self.is_output_over() {
            let arriving = if self.is_throttled() { Arriving::Unread } else { Arriving::Kept };
            *self = OutputBlocked { arriving, is_input_over: self.is_input_over() };
        }
    }

    /// Ends a wait, an output block and a throttle; returns true if there was a throttle. A closing
    /// connection stays so.
    pub(crate) fn resume(&mut self) -> bool {
        let was_throttled = self.is_throttled();
        if *self != Closing {
            *self = Open(self.streams());
        }
        was_throttled
    }

    /// Ends the input: the client sends nothing more.
    pub(crate) fn end_input(&mut self) {
        *self = match *self {
            Open(streams) => Open(streams.without_input()),
            Throttled(streams) => Throttled(streams.without_input()),
            Waiting { arriving, streams } => Waiting { arriving, streams: streams.without_input() },
            OutputBlocked { arriving, .. } => OutputBlocked { arriving, is_input_over: true },
            Closing => Closing,
        };
    }

    /// Ends the output: the client takes nothing more, so that its unsent replies block nothing;
    /// returns true if they did.
    pub(crate) fn end_output(&mut self) -> bool {
        let was_blocked = self.is_output_blocked();
        *self = match *self {
            Open(streams) => Open(streams.without_output()),
            Throttled(streams) => Throttled(streams.without_output()),
            Waiting { arriving, streams } => {
                Waiting { arriving, streams: streams.without_output() }
            }
            OutputBlocked { arriving: Arriving::Kept, .. } => Open(self.streams().without_output()),
            OutputBlocked { arriving: Arriving::Unread, .. } => {
                Throttled(self.streams().without_output())
            }
            Closing => Closing,
        };
        was_blocked
    }

    /// Begins to close.
    pub(crate) fn begin_closing(&mut self) {
        *self = Closing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAMS: [Streams; 4] =
        [Streams::Both, Streams::OutputOnly, Streams::InputOnly, Streams::Neither];

    /// All states that exist.
    fn states() -> Vec<ConnectionState> {
        let mut states = vec![Closing];
        for streams in STREAMS {
            states.extend([Open(streams), Throttled(streams)]);
            for arriving in [Arriving::Kept, Arriving::Unread] {
                states.push(Waiting { arriving, streams });
            }
        }
        for arriving in [Arriving::Kept, Arriving::Unread] {
            for is_input_over in [false, true] {
                states.push(OutputBlocked { arriving, is_input_over });
            }
        }
        states
    }

    /// State after a change.
    fn after(
        mut state: ConnectionState,
        change: impl FnOnce(&mut ConnectionState),
    ) -> ConnectionState {
        change(&mut state);
        state
    }

    #[test]
    fn throttle_and_its_end_change_reading_alone() {
        for state in states().into_iter().filter(|state| !state.is_closing()) {
            let throttled = after(state, ConnectionState::throttle);
            assert!(throttled.is_throttled() && !throttled.is_read() && !throttled.is_open());
            let mut ended = throttled;
            assert!(ended.end_throttle() && !ended.end_throttle());
            let kept = |state: ConnectionState| {
                (
                    state.is_open_or_throttled(),
                    state.is_waiting(),
                    state.is_output_blocked(),
                    state.streams(),
                )
            };
            assert_eq!(kept(ended), kept(state));
            assert_eq!(kept(throttled), kept(state));
            assert!(!ended.is_throttled());
        }
    }

    #[test]
    fn ends_of_streams_last_through_all_other_changes() {
        let changes: [fn(&mut ConnectionState); 4] = [
            ConnectionState::throttle,
            |state| _ = state.end_throttle(),
            ConnectionState::block_output,
            |state| _ = state.resume(),
        ];
        for state in states().into_iter().filter(|state| !state.is_closing()) {
            for change in changes {
                assert_eq!(after(state, change).streams(), state.streams(), "{state:?}");
            }
            if state.is_open_or_throttled() {
                let waiting = after(state, ConnectionState::begin_waiting);
                assert_eq!(waiting.streams(), state.streams());
                assert_eq!(waiting.is_throttled(), state.is_throttled());
            }
            let half = after(state, ConnectionState::end_input);
            assert!(half.is_input_over() && !half.is_read());
            assert_eq!(half.is_output_over(), state.is_output_over());
            let deaf = after(state, |state| _ = state.end_output());
            assert!(deaf.is_output_over());
            assert_eq!(deaf.is_input_over(), state.is_input_over());
            assert!(after(half, |state| _ = state.end_output()).is_gone());
        }
    }

    #[test]
    fn connection_whose_output_is_over_is_never_output_blocked() {
        for state in states() {
            let was_blocked = state.is_output_blocked();
            let mut ended = state;
            assert_eq!(ended.end_output(), was_blocked);
            assert!(!after(ended, ConnectionState::block_output).is_output_blocked());
        }
    }

    #[test]
    fn only_an_executing_connection_begins_an_output_block() {
        for state in states().into_iter().filter(|state| !state.is_output_blocked()) {
            let is_blocked = after(state, ConnectionState::block_output).is_output_blocked();
            assert_eq!(is_blocked, state.is_open_or_throttled() && !state.is_output_over());
        }
    }

    #[test]
    fn closing_connection_is_closed_whatever_happens() {
        let changes: [fn(&mut ConnectionState); 7] = [
            ConnectionState::throttle,
            |state| assert!(!state.end_throttle()),
            ConnectionState::block_output,
            |state| assert!(!state.resume()),
            ConnectionState::end_input,
            |state| assert!(!state.end_output()),
            ConnectionState::begin_closing,
        ];
        for change in changes {
            assert_eq!(after(Closing, change), Closing);
        }
        assert!(!Closing.is_read() && !Closing.is_movable() && !Closing.ends_when_done());
        assert!(!Closing.is_input_over() && !Closing.is_output_over() && !Closing.is_gone());
    }

    #[test]
    fn connection_with_an_ended_direction_stays_with_its_worker() {
        for state in states() {
            let is_executing = state.is_open_or_throttled();
            assert_eq!(state.is_movable(), is_executing && state.streams() == Streams::Both);
        }
    }
}
