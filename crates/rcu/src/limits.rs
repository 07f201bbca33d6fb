//! The tunables of the crate.

use std::time::Duration;

/// Bits of a reader's word that count nested sections; the other bits hold the counter of grace periods.
pub(crate) const SECTION_DEPTH_BITS: u32 = 8;

/// Sections that one reader may have open inside each other. One more panics.
pub const SECTION_DEPTH_MAX: u64 = (1 << SECTION_DEPTH_BITS) - 1;

/// Polls of [`Domain::synchronize`](crate::Domain::synchronize) before it begins to yield the processor.
pub(crate) const SYNCHRONIZE_SPIN_COUNT: u32 = 200;

/// Polls of [`Domain::synchronize`](crate::Domain::synchronize) with a yield between them, before it sleeps.
pub(crate) const SYNCHRONIZE_YIELD_COUNT: u32 = 200;

/// Sleep between two polls of a [`Domain::synchronize`](crate::Domain::synchronize) that waits for long.
pub(crate) const SYNCHRONIZE_SLEEP: Duration = Duration::from_micros(100);

/// Default of [`Limits::bytes`](crate::Limits): memory that one list may hold back.
pub const RETIRED_BYTES_MAX: usize = 64 << 20;

/// Default of [`Limits::items`](crate::Limits): pieces of memory that one list may hold back.
pub const RETIRED_ITEMS_MAX: usize = 1 << 20;

/// Items for which an empty list keeps its memory; what a burst needed beyond this is given back.
pub(crate) const RETAINED_ITEMS_MAX: usize = 16 << 10;

/// Domains of the signal flavour in which one thread may be registered at the same time. One more panics.
pub const SIGNAL_DOMAINS_PER_THREAD_MAX: usize = 8;

// 56 bits of counter at a million grace periods per second last 2,284 years.
const _: () = assert!(64 - SECTION_DEPTH_BITS >= 56);
const _: () = assert!(RETAINED_ITEMS_MAX <= RETIRED_ITEMS_MAX);
