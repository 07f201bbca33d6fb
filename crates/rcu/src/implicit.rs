//! Readers that register themselves (`Bp`): one per thread and domain, dropped when the thread
//! ends.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::domain::Domain;
use crate::flavour::Bp;
use crate::reader::{Guard, Reader};
use crate::reader_state::ReaderState;

thread_local! {
    /// The domain that this thread entered last, and its state there: saves the search and the
    /// destructor's check.
    static LAST: Cell<(*const Domain<Bp>, *const ReaderState)> =
        const { Cell::new((ptr::null(), ptr::null())) };
    static READERS: Readers = const { Readers(RefCell::new(Vec::new())) };
}

struct Readers(RefCell<Vec<Reader<Bp>>>);

impl Drop for Readers {
    fn drop(&mut self) {
        LAST.set((ptr::null(), ptr::null()));
        for reader in self.0.take() {
            // A guard in another thread-local may outlive these readers: its section stays waited
            // for, and its state alive.
            if reader.state().is_active() {
                mem::forget(reader);
            }
        }
    }
}

impl Domain<Bp> {
    /// Opens a read section of the calling thread, which is registered at its first one and until
    /// it ends.
    ///
    /// The domain lives at least as long as the threads that entered it. Blocks at most when it
    /// registers.
    ///
    /// # Panics
    ///
    /// In the destructor of a thread-local, once the thread's registrations are gone; and as
    /// [`Reader::enter`].
    #[inline(always)]
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> Guard<'_, Bp> {
        let (domain, state) = LAST.get();
        // A domain in `LAST` is alive, held by its reader in `READERS`: no other can have its
        // address.
        let state = if ptr::eq(domain, Arc::as_ptr(self)) { state } else { self.find_state() };
        let state = NonNull::new(state.cast_mut()).expect("a domain that was entered has a state");
        // SAFETY: the reader in `READERS` holds the state; at thread exit it is leaked while a
        // section is open.
        let opened = unsafe { state.as_ref() };
        opened.enter::<Bp>(self.grace().counter(), self.grace().barrier().is_by_writer());
        // SAFETY: opened by the line above, on this thread; the state lives as argued there.
        unsafe { Guard::of_open_section(state) }
    }

    #[cold]
    fn find_state(self: &Arc<Self>) -> *const ReaderState {
        READERS.with(|readers| {
            let mut readers = readers.0.borrow_mut();
            let known = readers.iter().position(|reader| Arc::ptr_eq(reader.domain(), self));
            let index = known.unwrap_or_else(|| {
                readers.push(self.register());
                readers.len() - 1
            });
            let state = ptr::from_ref(readers[index].state());
            LAST.set((Arc::as_ptr(self), state));
            state
        })
    }
}
