//! Tunables of the server, with their units.

use std::time::Duration;

/// Microseconds between two lines of a worker's log that say that no connection can be accepted.
pub const EXHAUSTED_LINE_US: u64 = 1_000_000;

/// Microseconds between two lines of a worker's log that warn of clients which speak HTTP.
pub const HTTP_LINE_US: u64 = 60_000_000;

/// Bytes that a worker reads from one socket at a time.
pub const READ_BYTES: usize = 64 * 1024;

/// Connections that are read before the first of them is executed, so that the cache misses of
/// their requests overlap. Each waits for the reads of the others, some microseconds; four to eight
/// misses at a time is what a core can keep up.
pub const GATHERED_MAX: usize = 8;

/// Bytes read from connections above which they are executed: pipelines overlap the misses of their
/// own requests.
pub const GATHERED_BYTES_MAX: usize = 1024;

/// Events that a worker takes from the kernel at a time.
pub const EVENTS_MAX: usize = 512;

/// Connections with a request that arrive in a pause of `wakeup-coalescing-us` at least, or it is
/// not worth its delay: with fewer, as many wake-ups are left.
pub const COALESCED_MIN: u64 = 2;

/// Active connections for each that arrives in a pause, at least. In a closed loop those that
/// arrive are all there are, and each of them waits for the pause.
pub const COALESCED_ACTIVE_FACTOR: u64 = 4;

/// Connections with an event in an iteration up to which a pause may follow it, or twice what
/// arrives in a pause if that is more: a worker that finds more is behind.
pub const COALESCED_FEW: usize = GATHERED_MAX;

/// Connections that a worker accepts at one listener before it does something else.
pub const ACCEPTED_MAX: usize = 64;

/// Microseconds after the start of an iteration within which a worker counts as responding. Few
/// iterations take longer; a worker that is wrongly passed over gets the next connection.
pub const RESPONDS_US: u64 = 20_000;

/// Microseconds after the start of a wait for events within which a worker counts as responding: it
/// wakes up at each tick.
pub const WAITS_US: u64 = 10 * TICK_MS * 1000;

/// Microseconds after which a connection that a worker has not taken goes to another one.
pub const OVERDUE_US: u64 = 20_000;

/// Milliseconds between two rounds of a worker's periodic work.
pub const TICK_MS: u64 = 100;

/// Microseconds between two steps of the sweep for expired keys while it finds many: it takes a
/// quarter of the time then.
pub const SWEEP_SOON_US: u64 = 4000;

/// Milliseconds until a worker with retired memory looks for an elapsed grace period when nothing
/// else happens.
pub const RECLAIM_MS: u64 = 5;

/// Microseconds until a worker whose writers wait for memory to be freed looks again whether some
/// can be.
pub const STARVED_LOOK_US: u64 = 500;

/// Bytes of memory that a worker retires within an iteration before it looks whether some of it can
/// be freed: a part of a second-level cache.
pub const RECLAIM_EARLY_BYTES: usize = 32 * 1024;

/// Pieces of retired memory that a worker frees in one iteration, or [`FREED_FRACTION`] of them.
pub const FREED_ITEMS_MAX: usize = 1024;

/// Part of a worker's retired pieces of memory that it frees in one iteration when that is more.
pub const FREED_FRACTION: usize = 16;

/// Bytes of retired memory that a worker frees in one iteration at most.
pub const FREED_BYTES_MAX: usize = 16 << 20;

/// Connections for whose replies a worker keeps memory while none of them wait for the append-only
/// file.
pub const SPARE_REPLIES_MAX: usize = 256;

/// Bytes of such memory for one connection.
pub const SPARE_REPLY_BYTES_MAX: usize = 4 * 1024;

/// Bytes of a worker's reply buffer that are kept between connections.
pub const KEPT_REPLY_BYTES: usize = 256 * 1024;

/// Bytes that are reserved for a request that announced more, before they arrive, until a tick of
/// the worker finds that less than one read has arrived since the one before.
pub const RESERVED_INPUT_BYTES_MAX: usize = 1 << 20;

/// Bytes that all connections of a worker together have reserved that way.
pub const RESERVED_TOGETHER_BYTES_MAX: usize = 8 << 20;

/// Blocks of memory that a thread keeps back for allocations that cannot fail. They are not touched
/// before that.
pub const RESERVE_BLOCKS: usize = 128;

/// Bytes of each of them: more than caches of threads keep.
pub const RESERVE_BLOCK_BYTES: usize = 64 << 10;

/// Largest allocation that the reserve is given up for.
pub const RESERVE_REQUEST_BYTES_MAX: usize = 4 << 20;

/// Address space that a new thread takes: its stack, and an arena of the allocator.
pub const THREAD_BYTES: usize = 8 << 20;

/// Shortest last argument of a request that is received into memory of its own.
pub const LARGE_ARGUMENT_BYTES_MIN: usize = 256 * 1024;

/// Part of such an argument that has arrived before it is, as a divisor: an announced length takes
/// at most this multiple of the bytes that were sent, in address space.
pub const LARGE_ARGUMENT_ARRIVED_PART: usize = 64;

/// Bytes of such an argument that are read at a time.
pub const LARGE_ARGUMENT_READ_BYTES: usize = 128 * 1024;

/// Number of such reads in a row.
pub const LARGE_ARGUMENT_READS_MAX: usize = 4;

/// Microseconds of such reads after which no further one follows: beside the bytes, the kernel may
/// have to find and clear a page for each 4 KiB.
pub const LARGE_ARGUMENT_READS_US: u64 = 100;

/// Maximum number of request bytes kept for a client without authentication, whatever
/// `client-query-buffer-limit` says: an `AUTH` or `HELLO` with the longest password that the
/// protocol allows it, 16 KiB, and the bytes around it.
pub const UNAUTHENTICATED_INPUT_BYTES_MAX: usize = 16 * 1024 + 512;

const _: () = assert!(
    UNAUTHENTICATED_INPUT_BYTES_MAX as u64
        > tidemill_resp::limits::UNAUTHENTICATED_BULK_BYTES_MAX + 256,
    "the longest password fits"
);

/// Bytes of unsent replies above which a client without authentication is closed, whatever
/// `client-output-buffer-limit` says. It is owed errors alone.
pub const UNAUTHENTICATED_OUTPUT_BYTES_MAX: u64 = 4 * 1024;

/// Microseconds between two lines of a worker's log that tell of closed clients without
/// authentication.
pub const UNAUTHENTICATED_LINE_US: u64 = 10_000_000;

/// Bytes of unsent replies above which a client without a hard limit is output blocked: no command
/// of it is executed, and it is read slowly.
pub const BLOCKED_OUTPUT_BYTES: u64 = 64 << 20;

/// Bytes of a block of Valkey's list of replies.
pub const REPLY_BLOCK_BYTES: u64 = 16 * 1024;

/// Bytes of replies up to which none count before the socket has refused them: those that fit
/// Valkey's buffer of a client.
pub const FRESH_BYTES_MIN: u64 = 16 * 1024;

/// Bytes of unsent replies above which no further piece of a long reply is made, until half of them
/// were taken.
pub const LONG_REPLY_UNSENT_BYTES: u64 = 256 * 1024;

/// Microseconds between two reads from an output-blocked client: 64 KiB each, so that it advances
/// at 6 MB/s and costs its neighbours next to nothing.
pub const BLOCKED_READ_US: u64 = 10_000;

/// Longest throttle of a connection that had more than its share, in microseconds.
pub const THROTTLE_US_MAX: u64 = 100_000;

/// Microseconds behind a long turn in which the CPU time of turns is read: see
/// [`crate::turn_time`].
pub const LONG_TURNS_US: u64 = 1_000_000;

/// Microseconds without an event after which a worker is idle and serves connections that had more
/// than their share.
pub const IDLE_US: u64 = 100;

/// Duration of a round of [`crate::fairness`], in microseconds: connections with a turn in this
/// round or the one before count as active.
pub const ROUND_US: u64 = 10_000;

/// Nanoseconds that a turn costs beside the execution: a read and a write of a few bytes.
pub const TURN_CALLS_NS: u64 = 4000;

/// Bytes of a refused client's requests that the log shows.
pub const LOGGED_INPUT_BYTES_MAX: usize = 64;

/// Niceness of background threads that share CPUs with workers.
pub const BACKGROUND_NICE: i32 = 10;

/// Connections to one metrics address at a time; for a further one another is closed.
pub const METRICS_CLIENTS_MAX: usize = 16;

/// Time in which a scrape's request has to arrive, from its connection or its first byte.
pub const METRICS_REQUEST: Duration = Duration::from_secs(1);

/// Time that a client may take to receive a scrape's answer.
pub const METRICS_ANSWER: Duration = Duration::from_secs(2);

/// Time that a connection to the metrics may idle between two requests.
pub const METRICS_IDLE: Duration = Duration::from_secs(5);

/// Time until the metrics listener tries again to accept after an error.
pub const METRICS_RETRY: Duration = Duration::from_millis(100);

/// Bytes of a scrape's request.
pub const METRICS_REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Header lines of a scrape's request.
pub const METRICS_HEADERS_MAX: usize = 64;

/// Busy time of a tick from which a worker counts as busy, in permille.
pub const BUSY_PERMILLE: u32 = 900;

/// Number of busy ticks in a row after which connections leave a worker.
pub const BALANCE_TICKS: u32 = 5;

const _: () = assert!(
    BALANCE_TICKS > 1,
    "the last of them is measured, after another has shown that it is needed"
);

/// Difference in busy permille from which another worker is given connections.
pub const BALANCE_MARGIN_PERMILLE: u32 = 200;

/// Handshakes of TLS at a time on each of the threads that do them; for a further one the oldest is
/// dropped. One from a client takes its round trips, one that a flood leaves half open stays.
pub const HANDSHAKES_MAX: usize = 1024;

/// Most threads that do handshakes of TLS.
pub const HANDSHAKE_THREADS_MAX: usize = 4;

/// Workers for each thread that does handshakes of TLS.
pub const WORKERS_PER_HANDSHAKE_THREAD: usize = 8;

/// Time in which a handshake of TLS has to be complete.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Bytes that a thread reads from a client in one step of its handshake.
pub const HANDSHAKE_READ_BYTES: usize = 16 * 1024;

/// Bytes of a handshake that are kept: the longest message, a client's chain of certificates. A
/// longer one ends the handshake.
pub const HANDSHAKE_INPUT_BYTES_MAX: usize = 32 * 1024;

/// Time between two lines of the log about handshakes that have failed, of one thread.
pub const HANDSHAKE_LINE_US: u64 = 1_000_000;

/// Most bytes of one TLS record with its header and tag, by RFC 5246; RFC 8446 allows less.
pub const TLS_RECORD_BYTES_MAX: usize = 5 + 16 * 1024 + 2048;

/// Bytes of replies that are encrypted for one write.
pub const TLS_WRITTEN_BYTES: usize = 256 * 1024;

/// Bytes of replies after which a client with TLS waits for the next iteration, so that encrypting
/// a long reply does not delay its neighbours.
pub const TLS_SENT_BYTES_MAX: usize = 1 << 20;

/// Sessions of TLS that are kept to be resumed, whatever `tls-session-cache-size` says.
pub const TLS_SESSIONS_MAX: usize = 1 << 20;

/// Bytes of the sessions of TLS that are kept.
pub const TLS_SESSIONS_BYTES_MAX: usize = 64 << 20;

/// Bytes of replies after which a client waits for the next iteration, so that one that reads as
/// fast as it is sent does not delay its neighbours by a long reply: a value of 1 MiB with its
/// frame, a third of a millisecond of copying. At 256 KiB the server took 1.4 times the CPU for
/// such values.
pub const TURN_SENT_BYTES_MAX: usize = (1 << 20) + 4096;

/// Maximum number of segments of one `writev`.
pub const SEGMENTS_MAX: usize = 64;

/// Time between two looks at the save points.
pub(crate) const SAVE_POINT_POLL: Duration = Duration::from_millis(100);

/// Time between two attempts of a thread besides the workers to close the gate.
pub(crate) const GATE_RETRY: Duration = Duration::from_micros(500);

/// Seconds between two lines of the log about the progress of a load.
pub(crate) const LOAD_LOG_S: u64 = 5;

/// Time between two looks at a save that was given up because the server ends.
pub(crate) const SAVE_END_POLL: Duration = Duration::from_millis(1);

/// Time between two looks at the end of the server by a thread that reads a log.
pub(crate) const REPLAY_STOP_POLL: Duration = Duration::from_millis(50);

/// Commands of a log that were answered by errors and are named in the server's log.
pub(crate) const REPLAY_ERRORS_LOGGED: u64 = 10;

/// Time for which a worker executes a log in one iteration, microseconds; clients come between.
pub(crate) const REPLAY_SLICE_US: u64 = 5000;

/// Microseconds of one iteration that a worker sends pushes for; others' requests come between.
pub const PUSHES_US_MAX: u64 = 2000;

/// Connections that are sent pushes between two looks at the clock.
pub const PUSHES_BETWEEN_LOOKS: u32 = 32;

/// Targets of `MIGRATE` that have a thread at a time.
pub(crate) const MIGRATION_TARGETS_MAX: usize = 64;

/// Time after which a connection to a target of `MIGRATE` ends that nobody uses, s.
pub(crate) const MIGRATION_IDLE_SECONDS_MAX: u64 = 10;

/// Longest line that a target of `MIGRATE` may answer.
pub(crate) const MIGRATION_ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Most bytes of a pipe or device that the configuration names, as for users or certificates: it
/// may have no end.
pub const CONFIGURED_FILE_BYTES_MAX: u64 = 64 << 20;
