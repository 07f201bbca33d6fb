//! Locks of slots within a context.

use tidemill_store::{SlotLock, SlotNumber};

use super::cx::Access;
use crate::shared::Shared;
use crate::slots::registry::SlotRegistry;

impl<'k> Access<'k, '_> {
    /// The lock of a slot.
    ///
    /// # Panics
    ///
    /// When the slot is not locked: a write command declares its keys.
    #[inline]
    pub(super) fn lock(&mut self, slot: SlotNumber) -> &mut SlotLock<'k, SlotRegistry> {
        self.unit().lock(slot).expect(ALL_DECLARED)
    }

    /// The lock of a slot, for a change that is published next.
    ///
    /// # Panics
    ///
    /// As [`Access::lock`].
    #[inline]
    pub(super) fn lock_to_publish(
        &mut self,
        shared: &Shared,
        slot: SlotNumber,
    ) -> &mut SlotLock<'k, SlotRegistry> {
        self.unit().lock_to_publish(shared, slot).expect(ALL_DECLARED)
    }
}

pub(super) const ALL_DECLARED: &str = "a write command declares all keys that it edits";
