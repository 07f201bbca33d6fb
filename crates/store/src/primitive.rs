//! The atomics of the slot protocol and of pins: the standard library's, or loom's under `--cfg
//! loom`.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::Mutex;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Fence that models the total order of sequentially consistent accesses, which loom treats as
/// acquire and release only; it does model sequentially consistent fences. Compiles to nothing
/// without loom.
#[inline(always)]
pub(crate) fn total_order_for_loom() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
