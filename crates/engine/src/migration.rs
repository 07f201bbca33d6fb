//! Keys on their way to another server (`MIGRATE`): what the host is asked for, and what became of
//! it.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Requests to another server, in RESP.
#[derive(Debug)]
pub struct MigrationRequest {
    /// Name or address of the server.
    pub host: Vec<u8>,
    /// Its port, as it was given: whatever is no port cannot be connected to.
    pub port: i64,
    /// Most milliseconds that connecting, a write or a read may take; at least 1.
    pub timeout_ms: u64,
    /// `AUTH`, if that is wanted.
    pub authentication: Option<Vec<u8>>,
    /// Database to select.
    pub database: i64,
    /// Requests, end to end, each of which is answered by one line.
    pub commands: Vec<u8>,
    /// Their number.
    pub count: usize,
}

/// End of a [`MigrationRequest`].
#[derive(Debug, PartialEq, Eq)]
pub enum MigrationEnd {
    /// Answers to the requests: nothing, or an error without its `-`.
    Answered(Vec<Result<(), Vec<u8>>>),
    /// Error of `AUTH` or `SELECT`, without its `-`; whether the requests behind were carried out
    /// does not count.
    Refused(Vec<u8>),
    /// No connection.
    Unconnected,
    /// The connection broke, or it took too long to write.
    Unwritten,
    /// The connection broke, or it took too long to read. The requests may have been carried out.
    Unread,
}

impl MigrationEnd {
    /// True if the connection is as the requests wanted it. Behind a refusal its user and its
    /// database are for the next requests to say, on a new one.
    #[must_use]
    pub fn leaves_connection(&self) -> bool {
        matches!(self, MigrationEnd::Answered(_))
    }
}

/// Receiver of the end of a migration, called by any thread.
pub type MigrationDone = Box<dyn FnOnce(MigrationEnd) + Send>;

#[derive(Default)]
struct Place {
    end: Mutex<Option<MigrationEnd>>,
    ended: Condvar,
}

/// Key that was sent, as it was then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentKey {
    /// Its name.
    pub name: Vec<u8>,
    /// Checksum of its payload; none if the other server was to delete it, because it is gone.
    pub checksum: Option<u64>,
    /// Server's time in milliseconds at which it expires.
    pub expires_at_ms: Option<u64>,
}

/// Keys of one round of a `MIGRATE`.
#[derive(Debug)]
pub struct Sent {
    /// Keys of this round.
    pub keys: Vec<SentKey>,
    /// Keys that the other server has taken in rounds before, as they were sent.
    pub settled: Vec<SentKey>,
    /// Number of rounds before.
    pub rounds: u32,
    /// First error of the other server in rounds before.
    pub error: Option<Vec<u8>>,
}

/// Requests that are under way, and the keys that they send.
pub struct Migration {
    /// The keys.
    pub sent: Sent,
    place: Arc<Place>,
}

impl fmt::Debug for Migration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Migration").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl Migration {
    /// Migration that `begin` begins: it is given what to call at the end. `wake` is called behind
    /// that.
    pub fn begin(
        sent: Sent,
        wake: impl FnOnce() + Send + 'static,
        begin: impl FnOnce(MigrationDone),
    ) -> Migration {
        let place = Arc::new(Place::default());
        let told = Arc::clone(&place);
        begin(Box::new(move |end| {
            *told.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
            told.ended.notify_all();
            wake();
        }));
        Migration { sent, place }
    }

    /// The end, once; none while it is under way.
    #[must_use]
    pub fn take_end(&self) -> Option<MigrationEnd> {
        self.place.end.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Blocks until it has ended.
    pub fn wait(&self) {
        let end = self.place.end.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.place.ended.wait_while(end, |end| end.is_none());
        drop(ended.unwrap_or_else(PoisonError::into_inner));
    }
}
