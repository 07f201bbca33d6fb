//! Read sections, without knowing the RCU flavour.

use tidemill_rcu::{Flavour, Guard, Reader, Section};

/// Opens read sections, for code that is compiled once for all flavours and runs rarely or long.
pub trait ReadSide {
    /// Runs `work` in a read section.
    fn section(&mut self, work: &mut dyn FnMut(Section<'_>));

    /// Announces that nothing is held that was read. To be called inside long work, between two sections.
    fn quiescent(&mut self);
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

impl<F: Flavour> ReadSide for Reader<F> {
    fn section(&mut self, work: &mut dyn FnMut(Section<'_>)) {
        let guard = Reader::enter(self);
        work(guard.section());
    }

    fn quiescent(&mut self) {
        Reader::quiescent(self);
    }
}

impl<F: Flavour> Enter for Reader<F> {
    type Guard<'r> = Guard<'r, F>;

    #[inline(always)]
    fn enter(&self) -> Guard<'_, F> {
        Reader::enter(self)
    }
}
