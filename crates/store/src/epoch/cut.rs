//! A cut as its walker sees it.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::claimed::Claimed;
use super::cuts::{Cuts, PreImage};
use crate::entry::EntryRef;
use crate::gate::ClosedGate;
use crate::heap::Heap;
use crate::keyspace::{Database, Keyspace};
use crate::limits::{CLAIM_ATTEMPTS_MAX, CLAIMED_ENTRIES_MAX, SLOT_COUNT};
use crate::member::Section;
use crate::slot::SlotNumber;

/// A database of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutDatabase {
    /// Its number at the cut.
    pub number: usize,
    /// Number of its keys.
    pub keys: u64,
    /// Number of its keys with an expiry.
    pub expiring: u64,
    /// Number of its hashes with fields that expire.
    pub volatile: u64,
}

/// Content of a database at the cut.
struct Content {
    database: CutDatabase,
    pointer: NonNull<Database>,
    /// Slots that had keys, 64 to a word.
    nonempty: Box<[u64]>,
}

/// Place at which a walk goes on.
#[derive(Clone, Copy, Debug)]
struct Place {
    content: usize,
    slot: SlotNumber,
    hash: u64,
    /// It was skipped before: the walk does not go on behind it.
    was_skipped: bool,
}

/// Progress of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// There is more to claim.
    More,
    /// Entries are left in slots that somebody has locked: to be tried again in a moment.
    Waiting,
    /// Every entry of the cut was claimed or handed over. The next batch is the last.
    All,
}

/// All data of one moment, on its way to a file or a replica.
///
/// To be used in rounds: [`Cut::begin_batch`], [`Cut::claim`], reading [`Cut::pre_images`] and
/// [`Cut::claimed`], [`Cut::end_batch`]. Dropped before [`Cut::end`], it is given up: what was
/// handed over is retired by the next cut's thread, or by [`Keyspace::discard_handed_over`].
pub struct Cut {
    cuts: Arc<Cuts>,
    epoch: u16,
    contents: Vec<Content>,
    /// Place of the walk; none when only skipped places are left.
    at: Option<Place>,
    /// Places whose slots were locked by others.
    skipped: VecDeque<Place>,
    /// Database of the claimed entries.
    claimed_from: usize,
    claimed: Claimed,
    drained: Vec<PreImage>,
    has_walked_all: bool,
    is_ended: bool,
}

// SAFETY: the databases are held by the cut until it ends, and read under slots' locks and sections
// of the thread that walks.
unsafe impl Send for Cut {}

impl fmt::Debug for Cut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cut").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Cut {
    /// Begins a cut of all databases. Takes time proportional to the databases that were written,
    /// not to their keys.
    ///
    /// # Panics
    ///
    /// While another cut is active.
    pub(crate) fn begin(
        cuts: &Arc<Cuts>,
        databases: impl Iterator<Item = (usize, NonNull<Database>)>,
        _alone: &ClosedGate<'_>,
    ) -> Cut {
        let epoch = cuts.begin();
        let contents = databases.map(|(number, pointer)| {
            // SAFETY: the keyspace has the database now, with the gate closed.
            let database = unsafe { pointer.as_ref() };
            database.hold(number);
            Content {
                database: CutDatabase {
                    number,
                    keys: database.key_count(),
                    expiring: database.expiring_count(),
                    // Relaxed: the gate orders it.
                    volatile: database.volatile_count.load(Ordering::Relaxed),
                },
                pointer,
                nonempty: database.nonempty.words().collect(),
            }
        });
        let mut cut = Cut {
            cuts: Arc::clone(cuts),
            epoch,
            contents: contents.collect(),
            at: None,
            skipped: VecDeque::new(),
            claimed_from: 0,
            claimed: Claimed::default(),
            drained: Vec::new(),
            has_walked_all: false,
            is_ended: false,
        };
        cut.at = cut.first_place(0, 0);
        cut
    }

    /// Databases with keys.
    pub fn databases(&self) -> impl Iterator<Item = CutDatabase> {
        self.contents.iter().map(|content| content.database).filter(|database| database.keys > 0)
    }

    /// Number of all keys.
    #[must_use]
    pub fn key_count(&self) -> u64 {
        self.contents.iter().map(|content| content.database.keys).sum()
    }

    /// First slot with keys at the cut, from a content and a slot of it on.
    fn first_place(&self, content: usize, slot: usize) -> Option<Place> {
        let mut slot = slot;
        for (index, content) in self.contents.iter().enumerate().skip(content) {
            while slot < SLOT_COUNT {
                let bits = content.nonempty[slot / 64] >> (slot % 64);
                if bits != 0 {
                    let slot = slot + bits.trailing_zeros() as usize;
                    let slot = SlotNumber::from_index(slot).expect("a slot of the bitmap");
                    return Some(Place { content: index, slot, hash: 0, was_skipped: false });
                }
                slot = (slot / 64 + 1) * 64;
            }
            slot = 0;
        }
        None
    }

    /// Begins a round: takes over what was handed over since the last one. What is left of another
    /// cut is retired.
    pub fn begin_batch(&mut self, heap: &Heap) {
        self.cuts.batches().begin();
        let mut drained = std::mem::take(&mut self.drained);
        debug_assert!(drained.is_empty(), "a batch is ended before the next one");
        self.cuts.drain(&mut drained);
        let epoch = self.epoch;
        if drained.iter().any(|image| image.epoch() != epoch) {
            let (own, left): (Vec<_>, Vec<_>) =
                drained.into_iter().partition(|image| image.epoch() == epoch);
            left.into_iter().for_each(|image| image.retire(&self.cuts, heap));
            drained = own;
        }
        self.drained = drained;
    }

    /// Claims the next entries, of one slot. Never waits; holds the slot's lock for as long as it
    /// takes to copy a few dozen entries. The caller is inside of the gate, or has closed it.
    ///
    /// # Panics
    ///
    /// When the keyspace is not the one that was cut.
    pub fn claim<S: Default>(&mut self, keyspace: &Keyspace<S>, section: Section<'_>) -> Walked {
        assert!(keyspace.is_cut_by(&self.cuts), "the keyspace that was cut");
        let Some(place) = self.at.take().or_else(|| self.skipped.pop_front()) else {
            self.has_walked_all = true;
            return Walked::All;
        };
        let next = match place.was_skipped {
            true => None,
            false => self.first_place(place.content, place.slot.index() + 1),
        };
        let lock = (0..CLAIM_ATTEMPTS_MAX).find_map(|_| {
            let lock = keyspace.try_lock(place.slot);
            if lock.is_none() {
                std::hint::spin_loop();
            }
            lock
        });
        let Some(_lock) = lock else {
            self.skipped.push_back(Place { was_skipped: true, ..place });
            self.at = next;
            return if place.was_skipped { Walked::Waiting } else { Walked::More };
        };
        let hash = self.claim_from(place, keyspace, section);
        self.at = match hash {
            Some(hash) => Some(Place { hash, ..place }),
            None => next,
        };
        Walked::More
    }

    /// Claims from a place on, whose slot is locked; returns the hash to go on from.
    fn claim_from<S: Default>(
        &mut self,
        place: Place,
        keyspace: &Keyspace<S>,
        section: Section<'_>,
    ) -> Option<u64> {
        let content = &self.contents[place.content];
        self.claimed_from = content.database.number;
        // SAFETY: the cut holds the database, so it is not freed before the cut ends.
        let database = unsafe { content.pointer.as_ref() };
        let table = &database.tables[place.slot];
        let (epoch, claimed) = (self.epoch, &mut self.claimed);
        let mut hash = place.hash;
        loop {
            let next = table.visit_bucket(hash, 1, keyspace.seed(), section, &mut |entry| {
                if entry.epoch() != epoch {
                    entry.set_epoch(epoch);
                    claimed.push(entry);
                }
            });
            match next {
                Some(next) if claimed.len() < CLAIMED_ENTRIES_MAX => hash = next,
                next => return next,
            }
        }
    }

    /// Entries that were handed over, with the numbers that their databases had at the cut.
    pub fn pre_images(&self) -> impl Iterator<Item = (usize, EntryRef<'_>)> {
        self.drained.iter().map(PreImage::entry)
    }

    /// Entries that were claimed, likewise.
    pub fn claimed(&self) -> impl Iterator<Item = (usize, EntryRef<'_>)> {
        self.claimed.entries().map(|entry| (self.claimed_from, entry))
    }

    /// Ends a round: what was taken over and claimed is written, or not wanted. Returns true when
    /// it was the last.
    pub fn end_batch(&mut self, heap: &Heap) -> bool {
        self.claimed.clear();
        for image in self.drained.drain(..) {
            image.retire(&self.cuts, heap);
        }
        self.cuts.batches().end();
        self.has_walked_all
    }

    /// Ends the cut after its last round, or gives it up.
    pub fn end(mut self, heap: &Heap) {
        let is_complete = self.has_walked_all;
        self.leave(is_complete);
        self.end_batch(heap);
        // Of writers that have not noticed the end.
        self.begin_batch(heap);
        self.end_batch(heap);
    }

    /// Writers are told, and databases are given back.
    fn leave(&mut self, is_complete: bool) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        self.claimed.clear();
        self.cuts.end(is_complete);
        for content in &self.contents {
            // SAFETY: as in `claim_from`; the last access.
            unsafe { content.pointer.as_ref() }.release();
        }
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.leave(false);
        self.cuts.give_back(&mut self.drained);
    }
}
