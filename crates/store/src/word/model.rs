//! Loom models of the slot word's protocol: `make test-loom-store`.
//!
//! The word is the real one; the tables are models, stricter than the real tables where that makes
//! the protocol harder to keep: an entry may move from place to place under an odd version.
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::{ExpiryFloor, SlotWord};

/// Slot with two places, scanned from the first to the second. Zero is an empty place.
#[derive(Default)]
struct Slot {
    word: SlotWord,
    places: [AtomicU64; 2],
}

impl Slot {
    fn with(value: u64) -> Slot {
        let slot = Slot::default();
        slot.places[1].store(value, Ordering::Relaxed);
        slot
    }

    fn change(&self, place: usize, value: u64) {
        self.word.begin_change();
        self.places[place].store(value, Ordering::Release);
        self.word.end_change();
    }

    fn move_to_front(&self) {
        self.word.begin_change();
        self.places[0].store(self.places[1].load(Ordering::Relaxed), Ordering::Release);
        self.places[1].store(0, Ordering::Relaxed);
        self.word.end_change();
    }

    fn lookup(&self) -> Option<u64> {
        // As in the real table: an acquire fence for what is found, none for what is passed over.
        let found =
            self.places.iter().map(|place| place.load(Ordering::Relaxed)).find(|&value| value != 0);
        if found.is_some() {
            fence(Ordering::Acquire);
        }
        found
    }

    /// One optimistic read; `None` when it does not count.
    fn read(&self) -> Option<Option<u64>> {
        let before = self.word.load();
        let found = self.lookup();
        let after = self.word.load_after();
        let counts = match found {
            Some(_) => before.confirms_hit(after),
            None => before.confirms_miss(after),
        };
        counts.then_some(found)
    }

    fn locked(&self, change: impl FnOnce()) {
        if self.word.try_lock() {
            change();
            let _ = self.word.unlock();
        }
    }
}

#[test]
fn a_moving_entry_is_never_missed() {
    loom::model(|| {
        let slot = Arc::new(Slot::with(7));
        let writer = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.locked(|| slot.move_to_front()))
        };
        if let Some(found) = slot.read() {
            assert_eq!(found, Some(7));
        }
        writer.join().unwrap();
        assert_eq!(slot.read(), Some(Some(7)));
    });
}

#[test]
fn a_version_shows_the_publications_before_it() {
    loom::model(|| {
        let slot = Arc::new(Slot::default());
        let fresh = slot.word.load();
        let writer = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.locked(|| slot.change(0, 7)))
        };
        let before = slot.word.load();
        let found = slot.lookup();
        let after = slot.word.load_after();
        if found.is_none() && before.confirms_miss(after) {
            assert!(fresh.is_unchanged(before), "a miss after the insert's version");
        }
        writer.join().unwrap();
        assert_eq!(slot.read(), Some(Some(7)));
    });
}

#[test]
fn a_read_of_two_slots_sees_one_moment() {
    loom::model(|| {
        let slots = Arc::new([Slot::with(1), Slot::with(1)]);
        let writer = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || {
                for slot in slots.iter() {
                    slot.locked(|| slot.change(1, 2));
                }
            })
        };
        let before = [slots[0].word.load(), slots[1].word.load()];
        let found = [slots[0].lookup(), slots[1].lookup()];
        let after = [slots[0].word.load_after(), slots[1].word.load_after()];
        if before[0].is_unchanged(after[0]) && before[1].is_unchanged(after[1]) {
            assert_ne!(found, [Some(1), Some(2)], "the second change without the first");
        }
        writer.join().unwrap();
    });
}

fn change_both(slots: &[Slot; 2]) {
    if !slots[0].word.try_lock() {
        return;
    }
    if slots[1].word.try_lock() {
        slots.iter().for_each(|slot| slot.word.mark_held());
        // The first value of the first slot lasts within the change only.
        slots[0].change(1, 9);
        slots[0].change(1, 2);
        slots[1].change(1, 2);
        let _ = slots[0].word.unlock();
        let _ = slots[1].word.unlock();
    } else {
        let _ = slots[0].word.unlock();
    }
}

fn half_change_is_invisible(order: [usize; 2]) {
    loom::model(move || {
        let slots = Arc::new([Slot::with(1), Slot::with(1)]);
        let writer = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || change_both(&slots))
        };
        let first = slots[order[0]].read().flatten();
        let second = slots[order[1]].read().flatten();
        assert!(first != Some(9) && second != Some(9), "a value that never was");
        if first == Some(2) {
            assert_ne!(second, Some(1), "half a change");
        }
        writer.join().unwrap();
        assert_eq!([slots[0].read(), slots[1].read()], [Some(Some(2)); 2]);
    });
}

#[test]
fn half_a_change_is_invisible_first_slot_first() {
    half_change_is_invisible([0, 1]);
}

#[test]
fn half_a_change_is_invisible_second_slot_first() {
    half_change_is_invisible([1, 0]);
}

#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let slot = Arc::new(Slot::default());
        assert!(slot.word.try_lock());
        let waiter = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || !slot.word.try_lock() && slot.word.announce_waiting())
        };
        let wakes = slot.word.unlock();
        let waits = waiter.join().unwrap();
        assert!(wakes || !waits, "a session waits and nobody wakes it");
    });
}

#[test]
fn owners_see_the_changes_of_owners() {
    loom::model(|| {
        let shared = Arc::new((SlotWord::default(), UnsafeCell::new(0)));
        let add = |shared: &(SlotWord, UnsafeCell<u64>)| {
            let owns = shared.0.try_lock();
            if owns {
                // SAFETY: the lock is held; loom checks just that.
                shared.1.with_mut(|count| unsafe { *count += 1 });
                let _ = shared.0.unlock();
            }
            u64::from(owns)
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || add(&shared))
        };
        let added = add(&shared);
        let added = added + other.join().unwrap();
        // SAFETY: the other thread has ended.
        assert_eq!(shared.1.with(|count| unsafe { *count }), added);
    });
}

/// Value of a place: the entry with its expiry, which the two clocks below judge differently.
const EXPIRING: u64 = 1;
/// The same entry without an expiry.
const PERSISTENT: u64 = 2;
const EXPIRES_AT_MS: u64 = 10;
/// Clocks of a thread that judges late, and of one that judges early.
const LATE_MS: u64 = 20;
const EARLY_MS: u64 = 5;

#[derive(Default)]
struct Expiring {
    slot: Slot,
    floor: ExpiryFloor,
}

impl Expiring {
    fn new() -> Arc<Expiring> {
        Arc::new(Expiring { slot: Slot::with(EXPIRING), ..Expiring::default() })
    }

    /// One optimistic read by a clock: true if the entry is there, `None` when the read does not
    /// count.
    fn is_there(&self, clock_ms: u64) -> Option<bool> {
        let before = self.slot.word.load();
        let found = self.slot.lookup();
        let clock_ms = clock_ms.max(self.floor.load());
        if found == Some(EXPIRING) && clock_ms > EXPIRES_AT_MS {
            let judged_ms = EXPIRES_AT_MS + 1;
            return self
                .floor
                .confirms_expired(judged_ms, &self.slot.word, before)
                .then_some(false);
        }
        let after = self.slot.word.load_after();
        match found {
            Some(_) => before.confirms_hit(after).then_some(true),
            None => before.confirms_miss(after).then_some(false),
        }
    }

    /// `PERSIST` by a clock: true if the entry was there, `None` when the slot was locked.
    fn persist(&self, clock_ms: u64) -> Option<bool> {
        if !self.slot.word.try_lock() {
            return None;
        }
        let clock_ms = clock_ms.max(self.floor.load_locked());
        let is_there = clock_ms <= EXPIRES_AT_MS;
        self.slot.change(1, if is_there { PERSISTENT } else { 0 });
        let _ = self.slot.word.unlock();
        Some(is_there)
    }
}

#[test]
fn a_key_that_a_reader_found_expired_is_not_persisted() {
    loom::model(|| {
        let entry = Expiring::new();
        let writer = {
            let entry = Arc::clone(&entry);
            thread::spawn(move || entry.persist(EARLY_MS))
        };
        let read = entry.is_there(LATE_MS);
        let persisted = writer.join().unwrap();
        assert!(read != Some(false) || persisted != Some(true), "gone, and persisted behind it");
    });
}

#[test]
fn a_floor_raised_by_another_reader_counts_as_well() {
    // Three threads: every interleaving takes minutes, those with up to two preemptions a second.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let entry = Expiring::new();
        let reader = {
            let entry = Arc::clone(&entry);
            thread::spawn(move || entry.is_there(LATE_MS))
        };
        let writer = {
            let entry = Arc::clone(&entry);
            thread::spawn(move || entry.persist(EARLY_MS))
        };
        let read = entry.is_there(EARLY_MS);
        let (other, persisted) = (reader.join().unwrap(), writer.join().unwrap());
        let is_gone = read == Some(false) || other == Some(false);
        assert!(!is_gone || persisted != Some(true), "gone, and persisted behind it");
    });
}

#[test]
fn a_key_that_a_writer_found_expired_stays_expired() {
    loom::model(|| {
        let entry = Expiring::new();
        let writer = {
            let entry = Arc::clone(&entry);
            thread::spawn(move || {
                // It deletes nothing: the next reader has the floor only.
                let owns = entry.slot.word.try_lock();
                if owns {
                    entry.floor.raise(EXPIRES_AT_MS + 1);
                    let _ = entry.slot.word.unlock();
                }
                owns
            })
        };
        let first = entry.is_there(EARLY_MS);
        let second = entry.is_there(EARLY_MS);
        assert!(first != Some(false) || second != Some(true), "gone, and there again");
        assert!(!writer.join().unwrap() || entry.is_there(EARLY_MS) == Some(false));
    });
}
