//! Sizes and times of persistence.

use std::time::Duration;

/// Bytes that are read from a log at a time.
pub const SCAN_BYTES: usize = 256 * 1024;

/// Time that a sync takes more on a disk that tests want to be slow.
pub const SLOW_SYNC: Duration = Duration::from_secs(1);

/// Time that a group of `always` gathers for, at most.
pub const GATHERING_MAX: Duration = Duration::from_millis(1);

/// Time between two syncs under `appendfsync everysec`, in milliseconds.
pub const SYNC_MS: u64 = 1000;

/// Time after which the log's thread looks for something to write unasked, and tries again after a
/// failure, in milliseconds.
pub const RETRY_MS: u64 = 500;

/// Time that a sync may run beside writes before that is told; as long as Valkey waits for one.
pub const LATE_SYNC: Duration = Duration::from_secs(2);

/// Bytes of replayed commands that are executed together.
pub const REPLAY_BYTES: usize = 64 * 1024;

/// Bytes of replayed commands that were read ahead, unless one alone is larger.
pub const REPLAY_AHEAD_BYTES: usize = 4 * REPLAY_BYTES;

/// Bytes of a write up to which its pieces are gathered, so that it is one system call.
pub const GATHERED_BYTES_MAX: usize = 64 * 1024;
/// Bytes that are read from a file at a time.
pub const LOAD_CHUNK_BYTES: usize = 256 << 10;

/// Databases of which statistics of a file are kept, some 3 KiB each; a file may name any number.
pub const STATISTICS_DATABASES_MAX: usize = 10_000;

/// Bytes of a snapshot that are written to its file at a time: enough for a device to be busy with.
pub const BLOCK_BYTES: usize = 1 << 20;

/// Alignment of such bytes in memory and in the file: blocks of devices are no larger.
pub const BLOCK_ALIGNMENT: usize = 4096;

/// Blocks that wait to be written, at most.
pub const BLOCKS_QUEUED: usize = 2;

const _: () = assert!(BLOCK_BYTES.is_multiple_of(BLOCK_ALIGNMENT));

/// Bytes of a snapshot after which it is synced while it is written, as in Valkey.
pub const SYNC_STEP_BYTES: u64 = 4 << 20;

/// Bytes of strings that the parser of a file hands over at a time.
pub const BATCH_BYTES: usize = 64 << 10;

/// Keys and elements that it hands over at a time, at most.
pub const BATCH_PARTS: usize = 4096;

/// Batches that wait for an inserter, at most.
pub const BATCHES_QUEUED: usize = 4;

/// Bytes of a string of a file from which on the system is asked for memory first.
pub const LARGE_ITEM_BYTES: usize = 1 << 20;

/// Keys that are put into the keyspace at a time.
pub const PUT_KEYS: usize = 32;

/// Empty keys that one inserter writes into the log, at most.
pub const EMPTY_KEYS_LOGGED: u64 = 10;

/// Threads that insert what a file holds, at most: the parser is not faster than these.
pub const INSERTERS_MAX: usize = 8;

/// Pause of a load when the slot of its key is locked.
pub const SLOT_PAUSE: Duration = Duration::from_micros(20);

/// Pause of a walk when all slots that are left are locked by others.
pub const WALK_PAUSE: Duration = Duration::from_micros(50);
