//! Databases that were taken out of the keyspace and wait to be freed.
//!
//! A detached database is retired like anything else that readers may look at; but it takes long to
//! free, and a long reply may have pinned a version in it. Therefore the end of its grace period
//! does not free it but moves it into a list of its keyspace. The engine takes from that list the
//! databases that no version reads any more, and frees them where it suits.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::database::Database;
use crate::pin;

/// Size of a database that is no longer in the keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    /// Number of its keys.
    pub key_count: u64,
    /// Its live bytes, which heaps still count.
    pub bytes: u64,
}

/// Detached databases whose grace period is over.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    arrived: Mutex<Vec<Unreachable>>,
}

impl Departed {
    pub(crate) fn arrived(&self) -> MutexGuard<'_, Vec<Unreachable>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A detached database that waits for its grace period.
pub(crate) struct Departing {
    pub(crate) content: NonNull<Database>,
    pub(crate) detached: Detached,
    pub(crate) to: Arc<Departed>,
}

/// Moves a detached database to the list of its keyspace: its grace period is over.
///
/// # Safety
///
/// `departing` is a leaked box of a [`Departing`], and no section is left in which its content was
/// found.
pub(crate) unsafe fn arrive(departing: NonNull<u8>) {
    // SAFETY: the caller's promise.
    let departing = unsafe { Box::from_raw(departing.cast::<Departing>().as_ptr()) };
    let Departing { content, detached, to } = *departing;
    // SAFETY: the caller's promise.
    to.arrived().push(unsafe { Unreachable::new(content, detached) });
}

/// Content of a detached database, which no section can reach. Dropping it frees it, in time
/// proportional to its keys.
#[must_use]
pub struct Unreachable {
    content: NonNull<Database>,
    detached: Detached,
    /// See [`pin::stamp`].
    stamp: Option<u64>,
}

// SAFETY: nothing else owns the database; its parts may be freed on any thread.
unsafe impl Send for Unreachable {}

impl fmt::Debug for Unreachable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Unreachable").field("stamp", &self.stamp).finish_non_exhaustive()
    }
}

impl Unreachable {
    /// Content of a database that no section can reach; a version may still contain parts of it.
    ///
    /// # Safety
    ///
    /// `content` came from a box, it has no other owner, and no section is left in which it was
    /// found.
    pub(crate) unsafe fn new(content: NonNull<Database>, detached: Detached) -> Unreachable {
        // Stamped now and not when it was detached: a version was pinned in a section that is over,
        // so its pin is seen here.
        Unreachable { content, detached, stamp: pin::stamp() }
    }

    /// Size of the database when it was detached.
    #[must_use]
    pub fn detached(&self) -> Detached {
        self.detached
    }

    /// True if a cut, or a [`Version`](crate::Version) of a collection in it, may still be
    /// read. Once false, it stays false.
    pub(crate) fn is_pinned(&self) -> bool {
        // SAFETY: the content is freed by `drop` alone.
        let is_held = unsafe { self.content.as_ref() }.is_held();
        is_held || self.stamp.is_some_and(|stamp| !pin::is_over(stamp))
    }
}

impl Drop for Unreachable {
    fn drop(&mut self) {
        // A version that outlives its keyspace keeps all of it: no later event would free it.
        if self.is_pinned() {
            return;
        }
        // SAFETY: made by `Box::into_raw` in `database_or_new`, and owned by `self`; neither a
        // section nor a version is left that reads it.
        let mut database = unsafe { Box::from_raw(self.content.as_ptr()) };
        let counted = database.total_bytes();
        let mut bytes = database.own_bytes();
        for table in database.tables.iter_mut() {
            // SAFETY: as above.
            bytes += unsafe { table.free() };
        }
        debug_assert_eq!(counted, bytes as u64, "the live bytes of a database");
    }
}
