//! `ACL LOG`: what was denied, the latest first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::denial::Reason;
use crate::limits::{ACL_LOG_OBJECT_BYTES_MAX, ACL_LOG_SCANNED_MAX, ACL_LOG_WINDOW_MS};

/// Denied request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Name and password.
    Authentication,
    /// Certificate of a TLS client.
    Certificate,
    /// A call.
    Call(Reason),
}

impl Denied {
    /// Its name in the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Denied::Authentication => "auth",
            Denied::Certificate => "tls-cert",
            Denied::Call(Reason::Command) => "command",
            Denied::Call(Reason::Key) => "key",
            Denied::Call(Reason::Channel) => "channel",
            Denied::Call(Reason::Database) => "database",
        }
    }
}

/// Way by which a denied call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// By itself.
    TopLevel,
    /// In a transaction.
    Multi,
    /// In a script.
    Lua,
}

impl Context {
    /// Its name in the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// An entry: something that was denied, once or several times within a minute.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Number of times.
    pub count: u64,
    /// Denied request.
    pub denied: Denied,
    /// Way by which it came.
    pub context: Context,
    /// Command, key, channel or database.
    pub object: Vec<u8>,
    /// Name of the user.
    pub user: Vec<u8>,
    /// Line of `CLIENT LIST` about the client, the last time.
    pub client: String,
    /// Number of the entry, ascending since the server started.
    pub id: u64,
    /// Unix time in milliseconds of the first time.
    pub created_ms: u64,
    /// Unix time in milliseconds of the last time.
    pub updated_ms: u64,
}

impl LogEntry {
    /// An entry of `now_ms` for something that was denied once. Long texts are cut.
    #[must_use]
    pub fn new(
        (denied, context): (Denied, Context),
        object: &[u8],
        user: &[u8],
        client: String,
        now_ms: u64,
    ) -> LogEntry {
        let cut = |text: &[u8]| text[..text.len().min(ACL_LOG_OBJECT_BYTES_MAX)].to_vec();
        LogEntry {
            count: 1,
            denied,
            context,
            object: cut(object),
            user: cut(user),
            client: String::from_utf8_lossy(&cut(client.as_bytes())).into_owned(),
            id: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }

    fn is_repeated_by(&self, later: &LogEntry) -> bool {
        self.denied == later.denied
            && self.context == later.context
            && later.updated_ms.abs_diff(self.updated_ms) <= ACL_LOG_WINDOW_MS
            && self.object == later.object
            && self.user == later.user
    }
}

#[derive(Debug, Default)]
struct Entries {
    /// The latest first.
    latest: VecDeque<LogEntry>,
    next_id: u64,
}

/// The log.
#[derive(Debug, Default)]
pub struct Log(Mutex<Entries>);

impl Log {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry, or counts it with one of the same kind, and keeps the latest `entries_max`.
    pub fn add(&self, entries_max: usize, mut entry: LogEntry) {
        let mut entries = self.entries();
        let mut scanned = entries.latest.iter().take(ACL_LOG_SCANNED_MAX);
        match scanned.position(|earlier| earlier.is_repeated_by(&entry)) {
            Some(index) => {
                let earlier = entries.latest.remove(index).expect("an index of the log");
                entry.count += earlier.count;
                (entry.id, entry.created_ms) = (earlier.id, earlier.created_ms);
            }
            None => {
                entry.id = entries.next_id;
                entries.next_id += 1;
            }
        }
        entries.latest.push_front(entry);
        entries.latest.truncate(entries_max);
    }

    /// The latest `count` entries, the latest first.
    #[must_use]
    pub fn latest(&self, count: usize) -> Vec<LogEntry> {
        self.entries().latest.iter().take(count).cloned().collect()
    }

    /// Forgets all entries.
    pub fn reset(&self) {
        self.entries().latest.clear();
    }
}
