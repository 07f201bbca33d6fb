//! The kernel's report of events: `epoll`, and the tokens by which it names sources.
//!
//! Nothing else of the server knows the poller. Touches descriptors only: no connection's state, no
//! clock.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

const WAKER: u64 = u64::MAX;
const FIRST_LISTENER: u64 = u64::MAX - 1 - 1024;

/// Events awaited of a listener. All workers await them, and the kernel wakes one that waits for
/// events, if there is one, so never one inside a long command. If none waits, all see the
/// connection at their next looks.
const LISTENING: EventFlags = EventFlags::IN.union(EventFlags::EXCLUSIVE);

/// Source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventSource {
    Waker,
    /// A listener, by its index.
    Listener(usize),
    /// A connection, by its index.
    Connection(usize),
}

impl EventSource {
    #[inline]
    pub(super) fn of(event: &Event) -> EventSource {
        EventSource::of_token(event.data.u64())
    }

    #[inline]
    fn of_token(token: u64) -> EventSource {
        match token {
            ..FIRST_LISTENER => EventSource::Connection(token as usize),
            WAKER => EventSource::Waker,
            _ => EventSource::Listener((token - FIRST_LISTENER) as usize),
        }
    }

    fn token(self) -> u64 {
        match self {
            EventSource::Waker => WAKER,
            EventSource::Listener(index) => FIRST_LISTENER + index as u64,
            EventSource::Connection(index) => index as u64,
        }
    }

    fn data(self) -> EventData {
        EventData::new_u64(self.token())
    }
}

/// Descriptors whose events a worker awaits.
#[derive(Debug)]
pub(super) struct EventPoll(OwnedFd);

impl EventPoll {
    /// Awaits wake-ups, and nothing else yet.
    pub(super) fn new(waker: impl AsFd) -> std::io::Result<EventPoll> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, waker, EventSource::Waker.data(), EventFlags::IN)?;
        Ok(EventPoll(epoll))
    }

    /// Waits for events at most for `timeout`, and replaces `events` by them. Blocks. A signal ends
    /// the wait early.
    pub(super) fn wait(&self, events: &mut Vec<Event>, timeout: &Timespec) -> Result<(), Errno> {
        events.clear();
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(events), Some(timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Awaits connections at a listener.
    pub(super) fn add_listener(&self, socket: impl AsFd, index: usize) -> Result<(), Errno> {
        epoll::add(&self.0, socket, EventSource::Listener(index).data(), LISTENING)
    }

    /// Awaits the events `interest` of a connection's socket.
    pub(super) fn add_connection(
        &self,
        socket: impl AsFd,
        index: usize,
        interest: EventFlags,
    ) -> Result<(), Errno> {
        epoll::add(&self.0, socket, EventSource::Connection(index).data(), interest)
    }

    /// Awaits other events of a connection's socket.
    pub(super) fn modify_connection(
        &self,
        socket: impl AsFd,
        index: usize,
        interest: EventFlags,
    ) -> Result<(), Errno> {
        epoll::modify(&self.0, socket, EventSource::Connection(index).data(), interest)
    }

    /// Awaits nothing of a descriptor any more.
    pub(super) fn remove(&self, socket: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.0, socket)
    }
}

/// Lets the thread sleep, whatever happens to the descriptors. A signal ends the sleep early.
pub(super) fn sleep_us(us: u64) {
    let _ = rustix::thread::nanosleep(&wait_between(0, us));
}

/// Duration of a wait that begins at `now_us` and ends at `until_us`.
pub(super) fn wait_between(now_us: u64, until_us: u64) -> Timespec {
    let wait = Duration::from_micros(until_us.saturating_sub(now_us));
    Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_their_sources() {
        for source in [
            EventSource::Waker,
            EventSource::Listener(0),
            EventSource::Listener(1023),
            EventSource::Connection(0),
            EventSource::Connection(1 << 40),
        ] {
            assert_eq!(EventSource::of_token(source.token()), source);
        }
    }

    #[test]
    fn time_that_has_passed_is_no_wait() {
        assert_eq!(wait_between(50, 49), Timespec { tv_sec: 0, tv_nsec: 0 });
        assert_eq!(wait_between(50, 1_000_052), Timespec { tv_sec: 1, tv_nsec: 2000 });
    }
}
