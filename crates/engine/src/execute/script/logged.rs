//! Entries of logs that a run causes, until it counts.
//!
//! A run that begins anew has done nothing, so that whatever tells of its commands waits as they do
//! themselves ([`super::ran`]): entries of `SLOWLOG` and `ACL LOG`, and lines of `redis.log` and of
//! `MONITOR`. A log keeps its latest entries, so a run need keep no more of them. Latency events
//! are told at once, of each attempt: the time has passed.

use std::collections::VecDeque;

use crate::acl::{Denied, LogEntry as Denial};
use crate::admin::acl::{count_denials, log_denial};
use crate::limits::{RUN_LINE_OVERHEAD_BYTES, RUN_LINES_BYTES_MAX, RUN_SLOW_ENTRIES_MAX};
use crate::shared::Shared;
use crate::telemetry::command_log::{LogEntry, LogKind};
use crate::worker::Worker;

/// Line of `redis.log`.
#[derive(Debug)]
struct Line {
    level: u8,
    text: Vec<u8>,
}

/// Lines of a run for monitors: its own, and those of its commands.
#[derive(Debug, Default)]
pub(super) struct ShownLines {
    lines: Vec<Vec<u8>>,
    bytes: usize,
}

impl ShownLines {
    /// Adds a line. When all take much memory, they are sent, and appear again if the run begins
    /// anew.
    pub(super) fn push(&mut self, shared: &Shared, line: Vec<u8>) {
        self.bytes += line.len() + RUN_LINE_OVERHEAD_BYTES;
        self.lines.push(line);
        if self.bytes > RUN_LINES_BYTES_MAX {
            self.send(shared);
        }
    }

    /// Sends the lines so far.
    pub(super) fn send(&mut self, shared: &Shared) {
        self.bytes = 0;
        for line in self.lines.drain(..) {
            shared.monitors.send(&shared.lanes, &line.into());
        }
    }
}

/// Entries and lines of a run, each kind in its order.
#[derive(Debug, Default)]
pub(super) struct Logged {
    slow: VecDeque<LogEntry>,
    denials: crate::acl::Log,
    /// Numbers of all denials, by reason.
    denied: Vec<(Denied, u64)>,
    lines: Vec<Line>,
    line_bytes: usize,
}

impl Logged {
    /// Adds a command to the log of slow ones.
    pub(super) fn push_slow(&mut self, entries_max: usize, entry: LogEntry) {
        self.slow.push_back(entry);
        if self.slow.len() > entries_max.min(RUN_SLOW_ENTRIES_MAX) {
            self.slow.pop_front();
        }
    }

    /// Adds a denied call.
    pub(super) fn push_denial(&mut self, entries_max: usize, entry: Denial) {
        match self.denied.iter_mut().find(|(denied, _)| *denied == entry.denied) {
            Some((_, count)) => *count += entry.count,
            None => self.denied.push((entry.denied, entry.count)),
        }
        self.denials.add(entries_max, entry);
    }

    /// Adds a line of `redis.log`. When all take much memory, those so far are written, and appear
    /// again if the run begins anew.
    pub(super) fn push_line(&mut self, shared: &Shared, level: u8, text: &[u8]) {
        self.line_bytes += text.len() + RUN_LINE_OVERHEAD_BYTES;
        if self.line_bytes > RUN_LINES_BYTES_MAX {
            self.write_lines(shared);
            return shared.host.log(level, text);
        }
        self.lines.push(Line { level, text: text.to_vec() });
    }

    fn write_lines(&mut self, shared: &Shared) {
        self.line_bytes = 0;
        for Line { level, text } in self.lines.drain(..) {
            shared.host.log(level, &text);
        }
    }

    /// Puts everything into the logs: the run does not begin anew.
    #[cold]
    pub(super) fn publish(mut self, (shared, worker): (&Shared, &Worker)) {
        self.write_lines(shared);
        let entries_max = worker.settings.command_logs[LogKind::Slow as usize].entries_max;
        for entry in self.slow {
            shared.command_logs.push(LogKind::Slow, entries_max, entry);
        }
        for (denied, count) in self.denied {
            count_denials((shared, worker), denied, count);
        }
        for entry in self.denials.latest(usize::MAX).into_iter().rev() {
            log_denial((shared, worker), entry);
        }
    }
}
