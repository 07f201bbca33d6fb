//! Memory that one user leaves to the next.

use std::any::Any;
use std::cell::Cell;
use std::fmt;

/// Memory of a user that has ended, for the next one of the same worker.
#[derive(Default)]
pub(crate) struct Spare(Cell<Option<Box<dyn Any>>>);

impl Spare {
    /// The memory that was kept, or new one.
    #[inline]
    pub(crate) fn take<T: Any + Default>(&self) -> Box<T> {
        let kept = self.0.take().and_then(|kept| kept.downcast().ok());
        kept.unwrap_or_default()
    }

    /// Keeps memory in the place of what is kept.
    #[inline]
    pub(crate) fn keep(&self, memory: Box<dyn Any>) {
        self.0.set(Some(memory));
    }
}

impl fmt::Debug for Spare {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Spare").finish_non_exhaustive()
    }
}
