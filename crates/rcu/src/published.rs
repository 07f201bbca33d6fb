//! Published pointer, which readers follow and writers replace.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;

use crate::garbage::Garbage;
use crate::primitive::{AtomicPtr, Ordering};
use crate::retire::RetireList;
use crate::section::Section;

/// Value that readers see whole while writers replace it.
#[derive(Debug)]
pub struct Published<T> {
    pointer: AtomicPtr<T>,
    owned: PhantomData<Box<T>>,
}

// SAFETY: it gives out shared references to any thread and drops the value on any: both bounds are
// needed, as for Arc.
unsafe impl<T: Send + Sync> Send for Published<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T: Send + Sync> Published<T> {
    /// Publishes the first value.
    #[must_use]
    pub fn new(value: T) -> Published<T> {
        let pointer = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Published { pointer, owned: PhantomData }
    }

    /// Current value, which stays valid for the section. Never blocks.
    #[inline(always)]
    #[must_use]
    pub fn load<'g>(&'g self, _section: Section<'g>) -> &'g T {
        // Acquire pairs with the release in `replace`: the value is seen whole.
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: `replace` frees a value only after a grace period, which the caller's section
        // holds up.
        unsafe { &*pointer }
    }

    /// Publishes a new value and retires the old one. Never blocks; several writers may race.
    ///
    /// # Safety
    ///
    /// Every load of this pointer is in a section of the domain that `retired` belongs to.
    pub unsafe fn replace(&self, value: T, retired: &RetireList) {
        let new = Box::into_raw(Box::new(value));
        // Release pairs with the acquire in `load`; acquire with the release of the thread that
        // published the old value.
        let old = self.pointer.swap(new, Ordering::AcqRel);
        // SAFETY: `old` came from a box, and the swap gave it to this call alone.
        let old = unsafe { Box::from_raw(old) };
        // SAFETY: unlinked by the swap; the caller promises the domain.
        retired.retire(unsafe { Garbage::from_box(old) });
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        let pointer = self.pointer.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: exclusive access; the current value is not retired and came from a box.
        drop(unsafe { Box::from_raw(pointer) });
    }
}
