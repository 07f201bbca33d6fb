//! Lines of the log that clients cause, at limited rates: clients must not fill the log.
//!
//! Touches the log only; times are given.

use tidemill_engine::telemetry::line_rate::LineRate;

use crate::limits::{
    EXHAUSTED_LINE_US, HTTP_LINE_US, UNAUTHENTICATED_INPUT_BYTES_MAX, UNAUTHENTICATED_LINE_US,
    UNAUTHENTICATED_OUTPUT_BYTES_MAX,
};

/// Lines of one worker that have a rate.
#[derive(Debug)]
pub(super) struct LogLines {
    exhausted: LineRate,
    http: LineRate,
    unauthenticated: LineRate,
    /// Number of clients without authentication that were closed at their limits and are not logged
    /// yet.
    closed_count: u64,
    /// Description of the last of them, as in the log.
    last_closed: String,
}

impl LogLines {
    pub(super) fn new() -> LogLines {
        LogLines {
            exhausted: LineRate::new(EXHAUSTED_LINE_US),
            http: LineRate::new(HTTP_LINE_US),
            unauthenticated: LineRate::new(UNAUTHENTICATED_LINE_US),
            closed_count: 0,
            last_closed: String::new(),
        }
    }

    /// Logs that the system has no means for another connection.
    pub(super) fn warn_exhausted(&mut self, now_us: u64, reason: &str) {
        if self.exhausted.admits(now_us) {
            log::warn!("Accepting client connection: accept: {reason}");
        }
    }

    /// Logs that the client at an address spoke HTTP.
    pub(super) fn warn_http(&mut self, now_us: u64, address: &str) {
        if self.http.admits(now_us) {
            log::warn!(
                "Possible SECURITY ATTACK detected. {address} sent POST or Host:, as a web page \
                 does that makes its visitors' browsers talk to this server (cross-protocol \
                 scripting). It was disconnected."
            );
        }
    }

    /// Counts a client without authentication that was closed at its limits; `description` is as in
    /// the log.
    pub(super) fn count_closed_unauthenticated(&mut self, description: String) {
        self.closed_count += 1;
        self.last_closed = description;
    }

    /// Logs the clients that were counted: at once, and then rarely.
    pub(super) fn warn_closed_unauthenticated(&mut self, now_us: u64) {
        if self.closed_count == 0 || !self.unauthenticated.admits(now_us) {
            return;
        }
        let LogLines { closed_count, last_closed, .. } = self;
        log::warn!(
            "Closed {} that had not authenticated and had more than \
             {UNAUTHENTICATED_INPUT_BYTES_MAX} bytes of a request, or \
             {UNAUTHENTICATED_OUTPUT_BYTES_MAX} bytes of replies that it did not take; the last: \
             {last_closed}",
            if *closed_count == 1 { "a client".into() } else { format!("{closed_count} clients") },
        );
        *closed_count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_clients_are_counted_until_their_line() {
        let mut lines = LogLines::new();
        lines.warn_closed_unauthenticated(5);
        lines.count_closed_unauthenticated("first".into());
        lines.warn_closed_unauthenticated(5);
        assert_eq!(lines.closed_count, 0, "no line was written before the first client");
        lines.count_closed_unauthenticated("second".into());
        lines.count_closed_unauthenticated("third".into());
        lines.warn_closed_unauthenticated(6);
        assert_eq!((lines.closed_count, lines.last_closed.as_str()), (2, "third"));
        lines.warn_closed_unauthenticated(5 + UNAUTHENTICATED_LINE_US);
        assert_eq!(lines.closed_count, 0);
    }
}
