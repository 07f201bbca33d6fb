//! A retire list that finds no memory to note more garbage: writers are told before it ends the
//! process. A process of its own, for its allocator refuses large requests.
#![allow(unsafe_code)]
#![cfg(not(any(loom, miri)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidemill_rcu::{Budget, Domain, Garbage, Qsbr, RetireList};

/// Requests of more bytes find no memory.
static BYTES_MAX: AtomicUsize = AtomicUsize::new(usize::MAX);

struct Limited;

// SAFETY: memory comes from the system's allocator; none may be given for any request.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > BYTES_MAX.load(Ordering::Relaxed) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise about the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: all memory came from the system, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Memory for the notes of some thousand pieces of garbage.
const LIST_BYTES_MAX: usize = 100_000;
const ITEMS_MAX: usize = LIST_BYTES_MAX / size_of::<Garbage>();

#[test]
fn a_list_without_memory_holds_writers_back_until_some_is_freed() {
    let domain = Domain::<Qsbr>::new().unwrap();
    let mut blocking = domain.register();
    let mut writer = domain.register();
    let list = RetireList::new();
    BYTES_MAX.store(LIST_BYTES_MAX, Ordering::Relaxed);
    for round in 0..3 {
        // Past what there is memory for, were it not for the answer.
        let mut count = 0;
        while !list.is_over_limit() && count < 10 * ITEMS_MAX {
            // SAFETY: nobody can reach the box, and the list is of the only domain.
            list.retire(unsafe { Garbage::from_box(Box::new(count)) });
            count += 1;
        }
        assert!(count > 1000 && count <= ITEMS_MAX, "{count} pieces in round {round}");
        // A command that was let through before has room for what it retires.
        for number in 0..100 {
            // SAFETY: as above.
            list.retire(unsafe { Garbage::from_box(Box::new(number)) });
        }
        // Not before the other reader has passed.
        writer.quiescent();
        list.reclaim(&domain, Budget::UNLIMITED);
        assert!(list.is_over_limit() && list.len() == count + 100);
        blocking.quiescent();
        for _ in 0..10 {
            writer.quiescent();
            blocking.quiescent();
            list.reclaim(&domain, Budget::UNLIMITED);
        }
        assert!(!list.is_over_limit() && list.is_empty());
    }
    BYTES_MAX.store(usize::MAX, Ordering::Relaxed);
}
