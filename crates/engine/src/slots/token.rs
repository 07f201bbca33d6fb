//! The server's single token: its holder may wait for slots while it has others, and close the
//! gate.
//!
//! It passes in the order of arrival. A session that finds it taken joins a queue and parks; when
//! the token is given back, the first of the queue is woken, and nobody else can take it meanwhile.
//! A session that needs it no longer, or ends, leaves the queue: then the next one is woken.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_store::gate::Seat;

use crate::slots::mailbox::{Mailboxes, Message};
use crate::slots::parking::Ticket;

#[derive(Debug, Default)]
struct State {
    is_taken: bool,
    /// Sessions that wait for it, each once. A free token is the first one's.
    queue: VecDeque<Ticket>,
}

/// The token. Its mutex is taken by whole-keyspace commands, and by others after many vain attempts
/// to lock their slots; nothing blocks under it.
#[derive(Debug)]
pub struct Token {
    state: Mutex<State>,
    /// Length of the queue, for sessions that leave: most were not in it.
    queued: AtomicUsize,
    mailboxes: Arc<Mailboxes>,
}

/// Possession of the token. Dropping it gives it back and wakes the next session.
#[derive(Debug)]
pub struct TokenGuard<'k> {
    token: &'k Token,
    /// The holder's seat at the gate, which only the holder may close; none once it is detached.
    seat: Option<Rc<Seat>>,
}

/// Possession of the token that outlives what it was borrowed from. It is never given back unless
/// it is [attached](Token::attach) again.
#[derive(Debug)]
#[must_use = "the token stays taken"]
pub struct DetachedToken(Rc<Seat>);

impl TokenGuard<'_> {
    pub(crate) fn seat(&self) -> &Seat {
        self.seat.as_ref().expect("a guard that is used has its seat")
    }

    /// Detaches the possession: the token stays taken.
    pub(crate) fn detach(mut self) -> DetachedToken {
        DetachedToken(self.seat.take().expect("a guard that is used has its seat"))
    }
}

impl Token {
    /// A free token; wake-ups go to `mailboxes`.
    #[must_use]
    pub fn new(mailboxes: Arc<Mailboxes>) -> Token {
        Token { state: Mutex::default(), queued: AtomicUsize::new(0), mailboxes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the token for a session of the member with this seat, if it is free and nobody came
    /// earlier. Otherwise the session is in the queue: it is woken when its turn has come, and has
    /// to [leave](Token::leave) when it does without. Never waits.
    #[must_use]
    pub fn try_take(&self, ticket: Ticket, seat: &Rc<Seat>) -> Option<TokenGuard<'_>> {
        self.is_turn_of(ticket).then(|| TokenGuard { token: self, seat: Some(Rc::clone(seat)) })
    }

    /// The possession that was detached.
    pub(crate) fn attach(&self, token: DetachedToken) -> TokenGuard<'_> {
        TokenGuard { token: self, seat: Some(token.0) }
    }

    /// True if a session is in the queue.
    #[must_use]
    pub(crate) fn is_awaited_by(&self, ticket: Ticket) -> bool {
        self.state().queue.contains(&ticket)
    }

    /// Sessions that wait for it.
    #[must_use]
    pub(crate) fn queue(&self) -> Vec<Ticket> {
        self.state().queue.iter().copied().collect()
    }

    /// Takes the token for a session, or puts the session into the queue.
    fn is_turn_of(&self, ticket: Ticket) -> bool {
        let mut state = self.state();
        let is_first = state.queue.front().is_none_or(|first| *first == ticket);
        if state.is_taken || !is_first {
            if !state.queue.contains(&ticket) {
                state.queue.push_back(ticket);
                self.note_length(&state);
            }
            return false;
        }
        state.is_taken = true;
        state.queue.pop_front();
        self.note_length(&state);
        true
    }

    /// Leaves the queue. Does nothing for a session that is not in it.
    pub fn leave(&self, ticket: Ticket) {
        // Relaxed: the session's own entry was made by this thread.
        if self.queued.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut state = self.state();
        let was_first = state.queue.front() == Some(&ticket);
        state.queue.retain(|other| *other != ticket);
        self.note_length(&state);
        if was_first && !state.is_taken {
            self.wake_first(state);
        }
    }

    fn note_length(&self, state: &State) {
        // Relaxed: see `leave`. Stored under the mutex, so the last store is of the last length.
        self.queued.store(state.queue.len(), Ordering::Relaxed);
    }

    fn give_back(&self) {
        let mut state = self.state();
        state.is_taken = false;
        self.wake_first(state);
    }

    fn wake_first(&self, state: MutexGuard<'_, State>) {
        let first = state.queue.front().copied();
        drop(state);
        if let Some(Ticket { worker, session }) = first
            && worker != Ticket::THREAD
        {
            self.mailboxes.post(worker, Message::Wake { session });
        }
    }
}

impl Drop for TokenGuard<'_> {
    fn drop(&mut self) {
        if self.seat.is_some() {
            self.token.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::mailbox::Notify;

    struct Silent;

    impl Notify for Silent {
        fn notify(&self) {}
    }

    fn token() -> (Token, Arc<Mailboxes>) {
        let mailboxes = Arc::new(Mailboxes::new(vec![Box::new(Silent)]));
        (Token::new(Arc::clone(&mailboxes)), mailboxes)
    }

    fn ticket(session: u64) -> Ticket {
        Ticket { worker: 0, session }
    }

    fn woken(mailboxes: &Mailboxes) -> Vec<u64> {
        let session = |message: Message| match message {
            Message::Wake { session } => session,
            other => panic!("{other:?}"),
        };
        mailboxes.take(0).into_iter().map(session).collect()
    }

    #[test]
    fn it_passes_in_the_order_of_arrival_and_nobody_overtakes() {
        let (token, mailboxes) = token();
        assert!(token.is_turn_of(ticket(1)));
        for session in [2, 3, 2, 4] {
            assert!(!token.is_turn_of(ticket(session)));
        }
        for session in 2..=4 {
            token.give_back();
            assert_eq!(woken(&mailboxes), [session]);
            assert!(!token.is_turn_of(ticket(9)), "{session} was first");
            assert!(token.is_turn_of(ticket(session)), "{session}");
        }
        token.give_back();
        assert_eq!(woken(&mailboxes), [9]);
    }

    #[test]
    fn it_passes_on_when_the_next_session_leaves() {
        let (token, mailboxes) = token();
        assert!(token.is_turn_of(ticket(1)));
        for session in 2..=4 {
            assert!(!token.is_turn_of(ticket(session)));
        }
        token.leave(ticket(2));
        assert_eq!(woken(&mailboxes), [0; 0], "it is taken");
        token.give_back();
        assert_eq!(woken(&mailboxes), [3]);
        token.leave(ticket(4));
        token.leave(ticket(5));
        assert_eq!(woken(&mailboxes), [0; 0], "it is the third one's still");
        token.leave(ticket(3));
        assert_eq!(woken(&mailboxes), [0; 0], "nobody is left");
        assert!(token.is_turn_of(ticket(6)));
    }
}
