//! Connections on their way to a worker: the listeners it accepts from, and the handed over ones it
//! has yet to take or that others have yet to take.
//!
//! Touches the listeners' sockets and their registration with the poller, no connection.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use tidemill_engine::system_error::reason;

use super::event_poll::EventPoll;
use crate::limits::OVERDUE_US;
use crate::listen::{Listener, Origin};

/// Listeners of a worker and the times of its looks for arrivals.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// The listeners as of the last change of the configuration.
    listeners: Vec<Arc<Listener>>,
    /// Listeners that accept nothing until the next tick.
    paused: Vec<Arc<Listener>>,
    /// Time from which this worker looks whether others have taken their connections, in monotonic
    /// microseconds.
    overdue_from_us: Option<u64>,
    /// True if something arrived with the last wake-ups that were taken back, and was not looked at
    /// yet.
    is_unseen: bool,
}

impl Arrivals {
    /// Arrivals at listeners, with which it is registered.
    pub(super) fn new(listeners: Vec<Arc<Listener>>, poll: &EventPoll) -> io::Result<Arrivals> {
        let arrivals =
            Arrivals { listeners, paused: Vec::new(), overdue_from_us: None, is_unseen: false };
        (0..arrivals.listeners.len()).try_for_each(|listener| arrivals.listen(poll, listener))?;
        Ok(arrivals)
    }

    /// Replaces the listeners by others. Sockets of connections are not concerned.
    pub(super) fn replace_listeners(&mut self, poll: &EventPoll, next: Vec<Arc<Listener>>) {
        let is_same = |(old, new): (&Arc<Listener>, &Arc<Listener>)| Arc::ptr_eq(old, new);
        if next.len() == self.listeners.len() && self.listeners.iter().zip(&next).all(is_same) {
            return;
        }
        for listener in &self.listeners {
            // Fails for one that pauses; and a socket that was stopped accepts nothing.
            let _ = poll.remove(&listener.socket);
        }
        // Tokens are positions, which have changed; those that pause begin again, and pause again
        // if they have to.
        self.paused.clear();
        self.listeners = next;
        for listener in 0..self.listeners.len() {
            if let Err(error) = self.listen(poll, listener) {
                log::error!("A worker cannot accept connections: epoll: {}", reason(&error.into()));
            }
        }
    }

    /// Waits for connections at a listener from now on.
    fn listen(&self, poll: &EventPoll, listener: usize) -> Result<(), Errno> {
        poll.add_listener(&self.listeners[listener].socket, listener)
    }

    /// Accepts a connection at a listener; none when the listener is gone: an event may be from
    /// before the listeners changed.
    pub(super) fn accept(
        &self,
        listener: usize,
        keepalive_seconds: u32,
    ) -> Option<io::Result<(OwnedFd, Origin)>> {
        self.listeners.get(listener).map(|listener| listener.accept(keepalive_seconds))
    }

    /// True if the clients of a listener speak TLS.
    pub(super) fn is_tls(&self, listener: usize) -> bool {
        self.listeners.get(listener).is_some_and(|listener| listener.is_tls)
    }

    /// Accepts nothing at a listener until [`end_pauses`](Self::end_pauses).
    pub(super) fn pause(&mut self, poll: &EventPoll, listener: usize) {
        let listener = &self.listeners[listener];
        // Interest in a listener that workers share cannot be changed, only removed.
        if poll.remove(&listener.socket).is_ok() {
            self.paused.push(Arc::clone(listener));
        }
    }

    /// Takes out the listeners that pause.
    pub(super) fn take_paused(&mut self) -> Vec<Arc<Listener>> {
        std::mem::take(&mut self.paused)
    }

    /// Indices of all listeners but those that pause.
    pub(super) fn accepting(&self, paused: &[Arc<Listener>]) -> Vec<usize> {
        let pauses =
            |listener: &Arc<Listener>| paused.iter().any(|other| Arc::ptr_eq(other, listener));
        let all = self.listeners.iter().enumerate();
        all.filter(|(_, listener)| !pauses(listener)).map(|(index, _)| index).collect()
    }

    /// Waits again at the listeners of `paused`; one for which that fails pauses further. The
    /// listeners may have been replaced since they were taken out: then one that is gone stays
    /// away, and one that was kept is waited at already.
    pub(super) fn end_pauses(&mut self, poll: &EventPoll, paused: Vec<Arc<Listener>>) {
        for listener in paused {
            let index = self.listeners.iter().position(|other| Arc::ptr_eq(other, &listener));
            match index.map(|index| self.listen(poll, index)) {
                None | Some(Ok(()) | Err(Errno::EXIST)) => {}
                Some(Err(_)) => self.paused.push(listener),
            }
        }
    }

    /// Notes that a connection was handed to another worker, which may not take it in time.
    pub(super) fn hand_over(&mut self, now_us: u64) {
        self.overdue_from_us.get_or_insert(now_us + OVERDUE_US);
    }

    /// True if it is time to look whether others have taken their connections.
    pub(super) fn is_overdue(&self, now_us: u64) -> bool {
        self.overdue_from_us.is_some_and(|at_us| at_us <= now_us)
    }

    /// Notes a look at the others' connections; `has_waiting` says that not all are taken.
    pub(super) fn look_at_others(&mut self, now_us: u64, has_waiting: bool) {
        self.overdue_from_us = has_waiting.then_some(now_us + OVERDUE_US);
    }

    /// Time of the next look at the others' connections, in monotonic microseconds.
    #[inline]
    pub(super) fn look_again_us(&self) -> Option<u64> {
        self.overdue_from_us
    }

    /// Notes whether messages or connections are there that this iteration has not looked at.
    pub(super) fn set_unseen(&mut self, is_unseen: bool) {
        self.is_unseen = is_unseen;
    }

    /// True if something is there to be looked at without a wait for events.
    #[inline]
    pub(super) fn has_unseen(&self) -> bool {
        self.is_unseen
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::handover::Waker;
    use crate::listen;

    fn listeners(count: usize) -> Vec<Arc<Listener>> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener =
            |_| Arc::new(listen::tcp(address, false, 1).expect("the system chooses a port"));
        (0..count).map(listener).collect()
    }

    fn arrivals(count: usize) -> (Arrivals, EventPoll) {
        let waker = Waker::new().expect("an event descriptor");
        let poll = EventPoll::new(waker.descriptor()).expect("an epoll descriptor");
        let arrivals = Arrivals::new(listeners(count), &poll).expect("sockets that are not known");
        (arrivals, poll)
    }

    #[test]
    fn paused_listener_accepts_again_after_its_pause() {
        let (mut arrivals, poll) = arrivals(3);
        arrivals.pause(&poll, 1);
        let paused = arrivals.take_paused();
        assert_eq!(arrivals.accepting(&paused), [0, 2]);
        // One that begins to pause meanwhile does so until the next time.
        arrivals.pause(&poll, 2);
        arrivals.end_pauses(&poll, paused);
        assert_eq!(arrivals.accepting(&arrivals.paused), [0, 1]);
        assert_eq!(poll.add_listener(&arrivals.listeners[1].socket, 1), Err(Errno::EXIST));
    }

    #[test]
    fn listeners_replaced_during_a_pause_are_waited_at_once() {
        let (mut arrivals, poll) = arrivals(3);
        arrivals.pause(&poll, 0);
        arrivals.pause(&poll, 2);
        let paused = arrivals.take_paused();
        let kept = Arc::clone(&arrivals.listeners[0]);
        arrivals.replace_listeners(&poll, vec![kept]);
        arrivals.end_pauses(&poll, paused);
        assert!(arrivals.paused.is_empty());
        assert_eq!(arrivals.accepting(&[]), [0]);
        assert_eq!(poll.add_listener(&arrivals.listeners[0].socket, 0), Err(Errno::EXIST));
    }

    #[test]
    fn others_are_looked_at_once_a_connection_is_overdue() {
        let (mut arrivals, _poll) = arrivals(0);
        assert!(!arrivals.is_overdue(u64::MAX));
        arrivals.hand_over(10);
        arrivals.hand_over(50);
        assert_eq!(arrivals.look_again_us(), Some(10 + OVERDUE_US), "the oldest one counts");
        assert!(!arrivals.is_overdue(9 + OVERDUE_US) && arrivals.is_overdue(10 + OVERDUE_US));
        arrivals.look_at_others(100, true);
        assert_eq!(arrivals.look_again_us(), Some(100 + OVERDUE_US));
        arrivals.look_at_others(200, false);
        assert_eq!(arrivals.look_again_us(), None);
    }
}
