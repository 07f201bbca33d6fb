//! Retire lists: when memory is freed, how much at a time, and where it goes.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::limits::TAKEN_ITEMS_MAX;
use crate::{Budget, Domain, Garbage, Limits, Mb, Qsbr, Reclaimed, Reclaimer, RetireList};

/// Tells its counter, and the thread it happens on, when it is freed.
struct Probe {
    freed: Arc<AtomicUsize>,
    owner: thread::ThreadId,
    freed_elsewhere: Arc<AtomicUsize>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.freed.fetch_add(1, Ordering::SeqCst);
        if thread::current().id() != self.owner {
            self.freed_elsewhere.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[derive(Default)]
struct Probes {
    freed: Arc<AtomicUsize>,
    freed_elsewhere: Arc<AtomicUsize>,
}

impl Probes {
    fn garbage(&self, bytes: usize, deep: bool) -> Garbage {
        unsafe fn free(pointer: NonNull<u8>) {
            // SAFETY: made by `Box::leak` below, freed once.
            drop(unsafe { Box::from_raw(pointer.cast::<Probe>().as_ptr()) });
        }
        let probe = Box::new(Probe {
            freed: Arc::clone(&self.freed),
            owner: thread::current().id(),
            freed_elsewhere: Arc::clone(&self.freed_elsewhere),
        });
        let pointer = NonNull::from(Box::leak(probe)).cast();
        let describe = if deep { Garbage::deep } else { Garbage::new };
        // SAFETY: no reader can reach the probe, which may be dropped anywhere.
        unsafe { describe(pointer, bytes, free) }
    }

    fn freed(&self) -> usize {
        self.freed.load(Ordering::SeqCst)
    }
}

const NOTHING: Reclaimed = Reclaimed { items: 0, bytes: 0 };

#[test]
fn garbage_is_freed_after_its_grace_period_and_not_before() {
    let domain = Domain::<Qsbr>::new().unwrap();
    let mut reader = domain.register();
    let (list, probes) = (RetireList::new(), Probes::default());
    list.retire(probes.garbage(100, false));
    assert_eq!((list.len(), list.retired_bytes()), (1, 100));
    for _ in 0..10 {
        assert_eq!(list.reclaim(&domain, Budget::UNLIMITED), NOTHING);
    }
    reader.quiescent();
    list.retire(probes.garbage(7, false));
    let first = list.reclaim(&domain, Budget::UNLIMITED);
    assert_eq!(first, Reclaimed { items: 1, bytes: 100 });
    assert_eq!((probes.freed(), list.len(), list.retired_bytes()), (1, 1, 7));
    assert_eq!(list.reclaim(&domain, Budget::UNLIMITED), NOTHING, "retired after the announcement");
    reader.quiescent();
    assert_eq!(list.reclaim(&domain, Budget::UNLIMITED), Reclaimed { items: 1, bytes: 7 });
    assert!(list.is_empty());
}

#[test]
fn a_budget_bounds_each_call_and_lets_one_large_item_pass() {
    let domain = Domain::<Mb>::new().unwrap();
    let (list, probes) = (RetireList::new(), Probes::default());
    for _ in 0..10 {
        list.retire(probes.garbage(10, false));
    }
    list.retire(probes.garbage(1000, false));
    list.reclaim(&domain, Budget { items: 0, bytes: 0 });
    let budget = Budget { items: 4, bytes: 35 };
    let freed: Vec<usize> = (0..5).map(|_| list.reclaim(&domain, budget).items).collect();
    assert_eq!(freed, [3, 3, 3, 1, 1]);
    assert_eq!(probes.freed(), 11);
    list.retire(probes.garbage(1, false));
    list.reclaim(&domain, budget);
    assert_eq!(list.reclaim(&domain, Budget { items: 0, bytes: 9 }), NOTHING);
}

#[test]
fn a_budget_bounds_all_that_one_call_takes_out_in_several_steps() {
    let domain = Domain::<Mb>::new().unwrap();
    let (list, probes) = (RetireList::new(), Probes::default());
    let garbage = (0..4 * TAKEN_ITEMS_MAX).map(|_| probes.garbage(2, false));
    assert_eq!(list.retire_all(garbage), 8 * TAKEN_ITEMS_MAX);
    list.reclaim(&domain, Budget { items: 0, bytes: 0 });
    let (most, rest) = (TAKEN_ITEMS_MAX + 7, 2 * TAKEN_ITEMS_MAX - 14);
    for budget in [
        Budget { items: most, bytes: usize::MAX },
        Budget { items: usize::MAX, bytes: 2 * most + 1 },
    ] {
        let reclaimed = list.reclaim(&domain, budget);
        assert_eq!(reclaimed, Reclaimed { items: most, bytes: 2 * most });
    }
    assert_eq!((list.len(), list.retired_bytes(), probes.freed()), (rest, 2 * rest, 2 * most));
    let reclaimed = list.reclaim(&domain, Budget::UNLIMITED);
    assert_eq!(reclaimed, Reclaimed { items: rest, bytes: 2 * rest });
    assert!(list.is_empty() && list.retired_bytes() == 0);
}

#[test]
fn limits_ask_for_back_pressure_until_enough_is_freed() {
    let domain = Domain::<Mb>::new().unwrap();
    let list = RetireList::for_domain(&domain, Limits { bytes: 100, items: 3 });
    let probes = Probes::default();
    list.retire(probes.garbage(100, false));
    assert!(!list.is_over_limit());
    list.retire(probes.garbage(1, false));
    assert!(list.is_over_limit(), "bytes");
    list.set_limits(Limits { bytes: 1000, items: 1 });
    assert!(list.is_over_limit(), "items");
    list.reclaim(&domain, Budget::UNLIMITED);
    list.reclaim(&domain, Budget::UNLIMITED);
    assert!(!list.is_over_limit());
}

#[test]
fn deep_garbage_is_freed_by_the_reclaimer_thread() {
    let domain = Domain::<Mb>::new().unwrap();
    let (list, probes) = (RetireList::new(), Probes::default());
    let reclaimer = Reclaimer::spawn("reclaimer").unwrap();
    list.set_reclaimer(reclaimer.handle());
    list.retire(probes.garbage(1 << 20, true));
    list.retire(probes.garbage(10, false));
    list.reclaim(&domain, Budget::UNLIMITED);
    assert_eq!(list.reclaim(&domain, Budget::UNLIMITED).items, 2);
    drop(reclaimer);
    assert_eq!((probes.freed(), probes.freed_elsewhere.load(Ordering::SeqCst)), (2, 1));
    list.retire(probes.garbage(1 << 20, true));
    list.reclaim(&domain, Budget::UNLIMITED);
    list.reclaim(&domain, Budget::UNLIMITED);
    assert_eq!(probes.freed(), 3, "without the thread it is freed here");
}

#[test]
fn garbage_of_an_ended_thread_is_adopted_and_still_waits() {
    let domain = Domain::<Qsbr>::new().unwrap();
    let mut reader = domain.register();
    let probes = Arc::new(Probes::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            let list = RetireList::for_domain(&domain, Limits::default());
            list.retire(probes.garbage(10, false));
            list.retire(probes.garbage(20, true));
        });
    });
    assert_eq!(probes.freed(), 0);
    let list = RetireList::new();
    list.reclaim(&domain, Budget::UNLIMITED);
    assert_eq!((list.len(), list.retired_bytes()), (2, 30));
    assert_eq!(list.reclaim(&domain, Budget::UNLIMITED), NOTHING, "the reader has not announced");
    reader.quiescent();
    assert_eq!(list.reclaim(&domain, Budget::UNLIMITED).items, 2);
}

#[test]
fn the_last_owner_of_a_domain_frees_the_rest() {
    let probes = Probes::default();
    let domain = Domain::<Mb>::new().unwrap();
    let list = RetireList::for_domain(&domain, Limits::default());
    list.retire(probes.garbage(10, false));
    drop(domain);
    assert_eq!(probes.freed(), 0);
    drop(list);
    assert_eq!(probes.freed(), 1);
}

#[test]
fn blocking_frees_all_that_was_retired_and_adopted() {
    let domain = Domain::<Qsbr>::new().unwrap();
    let probes = Probes::default();
    RetireList::for_domain(&domain, Limits::default()).retire(probes.garbage(1, false));
    let list = RetireList::new();
    list.retire(probes.garbage(10, false));
    assert_eq!(list.reclaim(&domain, Budget { items: 0, bytes: 0 }), NOTHING);
    list.retire(probes.garbage(100, true));
    assert_eq!(list.synchronize(&domain), Reclaimed { items: 3, bytes: 111 });
    assert_eq!((probes.freed(), list.len(), list.retired_bytes()), (3, 0, 0));
    list.retire(probes.garbage(7, false));
    assert_eq!(
        list.reclaim(&domain, Budget::UNLIMITED),
        NOTHING,
        "nothing of it is taken for ready"
    );
    assert_eq!(list.reclaim(&domain, Budget::UNLIMITED), Reclaimed { items: 1, bytes: 7 });
}

#[test]
fn blocking_waits_for_a_reader_on_another_thread() {
    let domain = Domain::<Qsbr>::new().unwrap();
    let probes = Probes::default();
    let may_announce = AtomicUsize::new(0);
    let registered = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        let freed = Arc::clone(&probes.freed);
        let (domain, may_announce, registered) = (&domain, &may_announce, &registered);
        scope.spawn(move || {
            let mut reader = domain.register();
            registered.wait();
            // Long enough for the writer to fall asleep, as a rule: then it is woken.
            while may_announce.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            thread::sleep(std::time::Duration::from_millis(5));
            assert_eq!(freed.load(Ordering::SeqCst), 0);
            reader.quiescent();
        });
        registered.wait();
        let list = RetireList::new();
        list.retire(probes.garbage(10, false));
        may_announce.store(1, Ordering::SeqCst);
        assert_eq!(list.synchronize(domain).items, 1);
    });
}

/// Garbage that a destructor retires while its list is being emptied waits for a period of its own,
/// and garbage that a panic leaves over stays in the list.
#[test]
fn blocking_keeps_garbage_of_destructors_and_of_a_panic() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("freeing failed"));
        }
    }
    let domain = Domain::<Mb>::new().unwrap();
    let (list, probes) = (RetireList::new(), Probes::default());
    list.retire(probes.garbage(10, false));
    // SAFETY: no reader can reach it.
    list.retire(unsafe { Garbage::from_box(Box::new(Bomb)) });
    list.retire(probes.garbage(20, false));
    let emptying = std::panic::AssertUnwindSafe(|| list.synchronize(&domain));
    assert!(std::panic::catch_unwind(emptying).is_err());
    assert_eq!((probes.freed(), list.len(), list.retired_bytes()), (1, 1, 10));
    assert_eq!(list.synchronize(&domain), Reclaimed { items: 1, bytes: 10 });
}

#[test]
#[should_panic(expected = "belongs to another domain")]
fn a_list_refuses_a_second_domain() {
    let list = RetireList::new();
    list.reclaim(&*Domain::<Mb>::new().unwrap(), Budget::UNLIMITED);
    list.reclaim(&*Domain::<Mb>::new().unwrap(), Budget::UNLIMITED);
}

#[test]
fn freeing_may_retire() {
    struct Chain(Arc<RetireList>, u32);
    // SAFETY: the test runs on one thread.
    unsafe impl Send for Chain {}
    impl Drop for Chain {
        fn drop(&mut self) {
            if self.1 > 0 {
                let next = Box::new(Chain(Arc::clone(&self.0), self.1 - 1));
                // SAFETY: no reader can reach it.
                self.0.retire(unsafe { Garbage::from_box(next) });
            }
        }
    }
    let domain = Domain::<Mb>::new().unwrap();
    #[allow(clippy::arc_with_non_send_sync)]
    let list = Arc::new(RetireList::new());
    // SAFETY: no reader can reach it.
    list.retire(unsafe { Garbage::from_box(Box::new(Chain(Arc::clone(&list), 3))) });
    let freed: usize = (0..10).map(|_| list.reclaim(&domain, Budget::UNLIMITED).items).sum();
    assert_eq!(freed, 4);
    // SAFETY: as above.
    list.retire(unsafe { Garbage::from_box(Box::new(Chain(Arc::clone(&list), 1))) });
    assert_eq!((list.synchronize(&domain).items, list.len()), (1, 1));
    assert_eq!((list.synchronize(&domain).items, list.len()), (1, 0));
}

#[test]
fn free_all_frees_without_waiting() {
    let (list, probes) = (RetireList::new(), Probes::default());
    list.retire(probes.garbage(10, false));
    list.retire(probes.garbage(5, true));
    // SAFETY: there are no readers.
    assert_eq!(unsafe { list.free_all() }, Reclaimed { items: 2, bytes: 15 });
    assert_eq!((probes.freed(), list.retired_bytes()), (2, 0));
}
