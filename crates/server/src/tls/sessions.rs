//! Sessions that clients may resume.
//!
//! Bounded in number, bytes and time, and gone with the context that they belong to: a client whose
//! authority is no longer trusted cannot come back by an old session.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::server::StoresServerSessions;

use crate::limits::{TLS_SESSIONS_BYTES_MAX, TLS_SESSIONS_MAX};

/// Sessions by the ids that clients show.
pub(super) struct SessionCache {
    state: Mutex<State>,
    sessions_max: usize,
    kept: Duration,
}

#[derive(Default)]
struct State {
    sessions: HashMap<Vec<u8>, Session>,
    /// Ids with their numbers, the oldest first. Those of sessions that were taken stay until it is
    /// their turn.
    order: VecDeque<(u64, Vec<u8>)>,
    next_number: u64,
    bytes: usize,
}

struct Session {
    number: u64,
    secrets: Vec<u8>,
    since: Instant,
}

/// Without the secrets.
impl fmt::Debug for SessionCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SessionCache { sessions_max, kept, .. } = self;
        formatter
            .debug_struct("SessionCache")
            .field("sessions_max", sessions_max)
            .field("kept", kept)
            .finish_non_exhaustive()
    }
}

impl State {
    fn remove(&mut self, id: &[u8]) -> Option<Session> {
        let session = self.sessions.remove(id)?;
        self.bytes -= session.secrets.len();
        Some(session)
    }

    fn remove_oldest(&mut self) -> bool {
        let Some((number, id)) = self.order.pop_front() else { return false };
        if self.sessions.get(&id).is_some_and(|session| session.number == number) {
            self.remove(&id);
        }
        true
    }
}

impl SessionCache {
    /// A cache of at most `sessions_max` sessions, 0 for [`TLS_SESSIONS_MAX`], each for `kept`.
    pub(super) fn new(sessions_max: usize, kept: Duration) -> SessionCache {
        let sessions_max = if sessions_max == 0 { TLS_SESSIONS_MAX } else { sessions_max };
        let state = Mutex::default();
        SessionCache { state, sessions_max: sessions_max.min(TLS_SESSIONS_MAX), kept }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_fresh(&self, session: &Session) -> bool {
        session.since.elapsed() < self.kept
    }
}

impl StoresServerSessions for SessionCache {
    fn put(&self, id: Vec<u8>, secrets: Vec<u8>) -> bool {
        if secrets.len() > TLS_SESSIONS_BYTES_MAX {
            return false;
        }
        let mut state = self.state();
        state.remove(&id);
        let is_full = |state: &State| {
            state.order.len() >= self.sessions_max
                || state.bytes + secrets.len() > TLS_SESSIONS_BYTES_MAX
        };
        while is_full(&state) && state.remove_oldest() {}
        let number = state.next_number;
        state.next_number += 1;
        state.bytes += secrets.len();
        state.order.push_back((number, id.clone()));
        state.sessions.insert(id, Session { number, secrets, since: Instant::now() });
        true
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        let state = self.state();
        let session = state.sessions.get(id).filter(|session| self.is_fresh(session))?;
        Some(session.secrets.clone())
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let session = self.state().remove(id)?;
        self.is_fresh(&session).then_some(session.secrets)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1000);

    fn put(cache: &SessionCache, id: u8, bytes: usize) -> bool {
        cache.put(vec![id], vec![id; bytes])
    }

    #[test]
    fn oldest_sessions_make_room() {
        let cache = SessionCache::new(2, LONG);
        assert!(put(&cache, 1, 10) && put(&cache, 2, 10) && put(&cache, 3, 10));
        assert_eq!(cache.get(&[1]), None);
        assert_eq!(cache.take(&[2]), Some(vec![2; 10]));
        assert_eq!(cache.take(&[2]), None, "taken once");
        assert!(put(&cache, 4, 10) && put(&cache, 5, 10));
        let kept: Vec<u8> = (1..=5).filter(|&id| cache.get(&[id]).is_some()).collect();
        assert_eq!(kept, [4, 5]);
        let state = cache.state();
        assert_eq!((state.order.len(), state.bytes), (2, 20));
    }

    #[test]
    fn session_that_is_replaced_keeps_its_new_place() {
        let cache = SessionCache::new(3, LONG);
        assert!(put(&cache, 1, 10) && put(&cache, 2, 10) && put(&cache, 1, 20));
        assert!(put(&cache, 3, 10), "the old place of 1 goes");
        assert_eq!(cache.get(&[1]), Some(vec![1; 20]));
        assert_eq!(cache.state().bytes, 40);
    }

    #[test]
    fn bytes_are_bounded_whatever_the_number() {
        let cache = SessionCache::new(0, LONG);
        let half = TLS_SESSIONS_BYTES_MAX / 2;
        assert!(put(&cache, 1, half) && put(&cache, 2, half) && put(&cache, 3, half));
        assert!(cache.get(&[1]).is_none() && cache.get(&[3]).is_some());
        assert!(!put(&cache, 4, TLS_SESSIONS_BYTES_MAX + 1));
        assert!(cache.state().bytes <= TLS_SESSIONS_BYTES_MAX);
    }

    #[test]
    fn old_session_is_not_resumed() {
        let cache = SessionCache::new(10, Duration::ZERO);
        assert!(put(&cache, 1, 10));
        assert!(cache.get(&[1]).is_none() && cache.take(&[1]).is_none());
    }
}
