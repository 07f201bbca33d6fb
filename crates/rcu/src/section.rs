//! The proof that a read-side critical section is open.

use std::marker::PhantomData;

/// Proof that the calling thread is inside a read-side critical section for as long as `'g` lasts.
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
    /// a registered reader is inside its section, or the caller has the structure to itself.
    #[inline(always)]
    #[must_use]
    #[allow(unsafe_code)]
    pub unsafe fn assume<'g>() -> Section<'g> {
        Section { marker: PhantomData }
    }
}
