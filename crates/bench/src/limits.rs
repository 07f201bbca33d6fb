//! Every tunable of the load generator, with its unit and its reason.

use std::time::Duration;

/// Interval at which a load thread publishes its counters for the progress line.
pub(crate) const PUBLISH_INTERVAL: Duration = Duration::from_millis(250);

/// Most command names in a recording of MONITOR; servers and their modules have a few hundred.
pub(crate) const REPLAY_NAMES_MAX: usize = 1024;

/// Interval at which the main thread checks for the end of the load threads.
pub(crate) const END_POLL: Duration = Duration::from_millis(5);

/// Width of a slot of the throughput series that the steadiness check reads.
pub(crate) const THROUGHPUT_SLOT_NS: u64 = 100_000_000;

/// Width of a slot of the latency series (memtier's `Time-Serie`).
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// One receive takes at most this much. memtier's 4 KiB cap costs it a call per 4 KiB of replies.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 128 * 1024;

/// Values from this size on are sent from the shared slab by `writev`, smaller ones are copied.
pub(crate) const VECTORED_VALUE_BYTES: usize = 4096;

/// Most slices in one `writev` (the kernel's IOV_MAX is 1024).
pub(crate) const VECTORED_SLICES: usize = 64;

/// Random bytes from which values are cut. Larger values use a slab of twice their size.
pub(crate) const SLAB_BYTES: usize = 1 << 20;

/// A value may be at most as large as Redis accepts (`proto-max-bulk-len`).
pub(crate) const VALUE_BYTES_MAX: usize = 512 << 20;

/// Maximum number of bytes of a reply that is looked at as a whole (`--verify`, SCAN).
pub(crate) const WHOLE_REPLY_BYTES_MAX: usize = VALUE_BYTES_MAX + 1024;

/// Keys of an MGET, at most (the most arguments that Redis takes).
pub(crate) const KEYS_PER_GET_MAX: u32 = 1 << 20;

/// Longest pause before a connection is made, in microseconds: an hour.
pub(crate) const CONNECT_JITTER_US_MAX: u64 = 3_600_000_000;

/// Maximum standard deviation of Gaussian keys, as a multiple of the key range: numbers outside of
/// it are drawn again, which takes some 2.5 draws per range that the deviation is wide.
pub(crate) const DEVIATION_RANGES_MAX: f64 = 100.0;

/// Requests on their way per connection, at most.
pub(crate) const PIPELINE_MAX: u32 = 1 << 20;

/// Threads, at most.
pub(crate) const THREADS_MAX: u32 = 1024;

/// Events taken from one `epoll_wait`.
pub(crate) const EVENTS_PER_WAIT: usize = 256;

/// Scheduled requests per second of an open loop, at most: far beyond what a network carries, and
/// what keeps a slip of the finger from filling the memory with requests that are due.
pub(crate) const RATE_MAX: f64 = 1e8;

/// Blocks of an experiment, at most.
pub(crate) const BLOCKS_MAX: usize = 10_000;

/// Servers of an arm, at most.
pub(crate) const INSTANCES_MAX: usize = 1024;

/// Subscribers of an arm, at most: one thread reads for all of them.
pub(crate) const SUBSCRIBERS_MAX: u64 = 10_000;

/// Connections that an arm holds open, at most: as many as there are source addresses for.
pub(crate) const IDLE_CONNECTIONS_MAX: u64 = 1_000_000_000;

/// Maximum number of bytes of a reply that is not part of the load.
pub(crate) const CONTROL_REPLY_BYTES_MAX: usize = 64 << 20;

/// After the deadline, how long replies to requests already sent are waited for. What is still
/// missing then is reported as unanswered.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// One reply in this many is compared with the value that was written, under `--verify`.
pub(crate) const VERIFY_ONE_IN: u64 = 1024;

/// Time that the handshake of a connection (AUTH, HELLO, SELECT) may take when no
/// `--connection-timeout` is given.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A percentile is printed only with at least this many samples beyond it.
pub(crate) const SAMPLES_BEYOND_PERCENTILE_MIN: f64 = 100.0;

/// Above this share of a core a load thread is called the bottleneck.
pub(crate) const CLIENT_CORE_SHARE_WARNING: f64 = 0.80;

/// Little's law: relative difference of `operations x latency` and `clients x pipeline` from which
/// a closed-loop run is called inconsistent.
pub(crate) const LITTLES_LAW_TOLERANCE: f64 = 0.10;

/// Keys drawn in search of one that a node of a cluster owns, before another's is sent.
pub(crate) const KEY_DRAWS_MAX: u32 = 1 << 16;

/// Keys looked at to find out whether a node of a cluster owns any.
pub(crate) const KEYS_SAMPLED_MAX: u64 = 1 << 16;

/// First pause before a further attempt to reconnect; a backoff factor stretches the next ones.
pub(crate) const RECONNECT_PAUSE: Duration = Duration::from_millis(1);

/// Longest pause between two attempts to reconnect.
pub(crate) const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(30);

/// A read of this size or more may have left something in the socket: rustls reads 4 KiB at a time.
/// Were it more, the poller would call once more than needed.
pub(crate) const TLS_READ_BYTES: usize = 4096;
