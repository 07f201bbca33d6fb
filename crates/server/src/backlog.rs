//! Limits on a client's backlog: requests that are not executed and replies that are not sent.
//!
//! Limits and their meaning are Valkey's. One thing is added: while no hard limit is set, a client
//! whose unsent replies pass [`BLOCKED_OUTPUT_BYTES`] is *output blocked*: no command of it is
//! executed until it has taken half of them, and it is read slowly. A client that sends all of a
//! long pipeline before it reads still gets every reply, as in Valkey; memory grows by its requests
//! instead of its replies, and its neighbours lose little time to it. Clients without
//! authentication have limits of their own: see `worker::unauthenticated`.

use tidemill_engine::config::OutputBufferLimit;

use crate::limits::{BLOCKED_OUTPUT_BYTES, FRESH_BYTES_MIN};

/// Time since which a client has been above its soft limit, in monotonic microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SoftLimit(Option<u64>);

impl SoftLimit {
    /// True if `unsent_bytes` of replies end the client.
    pub(crate) fn is_exceeded(
        &mut self,
        limit: OutputBufferLimit,
        unsent_bytes: u64,
        now_us: impl FnOnce() -> u64,
    ) -> bool {
        if limit.hard_bytes > 0 && unsent_bytes >= limit.hard_bytes {
            return true;
        }
        if limit.soft_bytes == 0 || unsent_bytes < limit.soft_bytes {
            self.0 = None;
            return false;
        }
        let now_us = now_us();
        let since_us = *self.0.get_or_insert(now_us);
        now_us.saturating_sub(since_us) / 1_000_000 > limit.soft_seconds
    }
}

/// Bytes of unsent replies above which a client is output blocked.
pub(crate) fn output_blocked_from_bytes(limit: OutputBufferLimit) -> u64 {
    if limit.hard_bytes > 0 { u64::MAX } else { BLOCKED_OUTPUT_BYTES.max(limit.soft_bytes) }
}

/// Bytes of replies, those included that were not offered to the socket yet, at which a client
/// exceeds its hard limit. Fewer than fit Valkey's own buffer of a client never do.
pub(crate) fn fresh_bytes_max(limit: OutputBufferLimit) -> u64 {
    match limit.hard_bytes {
        0 => u64::MAX,
        bytes => bytes.max(FRESH_BYTES_MIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    #[test]
    fn a_soft_limit_ends_a_client_after_its_seconds_only_when_never_left() {
        let limit = OutputBufferLimit { hard_bytes: 0, soft_bytes: 10, soft_seconds: 2 };
        let mut soft = SoftLimit::default();
        let mut at =
            |second: u64, bytes: u64| soft.is_exceeded(limit, bytes, || second * SECOND_US);
        assert_eq!([at(0, 10), at(2, 10), at(2, 9), at(3, 50), at(5, 50)], [false; 5]);
        assert!(at(6, 10));
    }

    #[test]
    fn a_hard_limit_ends_a_client_at_once() {
        let limit = OutputBufferLimit { hard_bytes: 100, soft_bytes: 0, soft_seconds: 0 };
        let mut soft = SoftLimit::default();
        assert!(!soft.is_exceeded(limit, 99, || 0));
        assert!(soft.is_exceeded(limit, 100, || 0));
        assert_eq!(output_blocked_from_bytes(limit), u64::MAX);
        assert!(!SoftLimit::default().is_exceeded(OutputBufferLimit::default(), u64::MAX, || 0));
    }
}
