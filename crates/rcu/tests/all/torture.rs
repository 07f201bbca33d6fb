//! A torture test after liburcu's: readers look for objects that were already freed.
//!
//! Freed objects are poisoned and kept for a while before their memory is reused, so a reader that
//! holds one too long meets the poison. Writers retire in two ways (blocking, and by polled lists);
//! readers nest sections, go offline, and come and go with their threads. Each flavour runs half a
//! second, or `TIDEMILL_TORTURE_SECONDS`.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tidemill_rcu::{
    Bp, Budget, Domain, Flavour, Garbage, Limits, Mb, Memb, Qsbr, Reader, Reclaimer, RetireList,
    Section, Signal, limits::BARRIER_PAUSE,
};

use crate::PROCESSORS;

const ALIVE: u64 = 0x0A11_7E0A_117E;
const POISON: u64 = 0xDEAD;
const GRAVEYARD_OBJECTS: usize = 4096;
const SLOT_COUNT: usize = 4;

#[repr(align(64))]
struct Object {
    state: AtomicU64,
}

/// The poisoned objects, first in, first out.
static GRAVEYARD: Mutex<VecDeque<Box<Object>>> = Mutex::new(VecDeque::new());

/// Data that the threads of one run share.
struct Arena<F: Flavour> {
    domain: Arc<Domain<F>>,
    slots: [AtomicPtr<Object>; SLOT_COUNT],
    stop: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
}

fn create() -> *mut Object {
    Box::into_raw(Box::new(Object { state: AtomicU64::new(ALIVE) }))
}

unsafe fn bury(pointer: NonNull<u8>) {
    // SAFETY: made by `create`, and buried once.
    let object = unsafe { Box::from_raw(pointer.cast::<Object>().as_ptr()) };
    let before = object.state.swap(POISON, Ordering::Relaxed);
    assert_eq!(before, ALIVE, "freed twice");
    let mut graveyard = GRAVEYARD.lock().expect("no holder panics");
    graveyard.push_back(object);
    if graveyard.len() > GRAVEYARD_OBJECTS {
        graveyard.pop_front();
    }
}

impl<F: Flavour> Arena<F> {
    fn new(pause: Duration) -> Arena<F> {
        Arena {
            domain: Domain::with_barrier_pause(pause).expect("every flavour works here"),
            slots: std::array::from_fn(|_| AtomicPtr::new(create())),
            stop: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        }
    }

    fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Stops the threads of a run once it has lasted and been a test, or one of them has failed.
    fn end_behind(&self, duration: Duration, threads: &[ScopedJoinHandle<'_, ()>]) {
        let start = Instant::now();
        let is_over = || {
            let [reads, writes] =
                [&self.reads, &self.writes].map(|count| count.load(Ordering::Relaxed));
            start.elapsed() >= duration && is_enough(reads, writes)
        };
        while !is_over() && threads.iter().all(|thread| !thread.is_finished()) {
            thread::sleep(Duration::from_millis(10));
        }
        self.stop.store(true, Ordering::Relaxed);
    }

    fn check_objects(&self, _section: Section<'_>, spins: u64) {
        let objects = self.slots.each_ref().map(|slot| slot.load(Ordering::Acquire));
        for _ in 0..=spins {
            for object in objects {
                // SAFETY: claimed by the crate under test: the section keeps it.
                let object = unsafe { &*object };
                assert_eq!(
                    object.state.load(Ordering::Relaxed),
                    ALIVE,
                    "a reader met a freed object"
                );
            }
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    fn swap_one(&self, index: usize) -> NonNull<u8> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let old = self.slots[index % SLOT_COUNT].swap(create(), Ordering::AcqRel);
        NonNull::new(old.cast()).expect("slots are never empty")
    }

    /// One registration: some sections, nested now and then, and a blocking wait.
    fn read_for_a_while(&self, sections: u64) {
        let mut reader = self.domain.register();
        for round in 0..sections {
            self.read_once(&reader, round);
            if round % 3 == 0 {
                reader.quiescent();
            }
            if round % 64 == 0 {
                reader.offline(thread::yield_now);
            }
        }
    }

    /// Every fifth time with a section inside that outlives the outer one.
    fn read_once(&self, reader: &Reader<F>, round: u64) {
        let guard = reader.enter();
        self.check_objects(guard.section(), round % 7);
        if round.is_multiple_of(5) {
            let inner = reader.enter();
            drop(guard);
            self.check_objects(inner.section(), round % 3);
        }
    }

    fn write_blocking(&self) {
        for index in 0.. {
            if !self.is_running() {
                break;
            }
            let old = self.swap_one(index);
            self.domain.synchronize();
            // SAFETY: unlinked before the grace period.
            unsafe { bury(old) };
        }
    }

    /// A writer that only writes, and waits when enough has gathered.
    fn write_blocking_in_batches(&self, reclaimer: &Reclaimer) {
        let list = RetireList::new();
        list.set_reclaimer(reclaimer.handle());
        for index in 0.. {
            let describe = if index % 8 == 0 { Garbage::deep } else { Garbage::new };
            // SAFETY: `bury` frees an unlinked object; the list is of the domain that readers use.
            list.retire(unsafe { describe(self.swap_one(index), 64, bury) });
            let is_last = !self.is_running();
            if list.len() == 32 || is_last {
                list.synchronize(&self.domain);
            }
            if is_last {
                break;
            }
        }
    }

    /// A worker like the server's: reads, writes and reclaims on one thread, and holds back when
    /// over its limit.
    fn write_polled(&self, reclaimer: &Reclaimer) {
        let mut reader = self.domain.register();
        let list = RetireList::for_domain(&self.domain, Limits { bytes: 1 << 16, items: 256 });
        list.set_reclaimer(reclaimer.handle());
        for index in 0.. {
            if !self.is_running() {
                break;
            }
            if !list.is_over_limit() {
                let guard = reader.enter();
                self.check_objects(guard.section(), 1);
                let describe = if index % 8 == 0 { Garbage::deep } else { Garbage::new };
                // SAFETY: `bury` frees an unlinked object; the list is of the domain that readers
                // use.
                list.retire(unsafe { describe(self.swap_one(index), 64, bury) });
                self.check_objects(guard.section(), 1);
            }
            reader.quiescent();
            list.reclaim(&self.domain, Budget { items: 16, bytes: 1 << 10 });
        }
    }
}

fn duration() -> Duration {
    let seconds = std::env::var("TIDEMILL_TORTURE_SECONDS").ok().and_then(|text| text.parse().ok());
    seconds.map_or(Duration::from_millis(500), Duration::from_secs)
}

/// Without pauses between barriers, so that there are many grace periods.
fn torture<F: Flavour>() {
    torture_with_pause::<F>(Duration::ZERO);
}

fn torture_with_pause<F: Flavour>(pause: Duration) {
    let _shared = PROCESSORS.read().unwrap_or_else(PoisonError::into_inner);
    let arena = Arena::<F>::new(pause);
    let reclaimer = Reclaimer::spawn("torture-free").expect("one more thread");
    thread::scope(|scope| {
        let long_reader = scope.spawn(|| {
            while arena.is_running() {
                arena.read_for_a_while(10_000);
            }
        });
        let brief_readers = scope.spawn(|| {
            // Threads that live for a moment: registration and exit in the midst of scans.
            while arena.is_running() {
                thread::scope(|inner| {
                    join([inner.spawn(|| arena.read_for_a_while(20))].into_iter());
                });
            }
        });
        let writers = [
            scope.spawn(|| arena.write_blocking()),
            scope.spawn(|| arena.write_blocking_in_batches(&reclaimer)),
            scope.spawn(|| arena.write_polled(&reclaimer)),
            scope.spawn(|| arena.write_polled(&reclaimer)),
        ];
        let threads: Vec<_> = [long_reader, brief_readers].into_iter().chain(writers).collect();
        arena.end_behind(duration(), &threads);
        join(threads.into_iter());
    });
    drop(reclaimer);
    let (reads, writes) = (arena.reads.into_inner(), arena.writes.into_inner());
    println!("{}: {reads} reads, {writes} writes", arena.domain.description());
    assert!(is_enough(reads, writes), "nothing was tortured");
    for slot in arena.slots {
        // SAFETY: made by `create`; all threads are gone.
        drop(unsafe { Box::from_raw(slot.into_inner()) });
    }
}

/// Joins threads: ThreadSanitizer sees that, and not the end of a scope, which is in the library's
/// own compiled code.
fn join<'s>(threads: impl Iterator<Item = ScopedJoinHandle<'s, ()>>) {
    threads.for_each(|thread| thread.join().expect("no panic"));
}

/// True if a run has been a test.
fn is_enough(reads: u64, writes: u64) -> bool {
    reads > 100 && writes > 10
}

#[test]
fn readers_never_meet_a_freed_object_qsbr() {
    torture::<Qsbr>();
}

#[test]
fn readers_never_meet_a_freed_object_memb() {
    torture::<Memb>();
}

#[test]
fn readers_never_meet_a_freed_object_mb() {
    torture::<Mb>();
}

#[test]
fn readers_never_meet_a_freed_object_bp() {
    torture::<Bp>();
}

#[test]
fn readers_never_meet_a_freed_object_signal() {
    torture::<Signal>();
}

#[test]
fn readers_never_meet_a_freed_object_between_paced_barriers() {
    torture_with_pause::<Memb>(BARRIER_PAUSE);
    torture_with_pause::<Signal>(BARRIER_PAUSE);
}

/// `Bp` without a `Reader` anywhere: registration by the first section, removal by the thread's
/// end.
#[test]
fn implicit_readers_never_meet_a_freed_object() {
    let arena = Arena::<Bp>::new(BARRIER_PAUSE);
    let read = || {
        while arena.is_running() {
            thread::scope(|inner| {
                let reader = inner.spawn(|| {
                    for round in 0..200 {
                        let guard = arena.domain.enter();
                        arena.check_objects(guard.section(), round % 7);
                    }
                });
                join([reader].into_iter());
            });
        }
    };
    thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        let writer = scope.spawn(|| arena.write_blocking());
        let threads: Vec<_> = readers.into_iter().chain([writer]).collect();
        arena.end_behind(duration(), &threads);
        join(threads.into_iter());
    });
    for slot in arena.slots {
        // SAFETY: made by `create`; all threads are gone.
        drop(unsafe { Box::from_raw(slot.into_inner()) });
    }
}
