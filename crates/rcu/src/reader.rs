//! A thread's registration, and the read sections it opens.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::barrier::Barrier;
use crate::domain::Domain;
use crate::flavour::Flavour;
use crate::section::Section;
use crate::signal;
use crate::slot::Slot;

/// The calling thread as a reader of a domain, until it is dropped. It cannot leave its thread.
///
/// A reader that is leaked (`mem::forget`) while online or in a section stops all grace periods of its domain.
#[derive(Debug)]
pub struct Reader<F: Flavour> {
    domain: Arc<Domain<F>>,
    slot: Arc<Slot>,
    barrier_by_writer: bool,
    // Neither `Send` nor `Sync`.
    not_send: PhantomData<*const ()>,
}

/// An open read section.
#[derive(Debug)]
pub struct Guard<'r, F: Flavour> {
    slot: NonNull<Slot>,
    marker: PhantomData<(&'r Reader<F>, *const ())>,
}

/// An open read section that borrows nothing, so that more sections can be opened, closed and even announced between
/// while it lasts. They cost no fence then: they nest in this one.
///
/// A span protects nothing by itself, since no reference can be tied to it; it only makes sections inside it cheaper,
/// and grace periods wait for its end. One that is leaked stops all grace periods of its domain. It cannot leave its
/// thread.
#[derive(Debug)]
#[must_use = "a span that is dropped at once spans nothing"]
pub struct Span {
    /// `None` where readers announce: there are no sections to span.
    slot: Option<Arc<Slot>>,
    // Neither `Send` nor `Sync`.
    not_send: PhantomData<*const ()>,
}

impl<F: Flavour> Reader<F> {
    pub(crate) fn register(domain: Arc<Domain<F>>) -> Reader<F> {
        let slot = Arc::new(Slot::of_this_thread());
        let barrier = domain.grace().barrier();
        if barrier == Barrier::Signal {
            signal::attach(&slot);
        }
        domain.grace().register(Arc::clone(&slot), F::ANNOUNCES);
        let barrier_by_writer = barrier.is_by_writer();
        Reader { domain, slot, barrier_by_writer, not_send: PhantomData }
    }

    /// Opens a read section; sections may nest. Never blocks. Under `Qsbr` it compiles to nothing.
    ///
    /// # Panics
    ///
    /// At more than [`SECTION_DEPTH_MAX`](crate::limits::SECTION_DEPTH_MAX) nested sections.
    #[inline(always)]
    #[must_use]
    pub fn enter(&self) -> Guard<'_, F> {
        if !F::ANNOUNCES {
            self.slot.enter::<F>(self.domain.grace().counter(), self.barrier_by_writer);
        }
        Guard { slot: NonNull::from(&*self.slot), marker: PhantomData }
    }

    /// Opens a section that lasts until the returned value is dropped. Never blocks. Under `Qsbr` it does nothing.
    ///
    /// # Panics
    ///
    /// As [`Reader::enter`].
    pub fn span(&self) -> Span {
        let slot = (!F::ANNOUNCES).then(|| {
            self.slot.enter::<F>(self.domain.grace().counter(), self.barrier_by_writer);
            Arc::clone(&self.slot)
        });
        Span { slot, not_send: PhantomData }
    }

    /// Announces that this thread holds nothing it has read; `&mut` proves it. Never blocks.
    ///
    /// Two loads, and one store when a grace period began since the last call; a system call when a thread sleeps in
    /// [`Domain::synchronize`] by then. Under the other flavours nothing.
    #[inline(always)]
    pub fn quiescent(&mut self) {
        let grace = self.domain.grace();
        if F::ANNOUNCES && self.slot.announce(grace.counter()) {
            grace.doorbell().ring();
        }
    }

    /// Runs `work`, which may block, while grace periods do not wait for this reader.
    ///
    /// A closure and not a guard: leaking a guard would leave the reader usable and not waited for.
    pub fn offline<R>(&mut self, work: impl FnOnce() -> R) -> R {
        struct Online<'s, F: Flavour>(&'s Reader<F>);
        impl<F: Flavour> Drop for Online<'_, F> {
            fn drop(&mut self) {
                self.0.slot.go_online(self.0.domain.grace().counter());
            }
        }

        if !F::ANNOUNCES {
            return work();
        }
        self.slot.go_offline();
        self.domain.grace().doorbell().ring();
        let _online = Online(self);
        work()
    }

    /// The domain this reader is registered in.
    #[must_use]
    pub fn domain(&self) -> &Arc<Domain<F>> {
        &self.domain
    }

    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.leave();
        }
    }
}

impl<F: Flavour> Drop for Reader<F> {
    fn drop(&mut self) {
        self.domain.grace().unregister(&self.slot);
        if self.domain.grace().barrier() == Barrier::Signal {
            signal::detach(&self.slot);
        }
    }
}

impl<'r, F: Flavour> Guard<'r, F> {
    /// The proof that the section is open, for code that does not know the flavour.
    #[inline(always)]
    #[must_use]
    pub fn section(&self) -> Section<'_> {
        // SAFETY: this guard keeps its section open, and is borrowed for as long as the proof lasts.
        unsafe { Section::assume() }
    }

    /// A guard of a section that was opened in `slot`.
    ///
    /// # Safety
    ///
    /// The caller opened it on this thread, nobody else closes it, and the slot outlives the guard.
    pub(crate) unsafe fn of_open_section(slot: NonNull<Slot>) -> Guard<'r, F> {
        Guard { slot, marker: PhantomData }
    }
}

impl<F: Flavour> Drop for Guard<'_, F> {
    #[inline(always)]
    fn drop(&mut self) {
        if !F::ANNOUNCES {
            // SAFETY: the slot outlives the guard, by its lifetime or by the contract of `of_open_section`.
            unsafe { self.slot.as_ref() }.leave();
        }
    }
}
