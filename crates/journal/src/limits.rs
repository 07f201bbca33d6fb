//! Sizes of the journal.

/// Bytes of one segment of the stream.
pub const SEGMENT_BYTES: usize = 64 * 1024;

/// Bytes of an effect from which it is not copied into a lane and a segment, but handed on: it is a
/// segment of its own.
pub const LARGE_EFFECT_BYTES: usize = 16 * 1024;

/// Bytes in a lane from which its worker begins no further writes before they are merged.
pub const LANE_BYTES_MAX: usize = 1024 * 1024;

/// Memory that a lane's buffers keep when they are empty, in bytes.
pub const IDLE_LANE_BYTES: usize = LANE_BYTES_MAX;

const _: () = assert!(LARGE_EFFECT_BYTES < SEGMENT_BYTES && SEGMENT_BYTES < LANE_BYTES_MAX);
