//! Read sections, without knowing the RCU flavour.

use std::rc::Rc;

use tidemill_rcu::{Budget, Flavour};
use tidemill_store::gate::Seat;
use tidemill_store::{Guard, Heap, Member, Section};

/// Opens read sections, for code that is compiled once for all flavours and runs rarely or long.
pub trait ReadSide {
    /// Runs `work` in a read section.
    fn section(&mut self, work: &mut dyn FnMut(Section<'_>));

    /// Announces that nothing is held that was read. To be called inside long work, between two
    /// sections.
    fn quiescent(&mut self);

    /// Runs `work`, which takes long and reads nothing, while grace periods do not wait for this
    /// thread.
    fn offline(&mut self, work: &mut dyn FnMut());

    /// Announces, and frees memory that this thread retired and whose grace period is over. Never
    /// waits.
    fn reclaim(&mut self, heap: &Heap);

    /// The thread's seat at the keyspace's gate.
    fn seat(&self) -> &Rc<Seat>;
}

/// Opens read sections, for the hot path: compiled for each flavour.
pub trait Enter: ReadSide {
    /// An open section.
    type Guard<'r>: OpenSection
    where
        Self: 'r;

    /// Opens a section.
    fn enter(&self) -> Self::Guard<'_>;
}

/// An open section.
pub trait OpenSection {
    /// The proof that it is open.
    fn section(&self) -> Section<'_>;
}

impl<F: Flavour> OpenSection for Guard<'_, F> {
    #[inline(always)]
    fn section(&self) -> Section<'_> {
        Guard::section(self)
    }
}

impl<F: Flavour> ReadSide for Member<F> {
    fn section(&mut self, work: &mut dyn FnMut(Section<'_>)) {
        let guard = Member::enter(self);
        work(guard.section());
    }

    #[inline(always)]
    fn quiescent(&mut self) {
        Member::quiescent(self);
    }

    fn offline(&mut self, work: &mut dyn FnMut()) {
        Member::offline(self, work);
    }

    fn reclaim(&mut self, heap: &Heap) {
        Member::quiescent(self);
        heap.retired().reclaim(self.domain(), Budget::UNLIMITED);
    }

    #[inline(always)]
    fn seat(&self) -> &Rc<Seat> {
        Member::seat(self)
    }
}

impl<F: Flavour> Enter for Member<F> {
    type Guard<'r> = Guard<'r, F>;

    #[inline(always)]
    fn enter(&self) -> Guard<'_, F> {
        Member::enter(self)
    }
}
