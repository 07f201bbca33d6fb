//! Tunables of this crate. The protocol's own limits are those of Valkey 9.1, found by sending it
//! bytes.

/// Longest inline request, and longest line of a length (`*3`, `$5`) in a request, without its end,
/// in bytes.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Most arguments of one request.
pub const ARGUMENT_COUNT_MAX: i64 = i32::MAX as i64;

/// Most arguments of one request of a client that has yet to authenticate.
pub const UNAUTHENTICATED_ARGUMENT_COUNT_MAX: i64 = 10;

/// Longest argument of a client that has yet to authenticate, in bytes.
pub const UNAUTHENTICATED_BULK_BYTES_MAX: u64 = 16 * 1024;

/// Longest argument unless `proto-max-bulk-len` says otherwise, in bytes.
pub const BULK_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Arguments after which an incomplete request is remembered instead of parsed again from its
/// start.
///
/// Parsing this many again costs less than the allocation that remembers them, and a request that
/// waits for one large argument (`SET key <512 MB>`) is never remembered at all: its few headers
/// are cheap to read again.
pub const REMEMBERED_ARGUMENT_COUNT_MIN: usize = 16;

/// Spans and bytes that an idle [`Arguments`](crate::request::Arguments) keeps allocated.
pub const IDLE_ARGUMENT_COUNT_MAX: usize = 1024;

/// Longest line (status, error, number, length) of a reply, in bytes.
pub const REPLY_LINE_BYTES_MAX: usize = 64 * 1024;

/// Deepest nesting of aggregates in a reply. Deeper ones are refused: dropping a value recurses.
pub const REPLY_DEPTH_MAX: usize = 128;

/// Least bytes of replies that are moved together with their memory instead of being copied behind
/// others.
pub const MOVED_BYTES_MIN: usize = 256 * 1024;

/// Sent bytes that a partly sent reply may keep in front before they are cut off.
pub const SENT_BYTES_MAX: usize = 16 * 1024;

// The fast path reads requests of up to nine arguments of up to 99 bytes without checking these.
const _: () =
    assert!(UNAUTHENTICATED_ARGUMENT_COUNT_MAX >= 9 && UNAUTHENTICATED_BULK_BYTES_MAX >= 99);
const _: () = assert!(UNAUTHENTICATED_ARGUMENT_COUNT_MAX < ARGUMENT_COUNT_MAX);
const _: () = assert!(UNAUTHENTICATED_BULK_BYTES_MAX < BULK_BYTES_MAX as u64);
const _: () = assert!(REMEMBERED_ARGUMENT_COUNT_MIN > UNAUTHENTICATED_ARGUMENT_COUNT_MAX as usize);
