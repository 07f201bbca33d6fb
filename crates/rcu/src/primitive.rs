//! Atomics, locks and threads: std's, or loom's when the models run (`--cfg loom`).
//!
//! Only what takes part in the algorithm goes through here, so that a model explores nothing else.

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::{ThreadId, current, yield_now},
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::{ThreadId, current, yield_now},
};

use std::ops::Deref;
use std::sync::{PoisonError, TryLockError};

/// Locks, also after a panic elsewhere: every holder leaves the contents whole at each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks unless another thread holds the lock. Never blocks.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Keeps a value off the cache lines of its neighbours; 128 bytes because x86 prefetches lines in
/// pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct OwnLine<T>(T);

impl<T> OwnLine<T> {
    pub(crate) fn new(value: T) -> OwnLine<T> {
        OwnLine(value)
    }
}

impl<T> Deref for OwnLine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
