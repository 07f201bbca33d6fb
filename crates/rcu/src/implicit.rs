//! Readers that register themselves (`Bp`): one per thread and domain, dropped when the thread ends.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::domain::Domain;
use crate::flavour::Bp;
use crate::reader::{Guard, Reader};
use crate::slot::Slot;

thread_local! {
    /// The domain that this thread entered last, and its slot there: saves the search and the destructor's check.
    static LAST: Cell<(*const Domain<Bp>, *const Slot)> = const { Cell::new((ptr::null(), ptr::null())) };
    static READERS: Readers = const { Readers(RefCell::new(Vec::new())) };
}

struct Readers(RefCell<Vec<Reader<Bp>>>);

impl Drop for Readers {
    fn drop(&mut self) {
        LAST.set((ptr::null(), ptr::null()));
        for reader in self.0.take() {
            // A guard in another thread-local may outlive us: its section stays waited for, and its slot alive.
            if reader.slot().is_active() {
                mem::forget(reader);
            }
        }
    }
}

impl Domain<Bp> {
    /// Opens a read section of the calling thread, which is registered at its first one and until it ends.
    ///
    /// The domain lives at least as long as the threads that entered it. Blocks at most when it registers.
    ///
    /// # Panics
    ///
    /// In the destructor of a thread-local, once the thread's registrations are gone; and as [`Reader::enter`].
    #[inline(always)]
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> Guard<'_, Bp> {
        let (domain, slot) = LAST.get();
        // A domain in `LAST` is alive, held by its reader in `READERS`: no other can have its address.
        let slot = if ptr::eq(domain, Arc::as_ptr(self)) { slot } else { self.find_slot() };
        let slot = NonNull::new(slot.cast_mut()).expect("a domain that was entered has a slot");
        // SAFETY: the reader in `READERS` holds the slot; at thread exit it is leaked while a section is open.
        let opened = unsafe { slot.as_ref() };
        opened.enter::<Bp>(self.grace().counter(), self.grace().barrier().is_by_writer());
        // SAFETY: opened by the line above, on this thread; the slot lives as argued there.
        unsafe { Guard::of_open_section(slot) }
    }

    #[cold]
    fn find_slot(self: &Arc<Self>) -> *const Slot {
        READERS.with(|readers| {
            let mut readers = readers.0.borrow_mut();
            let known = readers.iter().position(|reader| Arc::ptr_eq(reader.domain(), self));
            let index = known.unwrap_or_else(|| {
                readers.push(self.register());
                readers.len() - 1
            });
            let slot = ptr::from_ref(readers[index].slot());
            LAST.set((Arc::as_ptr(self), slot));
            slot
        })
    }
}
