//! Tunables of the crate.

use std::time::Duration;

/// Bits of a reader's word that count nested sections; the other bits hold the counter of grace
/// periods.
pub(crate) const SECTION_DEPTH_BITS: u32 = 8;

/// Most sections that one reader may have open inside each other. One more panics.
pub const SECTION_DEPTH_MAX: u64 = (1 << SECTION_DEPTH_BITS) - 1;

/// Number of looks at the readers before [`Domain::synchronize`](crate::Domain::synchronize) begins
/// to sleep between them: some microseconds.
pub(crate) const SYNCHRONIZE_SPIN_COUNT: u32 = 100;

/// Most spin hints between two looks at the readers; there are fewer between the first looks.
pub(crate) const SYNCHRONIZE_SPIN_HINTS_MAX: u32 = 4;

/// First sleep of a [`Domain::synchronize`](crate::Domain::synchronize) that waits for long; it
/// doubles with each. Linux adds 50 microseconds to any.
pub(crate) const SYNCHRONIZE_SLEEP_MIN: Duration = Duration::from_micros(50);

/// Longest sleep of a [`Domain::synchronize`](crate::Domain::synchronize).
pub(crate) const SYNCHRONIZE_SLEEP_MAX: Duration = Duration::from_millis(1);

/// Least time between two barriers that interrupt readers, for callers that poll, and for signals.
/// At some microseconds per barrier and reader, it keeps barriers below one percent of the readers'
/// time.
pub const BARRIER_PAUSE: Duration = Duration::from_millis(1);

/// Longest pause between barriers; a longer one is cut to it.
pub const BARRIER_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Least time after a `sys_membarrier` for callers that block, in percent of its duration.
pub(crate) const BLOCKED_PAUSE_PERCENT: u32 = 50;

/// Default of [`Limits::bytes`](crate::Limits): memory that one list may hold.
pub const RETIRED_BYTES_MAX: usize = 64 << 20;

/// Default of [`Limits::items`](crate::Limits): pieces of memory that one list may hold.
pub const RETIRED_ITEMS_MAX: usize = 1 << 20;

/// Items for which a list that has some asks for memory ahead: a writer who asks before each of its
/// changes is told in time that there is none.
pub(crate) const ROOM_ITEMS: usize = 128;

/// Items for which an empty list keeps its memory; the memory that a burst needed beyond this is
/// given back.
pub(crate) const RETAINED_ITEMS_MAX: usize = 16 << 10;

/// Number of frees by which the prefetch of garbage is ahead: about as many as pass while a line
/// comes from another core.
pub(crate) const FREED_AHEAD_COUNT: usize = 6;

/// Pieces of garbage that are taken out of a list at a time.
pub(crate) const TAKEN_ITEMS_MAX: usize = 64;

/// Most domains of the signal flavour in which one thread may be registered at the same time. One
/// more panics.
pub const SIGNAL_DOMAINS_PER_THREAD_MAX: usize = 8;

// 56 bits of counter at a million grace periods per second last 2,284 years.
const _: () = assert!(64 - SECTION_DEPTH_BITS >= 56);
const _: () = assert!(BARRIER_PAUSE.as_nanos() <= BARRIER_PAUSE_MAX.as_nanos());
const _: () = assert!(SYNCHRONIZE_SLEEP_MIN.as_nanos() <= SYNCHRONIZE_SLEEP_MAX.as_nanos());
const _: () = assert!(RETAINED_ITEMS_MAX <= RETIRED_ITEMS_MAX);
