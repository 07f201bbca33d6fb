//! Databases that were taken out of the keyspace, on their way to being freed.
//!
//! A detached database is retired like anything else that readers may look at; but it takes long to free, and a long reply
//! may have pinned a version in it. So when its grace period is over it is not freed but *arrives* in a list of its keyspace, from
//! which the engine takes what no version reads any more, to free it where it suits.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::database::Database;
use crate::pin;

/// What was in a database that is no longer in the keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    /// How many keys it had.
    pub key_count: u64,
    /// How many live bytes: heaps still count them.
    pub bytes: u64,
}

/// Where detached databases arrive when their grace period is over.
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

/// The grace period of a detached database is over.
///
/// # Safety
///
/// `departing` is a leaked box of a [`Departing`], and no section is left in which its content was found.
pub(crate) unsafe fn arrive(departing: NonNull<u8>) {
    // SAFETY: the caller's promise.
    let departing = unsafe { Box::from_raw(departing.cast::<Departing>().as_ptr()) };
    let Departing { content, detached, to } = *departing;
    // SAFETY: the caller's promise.
    to.arrived().push(unsafe { Unreachable::new(content, detached) });
}

/// The content of a detached database, which no section can reach. Dropping it frees it, in time in proportion to its keys.
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
    /// The content of a database that readers cannot reach; a version may.
    ///
    /// # Safety
    ///
    /// `content` came from a box, nobody else owns it, and no section is left in which it was found.
    pub(crate) unsafe fn new(content: NonNull<Database>, detached: Detached) -> Unreachable {
        // Now, and not when it was detached: a version was pinned in a section that is over, so it is seen.
        Unreachable { content, detached, stamp: pin::stamp() }
    }

    /// What it was when it was taken out.
    #[must_use]
    pub fn detached(&self) -> Detached {
        self.detached
    }

    /// Whether a [`Version`] of a collection in it may still be read. What is free once stays so.
    pub(crate) fn is_pinned(&self) -> bool {
        self.stamp.is_some_and(|stamp| !pin::is_over(stamp))
    }
}

impl Drop for Unreachable {
    fn drop(&mut self) {
        // A version that outlives its keyspace keeps all of it: nothing would free it later.
        if self.is_pinned() {
            return;
        }
        // SAFETY: made by `Box::into_raw` in `database_or_new`, and owned by `self`; neither a section nor a version is
        // left that reads it.
        let mut database = unsafe { Box::from_raw(self.content.as_ptr()) };
        let counted = database.total_bytes();
        let mut bytes = Database::bytes();
        for table in &mut database.tables {
            // SAFETY: as above.
            bytes += unsafe { table.free() };
        }
        debug_assert_eq!(counted, bytes as u64, "the live bytes of a database");
    }
}
