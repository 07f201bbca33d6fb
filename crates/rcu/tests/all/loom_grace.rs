//! Models of the grace period: every interleaving and every outcome of weak memory, within loom's
//! bounds.
//!
//! `make test-loom` runs them. The object under test is a loom cell: reading it in a section and
//! writing it ("freeing") after the grace period race unless the algorithm orders them, and loom
//! reports every race. `sys_membarrier` and signals cannot be modelled; under loom `Memb` takes its
//! fallback, the fences of `Mb`.
#![allow(unsafe_code)]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use tidemill_rcu::{
    Budget, Domain, Flavour, Garbage, Mb, Memb, Published, Qsbr, Reader, RetireList,
};

/// Two objects and the index of the one that readers may take. Both live on, so that loom sees a
/// race, not a crash.
struct Objects {
    current: AtomicUsize,
    contents: [UnsafeCell<u32>; 2],
}

impl Objects {
    fn new() -> Arc<Objects> {
        let contents = [UnsafeCell::new(1), UnsafeCell::new(1)];
        Arc::new(Objects { current: AtomicUsize::new(0), contents })
    }

    fn read<F: Flavour>(&self, reader: &Reader<F>) {
        let _guard = reader.enter();
        let index = self.current.load(Ordering::Acquire);
        // SAFETY: claimed by the algorithm under test; loom checks it.
        self.contents[index].with(|value| assert_eq!(unsafe { *value }, 1, "read after free"));
    }

    fn unlink_first(&self) {
        self.current.store(1, Ordering::Release);
    }

    fn free_first(&self) {
        // SAFETY: as above.
        self.contents[0].with_mut(|value| unsafe { *value = 0 });
    }
}

fn check(preemption_bound: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemption_bound);
    builder.check(model);
}

/// A reader with a part of its own, in a thread.
fn spawn_reader<F: Flavour>(
    domain: &Arc<Domain<F>>,
    objects: &Arc<Objects>,
    part: impl FnOnce(Reader<F>, &Objects) + Send + 'static,
) -> thread::JoinHandle<()> {
    let (domain, objects) = (Arc::clone(domain), Arc::clone(objects));
    thread::spawn(move || part(domain.register(), &objects))
}

/// One reader that registers, reads and announces; one writer that unlinks, waits and frees.
fn synchronize_waits_for_a_reader<F: Flavour>() {
    let domain = Domain::<F>::new().expect("modelled flavours need nothing");
    let objects = Objects::new();
    let reader = spawn_reader(&domain, &objects, |mut reader, objects| {
        objects.read(&reader);
        reader.quiescent();
        objects.read(&reader);
    });
    objects.unlink_first();
    domain.synchronize();
    objects.free_first();
    reader.join().unwrap();
}

#[test]
fn synchronize_waits_for_a_reader_mb() {
    check(3, synchronize_waits_for_a_reader::<Mb>);
}

#[test]
fn synchronize_waits_for_a_reader_memb_without_membarrier() {
    check(2, synchronize_waits_for_a_reader::<Memb>);
}

#[test]
fn synchronize_waits_for_a_reader_qsbr() {
    check(3, synchronize_waits_for_a_reader::<Qsbr>);
}

#[test]
fn a_reader_that_comes_online_sees_the_unlinking_or_is_seen() {
    check(3, || {
        let domain = Domain::<Qsbr>::new().unwrap();
        let objects = Objects::new();
        let reader = spawn_reader(&domain, &objects, |mut reader, objects| {
            reader.offline(|| ());
            objects.read(&reader);
        });
        objects.unlink_first();
        domain.synchronize();
        objects.free_first();
        reader.join().unwrap();
    });
}

/// Two sections in a row: a scan that sees the second one's word frees what the first one read.
#[test]
fn a_word_of_the_next_section_ends_the_one_before() {
    check(3, || {
        let domain = Domain::<Mb>::new().unwrap();
        let objects = Objects::new();
        let reader = spawn_reader(&domain, &objects, |reader, objects| {
            objects.read(&reader);
            let outer = reader.enter();
            objects.read(&reader);
            drop(outer);
        });
        objects.unlink_first();
        let period = domain.start_grace_period();
        if domain.is_elapsed(&period) || domain.is_elapsed(&period) {
            objects.free_first();
        }
        reader.join().unwrap();
    });
}

/// Two threads poll one period: also the one that did not finish the scan may free.
fn polling_from_two_threads<F: Flavour>() {
    let domain = Domain::<F>::new().expect("modelled flavours need nothing");
    let objects = Objects::new();
    let mut reader = domain.register();
    let guard = reader.enter();
    objects.unlink_first();
    let period = domain.start_grace_period();
    let poller = {
        let domain = Arc::clone(&domain);
        thread::spawn(move || domain.is_elapsed(&period))
    };
    let freer = {
        let (domain, objects) = (Arc::clone(&domain), Arc::clone(&objects));
        thread::spawn(move || {
            if domain.is_elapsed(&period) {
                objects.free_first();
            }
        })
    };
    // SAFETY: claimed by the algorithm under test: the section was open before the unlinking.
    objects.contents[0].with(|value| assert_eq!(unsafe { *value }, 1, "read after free"));
    drop(guard);
    reader.quiescent();
    drop(reader);
    poller.join().unwrap();
    freer.join().unwrap();
    assert!(domain.is_elapsed(&period), "no reader is left");
}

#[test]
fn polling_from_two_threads_mb() {
    check(2, polling_from_two_threads::<Mb>);
}

#[test]
fn polling_from_two_threads_qsbr() {
    check(2, polling_from_two_threads::<Qsbr>);
}

/// Two writers with a list each, one leaves its garbage behind and the other adopts it.
#[test]
fn garbage_left_behind_is_freed_once() {
    check(2, || {
        let domain = Domain::<Qsbr>::new().unwrap();
        let freed = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let leaver = {
            let (domain, freed) = (Arc::clone(&domain), Arc::clone(&freed));
            thread::spawn(move || {
                let list = RetireList::new();
                list.retire(counted(&freed));
                list.reclaim(&domain, Budget::UNLIMITED);
            })
        };
        let list = RetireList::new();
        list.retire(counted(&freed));
        list.reclaim(&domain, Budget::UNLIMITED);
        leaver.join().unwrap();
        while !list.is_empty() || freed.load(std::sync::atomic::Ordering::Relaxed) < 2 {
            list.reclaim(&domain, Budget::UNLIMITED);
        }
        drop(list);
        drop(domain);
        assert_eq!(freed.load(std::sync::atomic::Ordering::Relaxed), 2);
    });
}

/// Blocking on a list: what it frees is out of every reader's reach.
fn a_list_that_blocks_waits_for_a_reader<F: Flavour>() {
    struct First(Arc<Objects>);
    // SAFETY: loom runs its threads one at a time, on one.
    unsafe impl Send for First {}
    impl Drop for First {
        fn drop(&mut self) {
            self.0.free_first();
        }
    }

    let domain = Domain::<F>::new().expect("modelled flavours need nothing");
    let objects = Objects::new();
    let reader = spawn_reader(&domain, &objects, |mut reader, objects| {
        objects.read(&reader);
        reader.quiescent();
    });
    let list = RetireList::new();
    objects.unlink_first();
    // SAFETY: nothing else points at the box; what its destructor frees was unlinked.
    list.retire(unsafe { Garbage::from_box(Box::new(First(Arc::clone(&objects)))) });
    assert_eq!(list.synchronize(&domain).items, 1);
    reader.join().unwrap();
}

#[test]
fn a_list_that_blocks_waits_for_a_reader_mb() {
    check(2, a_list_that_blocks_waits_for_a_reader::<Mb>);
}

#[test]
fn a_list_that_blocks_waits_for_a_reader_qsbr() {
    check(2, a_list_that_blocks_waits_for_a_reader::<Qsbr>);
}

struct Counted(Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

fn counted(freed: &Arc<std::sync::atomic::AtomicUsize>) -> Garbage {
    // SAFETY: nothing else points at the box.
    unsafe { Garbage::from_box(Box::new(Counted(Arc::clone(freed)))) }
}

#[test]
fn a_published_value_is_seen_whole() {
    check(3, || {
        let domain = Domain::<Mb>::new().unwrap();
        let value = Arc::new(Published::new([1, 1]));
        let reader = {
            let (domain, value) = (Arc::clone(&domain), Arc::clone(&value));
            thread::spawn(move || {
                let reader = domain.register();
                let guard = reader.enter();
                let seen = value.load(guard.section());
                assert_eq!(seen[0], seen[1]);
            })
        };
        let list = RetireList::new();
        // SAFETY: readers and the list use the same domain.
        unsafe { value.replace([2, 2], &list) };
        list.reclaim(&domain, Budget::UNLIMITED);
        list.reclaim(&domain, Budget::UNLIMITED);
        reader.join().unwrap();
    });
}
