//! Tunables and limits of the format.

/// Version that is written when Valkey's own types are needed, and under every `DUMP` payload.
pub const VALKEY_VERSION: u16 = 80;

/// Version that Redis 7.2 and Valkey 8 understand: of files without Valkey's own types.
pub const COMMON_VERSION: u16 = 11;

/// Newest version of Redis's that is understood.
pub const REDIS_VERSION_MAX: u16 = 12;

/// Versions that only Redis uses.
pub const REDIS_VERSIONS: std::ops::RangeInclusive<u16> = 12..=79;

/// First version with a checksum at the end of a file.
pub const CHECKSUM_VERSION_MIN: u16 = 5;

/// Bytes that one byte of LZF can become at most: three bytes repeat up to 264. A string that
/// claims more is refused before memory is taken for it.
pub const LZF_RATIO_MAX: u64 = 88;

/// Strings up to this long are not compressed, in bytes.
pub const UNCOMPRESSED_BYTES_MAX: usize = 20;

/// Longest text that is tried as an integer, in bytes.
pub const INTEGER_TEXT_BYTES_MAX: usize = 11;

/// Bytes of a node of a list beyond which it is full, where its limit is a count.
pub const COUNTED_NODE_BYTES_MAX: usize = 8192;

/// Bytes that an element may take in a listpack beyond its own.
pub const LISTPACK_ELEMENT_OVERHEAD_BYTES: usize = 11;

/// Bytes that a reader keeps allocated between two values.
pub const IDLE_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a key that an error quotes.
pub const QUOTED_KEY_BYTES_MAX: usize = 64;

/// Bytes that are gathered for a checksum: enough to make up for the price of a call.
pub const CHECKSUM_GATHERED_BYTES: usize = 1024;

const _: () = assert!(COMMON_VERSION < *REDIS_VERSIONS.start());
const _: () = assert!(REDIS_VERSION_MAX <= *REDIS_VERSIONS.end());
const _: () = assert!(VALKEY_VERSION > *REDIS_VERSIONS.end());
