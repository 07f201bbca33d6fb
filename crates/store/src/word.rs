//! The slot word: lock, held mark and version of a slot, read by every thread and stored by the
//! lock's owner.
//!
//! # The protocol
//!
//! A **writer** takes the lock bit by compare-and-swap. Around every change that a reader could
//! notice it makes the version odd, publishes, and makes the version even again. A change that must
//! appear as one but takes several publications (`EXEC`, `RENAME`, a script, ..., in several slots
//! or in one) first marks all its slots held, then changes them, then releases them one by one.
//! Held periods are counted in the word.
//!
//! A **reader** takes no lock (an optimistic read). It loads the word, looks its key up, and loads
//! the word again:
//!
//! - the second word is *held*: a change may be half done, so the result does not count, and the
//!   reader waits;
//! - a *hit* counts if no held period overlapped the lookup ([`Word::confirms_hit`]): neither word
//!   is held and both count the same periods. The second word alone does not suffice: `EXEC` may
//!   set a key twice, and a reader that found the first value and then saw the slot released would
//!   answer a value that never was. Changes of one publication do not matter: the entry was in the
//!   table when its pointer was loaded, or when a resize replaced the segment that the lookup had
//!   begun to read; there the read takes effect;
//! - a hit of a tree counts so if what is read of it is one leaf, once. What is read of several
//!   leaves, or counted by positions, is of one moment only if the word is *unchanged*
//!   ([`Word::is_unchanged`]): a publication may replace a leaf below roots that are older;
//! - a *miss* counts only if both words are equal and their version is even
//!   ([`Word::confirms_miss`]);
//! - a hit that is *found expired* counts only as [`ExpiryFloor`] says.
//!
//! # Orderings
//!
//! Odd, fence(Release), publish(Release) on one side; load pointer(Acquire), load word(Acquire) on
//! the other: a thread that sees a published pointer sees the odd version or the held mark before
//! it, or something later. Conversely the first load of the word is Acquire and pairs with the
//! Release that made it even, so a reader that starts from a version sees everything published
//! before that version.
//!
//! Only the lock's owner stores to `word`; waiting sessions announce themselves in `waiting`, in
//! the same cache line. The owner swaps the word and then reads `waiting`; a waiter sets `waiting`
//! and then reads the word; all four are sequentially consistent, so one of the two sees the other
//! and no wake-up is lost.

mod floor;
#[cfg(all(test, loom))]
mod model;

pub use floor::ExpiryFloor;

use crate::primitive::{AtomicU32, AtomicU64, Ordering, fence, total_order_for_loom};

const LOCKED: u64 = 1;
/// Lowest bit of the count of held periods: odd during one. 24 bits repeat after eight million
/// periods, all of which would have to fall into one lookup.
const HELD: u64 = 1 << 1;
const HELD_COUNT: u64 = ((1 << 24) - 1) << 1;
/// Lowest bit of the version: odd during a publication. The version has the top bits, where an
/// overflow is lost.
const CHANGING: u64 = 1 << 25;

/// The word with the count of held periods stepped on: a period has begun, or ended.
fn count_held(word: u64) -> u64 {
    (word & !HELD_COUNT) | (word.wrapping_add(HELD) & HELD_COUNT)
}

/// Slot word as loaded at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    /// True if the slot's lock is taken.
    #[must_use]
    pub fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// True if the slot is held: a change of several publications is under way.
    #[must_use]
    pub fn is_held(self) -> bool {
        self.0 & HELD != 0
    }

    /// True if a publication is under way: the version is odd.
    #[must_use]
    pub fn is_changing(self) -> bool {
        self.0 & CHANGING != 0
    }

    /// True if a hit counts: no held period overlapped the time from `self` to the later word
    /// `now`.
    #[must_use]
    #[inline]
    pub fn confirms_hit(self, now: Word) -> bool {
        !self.is_held() && (self.0 ^ now.0) & HELD_COUNT == 0
    }

    /// True if a miss counts: no publication overlapped the time from `self` to the later word
    /// `now`.
    #[must_use]
    #[inline]
    pub fn confirms_miss(self, now: Word) -> bool {
        self.is_unchanged(now)
    }

    /// Word that confirms nothing, whatever later word it is compared with: for a lookup that is
    /// known not to count.
    #[must_use]
    pub fn of_vain_lookup() -> Word {
        Word(HELD)
    }

    /// True if no publication and no held period overlapped the time from `self` to the later word
    /// `now`.
    #[must_use]
    #[inline]
    pub fn is_unchanged(self, now: Word) -> bool {
        // The lock bit alone says nothing about the content.
        !self.is_changing() && !self.is_held() && (self.0 | LOCKED) == (now.0 | LOCKED)
    }
}

/// Lock, held mark and version of one slot.
#[derive(Debug)]
pub struct SlotWord {
    word: AtomicU64,
    waiting: AtomicU32,
}

impl Default for SlotWord {
    fn default() -> Self {
        SlotWord { word: AtomicU64::new(0), waiting: AtomicU32::new(0) }
    }
}

impl SlotWord {
    /// Loads the word. Everything published before its version is visible afterwards.
    #[must_use]
    #[inline]
    pub fn load(&self) -> Word {
        // Acquire: pairs with the Release stores of `end_change` and `unlock`.
        Word(self.word.load(Ordering::Acquire))
    }

    /// Loads the word behind a lookup: the loads of the lookup come before.
    #[must_use]
    #[inline]
    pub fn load_after(&self) -> Word {
        // Acquire fence: keeps the lookup's loads before this one. The load is Acquire as well: the
        // session's next reads must see at least what the owner of this version had published.
        fence(Ordering::Acquire);
        Word(self.word.load(Ordering::Acquire))
    }

    /// Takes the lock if it is free. Never waits.
    #[must_use]
    #[inline]
    pub fn try_lock(&self) -> bool {
        // Relaxed: only a guess, which the compare-and-swap below confirms.
        let word = self.word.load(Ordering::Relaxed);
        // Acquire: pairs with the swap of `unlock`, so the new owner sees everything the last one
        // did. Relaxed on failure: nothing is read then.
        word & LOCKED == 0
            && self
                .word
                .compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Announces that a session waits for the lock; false when the slot was released meanwhile and
    /// the session must not wait.
    #[must_use]
    pub fn announce_waiting(&self) -> bool {
        // SeqCst on both: pairs with the swap and the load in `unlock`, see the module's
        // documentation.
        self.waiting.store(1, Ordering::SeqCst);
        total_order_for_loom();
        let word = Word(self.word.load(Ordering::SeqCst));
        word.is_locked() || word.is_held()
    }

    /// Takes the announcement back; the caller is about to wake every session that made one.
    pub fn clear_waiting(&self) {
        // Relaxed: called under the lock that also guards announcing.
        self.waiting.store(0, Ordering::Relaxed);
    }

    /// Marks the slot held until it is released: readers wait. Does nothing if it is held already.
    /// Only the lock's owner may call this.
    pub(crate) fn mark_held(&self) {
        // Relaxed: only the owner stores; the fence below orders it before the first publication.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0 && word & CHANGING == 0);
        if word & HELD != 0 {
            return;
        }
        self.word.store(count_held(word), Ordering::Relaxed);
        // Release: pairs with the Acquire load of a published pointer; a reader that sees the
        // pointer sees the mark.
        fence(Ordering::Release);
    }

    /// Makes the version odd. Only the lock's owner may call this.
    #[inline]
    pub(crate) fn begin_change(&self) {
        // Relaxed: only the owner stores.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0 && word & CHANGING == 0);
        self.word.store(word.wrapping_add(CHANGING), Ordering::Relaxed);
        // Release: pairs with `load_after`; a reader that sees the next publication sees the odd
        // version.
        fence(Ordering::Release);
    }

    /// Makes the version even again. Only the lock's owner may call this.
    #[inline]
    pub(crate) fn end_change(&self) {
        // Relaxed: only the owner stores.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & CHANGING != 0);
        // Release: pairs with `load`; a reader that starts from this version sees the publication.
        self.word.store(word.wrapping_add(CHANGING), Ordering::Release);
    }

    /// Releases the lock and ends the held period; true when sessions wait and must be woken.
    #[must_use]
    #[inline]
    pub(crate) fn unlock(&self) -> bool {
        // Relaxed: only the owner stores.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0 && word & CHANGING == 0);
        // SeqCst on both: pairs with `announce_waiting`. The swap's release half pairs with
        // `try_lock` and `load`.
        let released = if word & HELD != 0 { count_held(word) } else { word } & !LOCKED;
        self.word.swap(released, Ordering::SeqCst);
        total_order_for_loom();
        self.waiting.load(Ordering::SeqCst) != 0
    }
}
