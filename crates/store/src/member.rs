//! Membership: the right of a thread to read and write a keyspace.
//!
//! A [`Member`] is a thread's registration in the keyspace's RCU domain together with its seat at
//! the keyspace's [`Gate`](crate::gate::Gate). Every read takes a [`Section`], every write a
//! [`Heap`] besides, and safe code gets both from members only. Memory that is retired through a
//! member's heap therefore outlives every section in which it may be read, and a thread that closes
//! the gate waits for the complete set of threads that may read or write.
//!
//! Memory safety rests on RCU and the locks of the slots alone. The gate makes changes of whole
//! databases atomic; a member that reads outside of it may see such a change half done, but never
//! freed memory.
//!
//! # One domain
//!
//! A section has no size, so that reading costs nothing, and therefore cannot say which domain it
//! is of. For this reason the keyspaces of a process share one domain:
//! [`Keyspace::join`](crate::Keyspace::join) refuses a second one while anything of the first is
//! left. Tests, which run side by side, use `join_beside` and promise to mix nothing.
//!
//! Rejected: a brand in the type of each section (an invariant lifetime or a type parameter through
//! the whole engine), and an identity in each section (a register and a comparison in every
//! lookup).
//!
//! # Auxiliary members
//!
//! Threads besides the workers (metrics; a snapshot; the applier of a replica) join when they begin
//! and leave when their member is dropped, also by a panic. Such a thread is offline while it waits
//! ([`Member::offline`]), enters the gate for what it reads ([`Member::inside`]), and announces
//! between pieces of long work.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use tidemill_rcu::{Domain, Flavour, Limits, Reader, RetireList, Span};

use crate::claim::Claim;
use crate::epoch::active::ActiveCut;
use crate::gate::Seat;
use crate::heap::Heap;

/// Proof that the calling thread is inside a read-side critical section of the keyspaces' domain
/// for as long as `'g` lasts.
///
/// It has no size and does not know its flavour, so that code which only reads is compiled once for
/// all flavours.
#[derive(Clone, Copy, Debug)]
pub struct Section<'g> {
    // A raw pointer makes it neither `Send` nor `Sync`: a section belongs to its thread.
    marker: PhantomData<(&'g (), *const ())>,
}

impl Section<'_> {
    /// Claims that a section is open.
    ///
    /// # Safety
    ///
    /// For all of `'g`, nothing that the caller can reach through the section may be freed: either
    /// a member of the same keyspace is inside its section, or the caller has the structure to
    /// itself.
    #[inline(always)]
    #[must_use]
    pub unsafe fn assume<'g>() -> Section<'g> {
        Section { marker: PhantomData }
    }
}

/// The calling thread as a reader and writer of a keyspace, until it is dropped. It cannot leave
/// its thread.
#[derive(Debug)]
pub struct Member<F: Flavour> {
    // Dropped in this order: out of the gate only when no section can be open.
    reader: Reader<F>,
    seat: Rc<Seat>,
    claim: Arc<Claim>,
    cut: Arc<ActiveCut>,
}

/// Open read section of a member.
#[derive(Debug)]
pub struct Guard<'r, F: Flavour> {
    _guard: tidemill_rcu::Guard<'r, F>,
}

impl<F: Flavour> Guard<'_, F> {
    /// Proof that the section is open, for code that does not know the flavour.
    #[inline(always)]
    #[must_use]
    pub fn section(&self) -> Section<'_> {
        // SAFETY: the guard keeps its section open, and is borrowed for as long as the proof lasts.
        // Memory that is reached through it is retired through heaps of the same domain, see the
        // module.
        unsafe { Section::assume() }
    }
}

impl<F: Flavour> Member<F> {
    pub(crate) fn new(
        domain: &Arc<Domain<F>>,
        seat: Seat,
        claim: Arc<Claim>,
        cut: Arc<ActiveCut>,
    ) -> Member<F> {
        Member { reader: domain.register(), seat: Rc::new(seat), claim, cut }
    }

    /// Opens a read section; sections may nest. Never blocks. Under `Qsbr` it compiles to nothing.
    #[inline(always)]
    #[must_use]
    pub fn enter(&self) -> Guard<'_, F> {
        Guard { _guard: self.reader.enter() }
    }

    /// Opens a section that lasts until the returned value is dropped, see [`Reader::span`].
    pub fn span(&self) -> Span {
        self.reader.span()
    }

    /// Announces a quiescent state: this thread keeps no reference that it has read; `&mut` proves
    /// it. Never blocks.
    #[inline(always)]
    pub fn quiescent(&mut self) {
        self.reader.quiescent();
    }

    /// Runs `work`, which may block, while grace periods do not wait for this thread.
    pub fn offline<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.reader.offline(work)
    }

    /// Runs `work` inside the gate, and announces a quiescent state behind it. Waits while the gate
    /// is closed.
    pub fn inside<R>(&mut self, work: impl FnOnce(&mut Member<F>) -> R) -> R {
        struct Leave<'m, F: Flavour>(&'m mut Member<F>);
        impl<F: Flavour> Drop for Leave<'_, F> {
            fn drop(&mut self) {
                self.0.seat.leave();
                self.0.reader.quiescent();
            }
        }

        // Offline: a thread that closed the gate may wait for a grace period.
        let seat = &self.seat;
        self.reader.offline(|| seat.enter());
        let leave = Leave(self);
        work(leave.0)
    }

    /// Seat of the thread at the gate. Code that may have to close the gate later keeps a share of
    /// it.
    #[inline(always)]
    #[must_use]
    pub fn seat(&self) -> &Rc<Seat> {
        &self.seat
    }

    /// RCU domain of the member.
    #[must_use]
    pub fn domain(&self) -> &Arc<Domain<F>> {
        self.reader.domain()
    }

    /// Heap for the writes of this thread, which retires at most `limits` before it asks to hold
    /// back.
    #[must_use]
    pub fn heap(&self, limits: Limits) -> Heap {
        let retired = RetireList::for_domain(self.domain(), limits);
        Heap::of(retired, Arc::clone(&self.claim), Arc::clone(&self.cut))
    }
}
