//! The logs behind `SLOWLOG` and `COMMANDLOG`: commands that took long, and requests and replies
//! that were large.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::{LOGGED_ARGUMENT_BYTES_MAX, LOGGED_ARGUMENTS_MAX, LOGGED_NAME_BYTES_MAX};

/// Measure of a command by which it gets into a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Its time, in microseconds.
    Slow,
    /// The bytes of its request.
    LargeRequest,
    /// The bytes of its reply.
    LargeReply,
}

impl LogKind {
    /// The kind that `COMMANDLOG` calls so, in any case.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<LogKind> {
        [
            ("slow", LogKind::Slow),
            ("large-request", LogKind::LargeRequest),
            ("large-reply", LogKind::LargeReply),
        ]
        .into_iter()
        .find_map(|(known, kind)| name.eq_ignore_ascii_case(known.as_bytes()).then_some(kind))
    }
}

/// Threshold and size of a log. One per [`LogKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// The least value that is logged; `u64::MAX` logs nothing.
    pub value_min: u64,
    /// Entries that are kept; the oldest go first.
    pub entries_max: usize,
}

/// A command in a log.
#[derive(Debug)]
pub struct LogEntry {
    /// Its number in this log, ascending since the server started.
    pub id: u64,
    /// Unix time in seconds at which it ended.
    pub unix_s: u64,
    /// Microseconds or bytes, by kind.
    pub value: u64,
    /// Its arguments, shortened.
    pub arguments: Vec<Vec<u8>>,
    /// The client's address.
    pub client_address: String,
    /// The client's name.
    pub client_name: Arc<[u8]>,
}

#[derive(Debug, Default)]
struct Log {
    /// The newest first.
    entries: Mutex<(VecDeque<Arc<LogEntry>>, u64)>,
    count: AtomicUsize,
}

impl Log {
    fn with<T>(&self, work: impl FnOnce(&mut VecDeque<Arc<LogEntry>>, &mut u64) -> T) -> T {
        let mut guard = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (entries, next_id) = &mut *guard;
        let result = work(entries, next_id);
        // Relaxed: for a count that is only reported.
        self.count.store(entries.len(), Ordering::Relaxed);
        result
    }
}

/// The three logs of a server.
#[derive(Debug, Default)]
pub struct CommandLogs {
    logs: [Log; 3],
}

impl CommandLogs {
    fn log(&self, kind: LogKind) -> &Log {
        &self.logs[kind as usize]
    }

    /// Adds an entry, whose id is given here, and forgets the oldest beyond `entries_max`.
    pub fn push(&self, kind: LogKind, entries_max: usize, mut entry: LogEntry) {
        if entries_max == 0 {
            return;
        }
        self.log(kind).with(|entries, next_id| {
            entry.id = *next_id;
            *next_id += 1;
            entries.push_front(Arc::new(entry));
            entries.truncate(entries_max);
        });
    }

    /// The newest `count` entries, newest first.
    #[must_use]
    pub fn newest(&self, kind: LogKind, count: usize) -> Vec<Arc<LogEntry>> {
        self.log(kind).with(|entries, _| entries.iter().take(count).cloned().collect())
    }

    /// Number of entries of a log.
    #[must_use]
    pub fn len(&self, kind: LogKind) -> usize {
        // Relaxed: as where it is stored.
        self.log(kind).count.load(Ordering::Relaxed)
    }

    /// Forgets all entries of a log.
    pub fn reset(&self, kind: LogKind) {
        self.log(kind).with(|entries, _| entries.clear());
    }
}

/// Arguments as a log keeps them: the first of many, the beginning of long ones.
pub fn shortened<'a>(arguments: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let count = arguments.len();
    let shown = if count > LOGGED_ARGUMENTS_MAX { LOGGED_ARGUMENTS_MAX - 1 } else { count };
    let mut kept: Vec<Vec<u8>> = arguments.take(shown).map(shortened_argument).collect();
    if shown < count {
        kept.push(format!("... ({} more arguments)", count - shown).into_bytes());
    }
    kept
}

/// The name of a client as a log keeps it: the beginning of a long one, which would outlast the
/// client.
pub fn shortened_name(name: Arc<[u8]>) -> Arc<[u8]> {
    match name.len() > LOGGED_NAME_BYTES_MAX {
        true => shortened_to(LOGGED_NAME_BYTES_MAX, &name).into(),
        false => name,
    }
}

fn shortened_argument(argument: &[u8]) -> Vec<u8> {
    shortened_to(LOGGED_ARGUMENT_BYTES_MAX, argument)
}

fn shortened_to(bytes_max: usize, argument: &[u8]) -> Vec<u8> {
    let Some((kept, rest)) = argument.split_at_checked(bytes_max) else {
        return argument.to_vec();
    };
    if rest.is_empty() {
        return argument.to_vec();
    }
    let mut text = kept.to_vec();
    text.extend_from_slice(format!("... ({} more bytes)", rest.len()).as_bytes());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: u64) -> LogEntry {
        LogEntry {
            id: 0,
            unix_s: 1,
            value,
            arguments: Vec::new(),
            client_address: String::new(),
            client_name: Arc::default(),
        }
    }

    #[test]
    fn the_newest_stay_and_ids_go_on_after_a_reset() {
        let logs = CommandLogs::default();
        (0..5).for_each(|value| logs.push(LogKind::Slow, 3, entry(value)));
        let values = |logs: &CommandLogs| -> Vec<(u64, u64)> {
            let entries = logs.newest(LogKind::Slow, usize::MAX);
            entries.iter().map(|entry| (entry.id, entry.value)).collect()
        };
        assert_eq!(values(&logs), [(4, 4), (3, 3), (2, 2)]);
        logs.push(LogKind::Slow, 0, entry(9));
        assert_eq!((logs.len(LogKind::Slow), logs.len(LogKind::LargeReply)), (3, 0));
        logs.reset(LogKind::Slow);
        assert_eq!(logs.len(LogKind::Slow), 0);
        logs.push(LogKind::Slow, 3, entry(9));
        assert_eq!(values(&logs), [(5, 9)]);
    }

    #[test]
    fn arguments_are_cut_where_valkey_cuts_them() {
        let arguments = |count: usize| (0..count).map(|_| &b"x"[..]).collect::<Vec<_>>();
        assert_eq!(shortened(arguments(32).into_iter()).len(), 32);
        let cut = shortened(arguments(37).into_iter());
        assert_eq!((cut.len(), &cut[31][..]), (32, &b"... (6 more arguments)"[..]));
        let (exact, long) = (vec![b'a'; 128], vec![b'a'; 154]);
        let cut = shortened([&exact[..], &long[..]].into_iter());
        assert_eq!(cut[0], exact);
        assert_eq!(cut[1], [&exact[..], b"... (26 more bytes)"].concat());
    }
}
