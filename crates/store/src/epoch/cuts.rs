//! Cuts of one keyspace as its writers see them.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::active::ActiveCut;
use super::batches::Batches;
use crate::entry::{self, Disposal, EntryRef};
use crate::heap::Heap;
use crate::limits::{CUT_EPOCHS, HAND_OVER_QUEUES};

/// Entry of a cut that a writer took out of its table.
pub(crate) struct PreImage {
    entry: NonNull<u8>,
    disposal: Disposal,
    epoch: u16,
    /// Number that its database had at the cut.
    database: u32,
    /// Bytes that it keeps from being freed.
    held_bytes: usize,
}

// SAFETY: the entry is owned by the pre-image, which may be read and retired on any thread of the
// domain.
unsafe impl Send for PreImage {}

impl fmt::Debug for PreImage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PreImage").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl PreImage {
    pub(super) fn epoch(&self) -> u16 {
        self.epoch
    }

    /// Number that its database had at the cut, and the entry.
    pub(super) fn entry(&self) -> (usize, EntryRef<'_>) {
        // SAFETY: the pre-image owns the entry, so it lives as long as the borrow. The nodes of its
        // tree are held until the batch in which it was taken over is done, see `batches`.
        (self.database as usize, unsafe { EntryRef::from_pointer(self.entry) })
    }

    /// Retires the entry, and its value if nothing else refers to it.
    pub(super) fn retire(self, cuts: &Cuts, heap: &Heap) {
        heap.allocated(self.held_bytes);
        // SAFETY: the pre-image owns the entry, which was not freed.
        let entry = unsafe { EntryRef::from_pointer(self.entry) };
        // SAFETY: the writer took it out of its table and left it to the pre-image, which is used
        // up; readers that found it before are in sections of this heap's domain.
        unsafe { entry::retire_left(entry, self.disposal, heap) };
        cuts.active.count_freed(self.held_bytes);
    }
}

/// Pre-images of some writers. A line of its own: each writer mostly has one for itself.
#[derive(Debug, Default)]
#[repr(align(64))]
struct HandOverQueue {
    pushed: Mutex<Vec<PreImage>>,
}

impl HandOverQueue {
    fn pushed(&self) -> MutexGuard<'_, Vec<PreImage>> {
        self.pushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers of cuts; epochs are made of them.
#[derive(Debug, Default)]
struct Numbers {
    /// Number of the last cut.
    last: u64,
    /// Number of the last cut of whose stamps, and of those of cuts before it, none is left.
    last_cleared: u64,
}

impl Numbers {
    /// True if the epoch of the next cut is that of one whose stamps may be left.
    fn are_used_up(&self) -> bool {
        self.last - self.last_cleared >= CUT_EPOCHS
    }
}

/// Cuts of one keyspace.
#[derive(Debug)]
pub(crate) struct Cuts {
    active: Arc<ActiveCut>,
    queues: Box<[HandOverQueue]>,
    numbers: Mutex<Numbers>,
}

impl Default for Cuts {
    fn default() -> Cuts {
        Cuts {
            active: Arc::default(),
            queues: (0..HAND_OVER_QUEUES).map(|_| HandOverQueue::default()).collect(),
            numbers: Mutex::default(),
        }
    }
}

impl Cuts {
    /// The active cut, as heaps see it.
    pub(crate) fn active(&self) -> &Arc<ActiveCut> {
        &self.active
    }

    /// Takes an entry over that a writer has just taken out of its table under the slot's lock, in
    /// the place of [`entry::retire`]; returns what that would return.
    ///
    /// # Safety
    ///
    /// As for [`entry::retire`]; nodes that the entry's value shares with other versions are
    /// retired later than this call, by heaps of the same keyspace.
    #[cold]
    pub(crate) unsafe fn hand_over(
        &self,
        epoch: u16,
        database: u32,
        entry: EntryRef<'_>,
        disposal: Disposal,
        heap: &Heap,
    ) -> usize {
        assert!(heap.is_of(&self.active), "a heap of this keyspace's members");
        let (held_bytes, all_bytes) = entry.retired_bytes(disposal);
        heap.discarded(held_bytes);
        self.active.count_held(held_bytes);
        let pre_image = PreImage { entry: entry.pointer(), disposal, epoch, database, held_bytes };
        self.queues[heap.number() % HAND_OVER_QUEUES].pushed().push(pre_image);
        all_bytes
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a cut and returns its epoch. No other one is active, and the gate is closed.
    pub(super) fn begin(&self) -> u16 {
        let mut numbers = self.numbers();
        assert!(self.active.epoch() == 0, "one cut at a time");
        assert!(!numbers.are_used_up(), "stamps were cleared");
        numbers.last += 1;
        let epoch = ((numbers.last - 1) % CUT_EPOCHS + 1) as u16;
        self.active.begin(epoch);
        epoch
    }

    /// Ends the active cut. Nothing is read of it from now on.
    pub(super) fn end(&self, is_complete: bool) {
        let mut numbers = self.numbers();
        if is_complete {
            // Its own stamp is on every entry.
            numbers.last_cleared = numbers.last - 1;
        }
        self.active.end();
    }

    /// True if no further cut may begin before all stamps are cleared.
    pub(crate) fn is_used_up(&self) -> bool {
        self.numbers().are_used_up()
    }

    /// No entry has a stamp any more.
    pub(crate) fn note_cleared(&self) {
        let mut numbers = self.numbers();
        numbers.last_cleared = numbers.last;
    }

    pub(super) fn batches(&self) -> &Batches {
        self.active.batches()
    }

    /// Takes over everything that was handed over so far.
    pub(super) fn drain(&self, into: &mut Vec<PreImage>) {
        for queue in &self.queues {
            into.append(&mut queue.pushed());
        }
    }

    /// Takes pre-images back that are not going to be read.
    pub(super) fn give_back(&self, images: &mut Vec<PreImage>) {
        self.queues[0].pushed().append(images);
    }

    /// Retires everything that was handed over, unless a cut is active.
    pub(crate) fn discard(&self, heap: &Heap) {
        let mut left = Vec::new();
        {
            let _numbers = self.numbers();
            if self.active.epoch() != 0 {
                return;
            }
            self.drain(&mut left);
        }
        left.into_iter().for_each(|image| image.retire(self, heap));
    }
}

impl Drop for Cuts {
    fn drop(&mut self) {
        let mut left = Vec::new();
        self.drain(&mut left);
        for pre_image in left {
            // SAFETY: the pre-image owns the entry, which was not freed.
            let entry = unsafe { EntryRef::from_pointer(pre_image.entry) };
            // SAFETY: the keyspace and its cuts are gone, which all references to the entry borrow.
            // A tree that another entry took over is freed with that one.
            unsafe { entry::free_left(entry, pre_image.disposal) };
        }
    }
}
