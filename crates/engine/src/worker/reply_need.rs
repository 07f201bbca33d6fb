//! Dependence of a turn's replies on the journal.

use tidemill_store::SlotNumber;

use crate::commit::RecordNumber;
use crate::slots::records::SlotRecords;

/// Records that the replies of the present turn depend on: the last ones of the slots that its
/// reads have looked into, or everything that was numbered so far.
#[derive(Debug, Default)]
pub(crate) struct ReplyNeed {
    /// True if replies wait for records at all, as of the last iteration.
    is_noted: bool,
    /// True if all of them are of reads that were noted.
    is_of_reads: bool,
    /// Last record of those reads.
    last: RecordNumber,
}

impl ReplyNeed {
    /// Notes what replies need from now on, or no more.
    #[inline]
    pub(crate) fn set_noted(&mut self, is_noted: bool) {
        self.is_noted = is_noted;
    }

    /// True if reads are to be noted.
    #[inline]
    pub(crate) fn is_noted(&self) -> bool {
        self.is_noted
    }

    /// A turn begins, without any reply yet.
    #[inline]
    pub(crate) fn begin(&mut self) {
        (self.is_of_reads, self.last) = (self.is_noted, 0);
    }

    /// A reply may depend on everything.
    #[inline]
    pub(crate) fn depend_on_all(&mut self) {
        self.is_of_reads = false;
    }

    /// A reply depends on a slot, which was read before.
    #[inline]
    pub(crate) fn depend_on(&mut self, slot: SlotNumber, records: &SlotRecords) {
        self.last = self.last.max(records.last(slot));
    }

    /// The record that the turn's replies depend on; none if they depend on everything that was
    /// numbered so far. Replies that come behind the turn's depend on everything.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<RecordNumber> {
        std::mem::take(&mut self.is_of_reads).then_some(self.last)
    }
}
