//! The word of a slot: its lock, its held mark and its version, read by everybody and written by the lock's owner.
//!
//! # The protocol
//!
//! A **writer** takes the lock bit by compare-and-swap. Around every change that a reader could notice it makes the
//! version odd, publishes, and makes the version even again. Whatever must appear as one but takes several
//! publications (`EXEC`, `RENAME`, a script, ..., in several slots or in one) first marks all its slots held, then
//! changes them, then releases them one by one. Held periods are counted in the word.
//!
//! A **reader** takes no lock. It loads the word, looks its key up, and loads the word again:
//!
//! - the second word is *held*: a change may be half done, so what was read does not count, and the reader waits;
//! - a *hit* counts if no held period overlapped the lookup ([`Word::confirms_hit`]): neither word is held and both
//!   count the same periods. Looking at the second word alone is not enough: `EXEC` may set a key twice, and a
//!   reader that met the first value and then saw the slot released would answer what never was. Changes that are
//!   one publication do not matter: the entry was in the table when its pointer was loaded, or when a resize put
//!   another segment in the place of the one that the lookup had begun to read; there the read takes effect;
//! - a *miss* counts only if both words are equal and their version is even ([`Word::confirms_miss`]);
//! - a hit that is *found expired* counts only as [`ExpiryFloor`] says.
//!
//! # Orderings
//!
//! Odd, fence(Release), publish(Release) on one side; load pointer(Acquire), load word(Acquire) on the other: who sees
//! a published pointer sees the odd version or the held mark before it, or something later. Conversely the first load
//! of the word is Acquire and pairs with the Release that made it even, so a reader that starts from a version sees
//! everything published before that version.
//!
//! The lock's owner is the only one who stores to `word`; waiting sessions announce themselves in `waiting`, in the
//! same cache line. Releasing swaps the word and then reads `waiting`; waiting sets `waiting` and then reads the word;
//! all four are sequentially consistent, so one of the two sees the other and no wake-up is lost.

mod floor;
#[cfg(all(test, loom))]
mod model;

pub use floor::ExpiryFloor;

use crate::primitive::{AtomicU32, AtomicU64, Ordering, fence, total_order_for_loom};

const LOCKED: u64 = 1;
/// The lowest bit of the count of held periods: odd while one lasts. 24 bits repeat after eight million periods, all
/// of which would have to fall into one lookup.
const HELD: u64 = 1 << 1;
const HELD_COUNT: u64 = ((1 << 24) - 1) << 1;
/// The lowest bit of the version: odd during a publication. It has the top bits, where an overflow is lost.
const CHANGING: u64 = 1 << 25;

/// One held period more, half begun or half ended.
fn count_held(word: u64) -> u64 {
    (word & !HELD_COUNT) | (word.wrapping_add(HELD) & HELD_COUNT)
}

/// What a slot's word said at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    /// Somebody owns the slot's lock.
    #[must_use]
    pub fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// A change of several slots is under way.
    #[must_use]
    pub fn is_held(self) -> bool {
        self.0 & HELD != 0
    }

    /// A publication is under way: the version is odd.
    #[must_use]
    pub fn is_changing(self) -> bool {
        self.0 & CHANGING != 0
    }

    /// A hit counts: no held period overlapped the time from `self` to the later word `now`.
    #[must_use]
    #[inline]
    pub fn confirms_hit(self, now: Word) -> bool {
        !self.is_held() && (self.0 ^ now.0) & HELD_COUNT == 0
    }

    /// A miss counts: nothing was published from `self` to the later word `now`, and nothing was being published.
    #[must_use]
    #[inline]
    pub fn confirms_miss(self, now: Word) -> bool {
        self.is_unchanged(now)
    }

    /// A word that confirms nothing, whatever comes after it: in the place of one whose lookup is known not to count.
    #[must_use]
    pub fn of_vain_lookup() -> Word {
        Word(HELD)
    }

    /// Nothing was published between `self` and the later word `now`, and nothing was being published.
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
    /// The word now. Everything published before the version it shows is visible afterwards.
    #[must_use]
    #[inline]
    pub fn load(&self) -> Word {
        // Acquire: pairs with the Release stores of `end_change` and `unlock`.
        Word(self.word.load(Ordering::Acquire))
    }

    /// The word after a lookup: what the lookup loaded came before.
    #[must_use]
    #[inline]
    pub fn load_after(&self) -> Word {
        // The fence keeps the lookup's loads before this one. The load is Acquire as well: what the session reads next
        // must see at least what the owner of this version had published.
        fence(Ordering::Acquire);
        Word(self.word.load(Ordering::Acquire))
    }

    /// Takes the lock if it is free. Never waits.
    #[must_use]
    #[inline]
    pub fn try_lock(&self) -> bool {
        // Relaxed: only a guess that the compare-and-swap below confirms.
        let word = self.word.load(Ordering::Relaxed);
        // Acquire: pairs with the swap of `unlock`, so the new owner sees all that the last one did. Relaxed on
        // failure: nothing is read then.
        word & LOCKED == 0
            && self
                .word
                .compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Announces that a session waits for the lock; `false` when the slot was released meanwhile and it must not wait.
    #[must_use]
    pub fn announce_waiting(&self) -> bool {
        // SeqCst on both: pairs with the swap and the load in `unlock`, see the module's documentation.
        self.waiting.store(1, Ordering::SeqCst);
        total_order_for_loom();
        let word = Word(self.word.load(Ordering::SeqCst));
        word.is_locked() || word.is_held()
    }

    /// Forgets the announcement; the caller is about to wake everybody who made one.
    pub fn clear_waiting(&self) {
        // Relaxed: called under the lock that also guards announcing.
        self.waiting.store(0, Ordering::Relaxed);
    }

    /// Marks the slot held until it is released: readers wait. Again it does nothing. Only the lock's owner may call
    /// this.
    pub(crate) fn mark_held(&self) {
        // Relaxed: only the owner stores; the fence below orders it before the first publication.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0 && word & CHANGING == 0);
        if word & HELD != 0 {
            return;
        }
        self.word.store(count_held(word), Ordering::Relaxed);
        // Release: pairs with the Acquire load of a published pointer; who sees it sees the mark.
        fence(Ordering::Release);
    }

    /// Makes the version odd. Only the lock's owner may call this.
    #[inline]
    pub(crate) fn begin_change(&self) {
        // Relaxed: only the owner stores.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0 && word & CHANGING == 0);
        self.word.store(word.wrapping_add(CHANGING), Ordering::Relaxed);
        // Release: pairs with `load_after`; who sees what is published next sees the odd version.
        fence(Ordering::Release);
    }

    /// Makes the version even again. Only the lock's owner may call this.
    #[inline]
    pub(crate) fn end_change(&self) {
        // Relaxed: only the owner stores.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & CHANGING != 0);
        // Release: pairs with `load`; who starts from this version sees the publication.
        self.word.store(word.wrapping_add(CHANGING), Ordering::Release);
    }

    /// Gives the lock and the held mark back; `true` when sessions wait and must be woken.
    #[must_use]
    #[inline]
    pub(crate) fn unlock(&self) -> bool {
        // Relaxed: only the owner stores.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0 && word & CHANGING == 0);
        // SeqCst on both: pairs with `announce_waiting`. The swap's release half pairs with `try_lock` and `load`.
        let released = if word & HELD != 0 { count_held(word) } else { word } & !LOCKED;
        self.word.swap(released, Ordering::SeqCst);
        total_order_for_loom();
        self.waiting.load(Ordering::SeqCst) != 0
    }
}
