//! Sizes and times of persistence.

/// Bytes that are read from a log at a time.
pub const SCAN_BYTES: usize = 256 * 1024;

/// Time between two syncs under `appendfsync everysec`, in milliseconds.
pub const SYNC_MS: u64 = 1000;

/// Time after which the log's thread looks for something to write unasked, and tries again after a
/// failure, in milliseconds.
pub const RETRY_MS: u64 = 500;

/// Longest time that a write waits for a sync to end, in milliseconds; as Valkey's.
pub const WRITE_POSTPONED_MS_MAX: u64 = 2000;

/// Bytes of replayed commands that are executed together.
pub const REPLAY_BYTES: usize = 64 * 1024;

/// Bytes of a write up to which its pieces are gathered, so that it is one system call.
pub const GATHERED_BYTES_MAX: usize = 64 * 1024;
