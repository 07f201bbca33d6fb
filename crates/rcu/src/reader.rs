//! Reader: a thread's registration, and the read sections it opens.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::barrier::Barrier;
use crate::domain::Domain;
use crate::flavour::Flavour;
use crate::reader_state::ReaderState;
use crate::section::Section;
use crate::signal;

/// The calling thread as a reader of a domain, until it is dropped. It cannot leave its thread.
///
/// A reader that is leaked (`mem::forget`) while online or in a section stops all grace periods of
/// its domain.
#[derive(Debug)]
pub struct Reader<F: Flavour> {
    domain: Arc<Domain<F>>,
    state: Arc<ReaderState>,
    barrier_by_writer: bool,
    // Neither `Send` nor `Sync`.
    not_send: PhantomData<*const ()>,
}

/// Open read section.
#[derive(Debug)]
pub struct Guard<'r, F: Flavour> {
    state: NonNull<ReaderState>,
    marker: PhantomData<(&'r Reader<F>, *const ())>,
}

/// Open read section that borrows nothing, so that more sections can be opened, closed and even
/// announced between while it lasts. They cost no fence then: they nest in this one.
///
/// A span protects nothing by itself, since no reference can be tied to it; it only makes sections
/// inside it cheaper, and grace periods wait for its end. One that is leaked stops all grace
/// periods of its domain. It cannot leave its thread.
#[derive(Debug)]
#[must_use = "a span that is dropped at once spans nothing"]
pub struct Span {
    /// `None` where readers announce: there are no sections to span.
    state: Option<Arc<ReaderState>>,
    // Neither `Send` nor `Sync`.
    not_send: PhantomData<*const ()>,
}

impl<F: Flavour> Reader<F> {
    pub(crate) fn register(domain: Arc<Domain<F>>) -> Reader<F> {
        let state = Arc::new(ReaderState::of_this_thread());
        let barrier = domain.grace().barrier();
        if barrier == Barrier::Signal {
            signal::attach(&state);
        }
        domain.grace().register(Arc::clone(&state), F::ANNOUNCES);
        let barrier_by_writer = barrier.is_by_writer();
        Reader { domain, state, barrier_by_writer, not_send: PhantomData }
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
            self.state.enter::<F>(self.domain.grace().counter(), self.barrier_by_writer);
        }
        Guard { state: NonNull::from(&*self.state), marker: PhantomData }
    }

    /// Opens a section that lasts until the returned value is dropped. Never blocks. Under `Qsbr`
    /// it does nothing.
    ///
    /// # Panics
    ///
    /// As [`Reader::enter`].
    pub fn span(&self) -> Span {
        let state = (!F::ANNOUNCES).then(|| {
            self.state.enter::<F>(self.domain.grace().counter(), self.barrier_by_writer);
            Arc::clone(&self.state)
        });
        Span { state, not_send: PhantomData }
    }

    /// Announces a quiescent state: this thread keeps no reference that it has read; `&mut` proves
    /// it. Never blocks.
    ///
    /// Two loads, and one store when a grace period began since the last call; a system call when a
    /// thread sleeps in [`Domain::synchronize`] by then. Under the other flavours nothing.
    #[inline(always)]
    pub fn quiescent(&mut self) {
        let grace = self.domain.grace();
        if F::ANNOUNCES && self.state.announce(grace.counter()) {
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
                self.0.state.go_online(self.0.domain.grace().counter());
            }
        }

        if !F::ANNOUNCES {
            return work();
        }
        self.state.go_offline();
        self.domain.grace().doorbell().ring();
        let _online = Online(self);
        work()
    }

    /// Domain in which this reader is registered.
    #[must_use]
    pub fn domain(&self) -> &Arc<Domain<F>> {
        &self.domain
    }

    pub(crate) fn state(&self) -> &ReaderState {
        &self.state
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(state) = &self.state {
            state.leave();
        }
    }
}

impl<F: Flavour> Drop for Reader<F> {
    fn drop(&mut self) {
        self.domain.grace().unregister(&self.state);
        if self.domain.grace().barrier() == Barrier::Signal {
            signal::detach(&self.state);
        }
    }
}

impl<'r, F: Flavour> Guard<'r, F> {
    /// Proof that the section is open, for code that does not know the flavour.
    #[inline(always)]
    #[must_use]
    pub fn section(&self) -> Section<'_> {
        // SAFETY: this guard keeps its section open, and is borrowed for as long as the proof
        // lasts.
        unsafe { Section::assume() }
    }

    /// Guard of a section that was opened in `state`.
    ///
    /// # Safety
    ///
    /// The caller opened it on this thread, no other code closes it, and the state outlives the
    /// guard.
    pub(crate) unsafe fn of_open_section(state: NonNull<ReaderState>) -> Guard<'r, F> {
        Guard { state, marker: PhantomData }
    }
}

impl<F: Flavour> Drop for Guard<'_, F> {
    #[inline(always)]
    fn drop(&mut self) {
        if !F::ANNOUNCES {
            // SAFETY: the state outlives the guard, by its lifetime or by the contract of
            // `of_open_section`.
            unsafe { self.state.as_ref() }.leave();
        }
    }
}
