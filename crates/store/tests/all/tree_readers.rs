//! Readers beside a writer: every version that a reader finds is whole.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::tree_common::Random;
use tidemill_rcu::{Budget, Domain, Flavour, Limits, Memb, Qsbr};
use tidemill_store::hash::Seed;
use tidemill_store::value::hash::{Hash, HashEdit};
use tidemill_store::value::list::{List, ListEdit};
use tidemill_store::{Built, Heap, Keyspace, ReleaseObserver, Root, Section, SlotNumber};

const READER_COUNT: usize = 3;
const RUN_TIME: Duration = Duration::from_millis(1500);
/// Checks of versions behind which a run may end.
const CHECKS_MIN: u64 = 100;

struct NoObserver;
impl ReleaseObserver for NoObserver {
    fn released(&self, _slot: SlotNumber, _clear: &dyn Fn()) {}
}

/// The current version, where readers find it.
struct CurrentRoot(AtomicPtr<u8>);

impl CurrentRoot {
    fn load(&self) -> Option<Root> {
        // Acquire pairs with the release in `publish`: the nodes below are finished.
        let pointer = NonNull::new(self.0.load(Ordering::Acquire));
        // SAFETY: only roots are stored.
        pointer.map(|pointer| unsafe { Root::from_raw(pointer) })
    }

    fn publish(&self, built: Built<'_>) {
        let pointer = built.root().map_or(std::ptr::null_mut(), |root| root.into_raw().as_ptr());
        // Release pairs with the acquire in `load`.
        self.0.store(pointer, Ordering::Release);
        // SAFETY: the new root takes the place of the old one.
        unsafe { built.retire_replaced() };
    }
}

/// Runs a writer and readers until the time is over; the readers return how many versions they
/// checked.
fn run<F: Flavour>(
    mut write: impl FnMut(Option<Root>, &CurrentRoot, &Heap),
    read: impl Fn(Root, Section<'_>) + Sync,
) {
    let domain = Domain::<F>::new().expect("the flavour is available");
    // For its members only: the trees stand outside of it.
    let keyspace = Keyspace::<()>::new(1, Seed::new(1, 2), NoObserver);
    // SAFETY: the trees of one run are read by its own members only.
    let join = || unsafe { keyspace.join_beside(&domain) }.expect("few threads");
    let published = CurrentRoot(AtomicPtr::new(std::ptr::null_mut()));
    let (stop, checked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers = [(); READER_COUNT].map(|()| {
            scope.spawn(|| {
                let mut reader = join();
                while !stop.load(Ordering::Relaxed) {
                    {
                        let guard = reader.enter();
                        if let Some(root) = published.load() {
                            read(root, guard.section());
                            checked.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    reader.quiescent();
                }
            })
        });
        let heap = join().heap(Limits::default());
        let end = Instant::now() + RUN_TIME;
        // A reader that has failed checks nothing more.
        let is_enough = || checked.load(Ordering::Relaxed) > CHECKS_MIN;
        while (Instant::now() < end || !is_enough())
            && readers.iter().all(|thread| !thread.is_finished())
        {
            write(published.load(), &published, &heap);
            heap.retired().reclaim(&domain, Budget::UNLIMITED);
        }
        stop.store(true, Ordering::Relaxed);
        domain.synchronize();
        if let Some(root) = published.load() {
            // SAFETY: the readers stop before they could look again at what is freed: it waits for
            // their periods.
            unsafe { root.retire(&heap) };
        }
        assert_eq!(heap.live_bytes(), 0);
        while !heap.retired().is_empty() {
            heap.retired().reclaim(&domain, Budget::UNLIMITED);
        }
        // One by one: ThreadSanitizer does not see the end of a scope.
        readers.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    assert!(checked.load(Ordering::Relaxed) > CHECKS_MIN);
}

/// An element that proves itself: a number, and a run whose length and bytes follow from it.
fn element(number: u64) -> Vec<u8> {
    let mut element = number.to_le_bytes().to_vec();
    element.resize(8 + (number % 50) as usize, number as u8);
    element
}

fn number_of(element: &[u8]) -> u64 {
    let number = u64::from_le_bytes(*element.first_chunk().expect("a number comes first"));
    assert_eq!(element.len(), 8 + (number % 50) as usize);
    assert!(element[8..].iter().all(|&byte| byte == number as u8));
    number
}

fn lists_stay_whole<F: Flavour>() {
    // A queue of consecutive numbers: every version is a run without gaps.
    let (mut first, mut next) = (0_u64, 0_u64);
    let mut random = Random::new(1);
    run::<F>(
        |root, published, heap| {
            // SAFETY: this thread is the only editor.
            let mut edit = unsafe { ListEdit::new(root, heap) };
            for _ in 0..1 + random.below(5) {
                if random.below(100) < 50 || next - first < 100 {
                    edit.push_back(&element(next));
                    next += 1;
                }
                if next - first > 4000 || (random.below(100) < 45 && first < next) {
                    assert!(edit.pop_front());
                    first += 1;
                }
            }
            published.publish(edit.finish());
            // SAFETY: this thread is the only editor.
            let mut undone = unsafe { ListEdit::new(published.load(), heap) };
            undone.push_front(b"never published");
            undone.pop_back();
        },
        |root, section| {
            // SAFETY: the root was loaded inside the section.
            let list = unsafe { List::from_root(root, section) };
            let mut numbers = list.iter().map(number_of);
            let start = numbers.next().expect("a list is not empty");
            let count = numbers.enumerate().fold(1, |count, (index, number)| {
                assert_eq!(number, start + 1 + index as u64);
                count + 1
            });
            assert_eq!(count, list.len());
        },
    );
}

fn hashes_stay_whole<F: Flavour>() {
    // Transfers between fields: the sum of all values is the same in every version.
    const FIELD_COUNT: usize = 600;
    const SUM: u64 = 1000 * FIELD_COUNT as u64;
    let seed = Seed::new(1, 2);
    let mut random = Random::new(2);
    let field_name = |number: usize| format!("field-{number}").into_bytes();
    let amount = |value: &[u8]| u64::from_le_bytes(*value.first_chunk().expect("eight bytes"));
    run::<F>(
        |root, published, heap| {
            // SAFETY: this thread is the only editor.
            let mut edit = unsafe { HashEdit::new(root, &seed, heap) };
            if edit.is_empty() {
                (0..FIELD_COUNT).for_each(|number| {
                    edit.set(&field_name(number), &1000_u64.to_le_bytes(), None);
                });
            }
            for _ in 0..1 + random.below(4) {
                let from = field_name(random.below(FIELD_COUNT));
                let to = field_name(random.below(FIELD_COUNT));
                let moved = edit.get(&from).map_or(0, |field| amount(field.value));
                edit.remove(&from);
                let held = edit.get(&to).map_or(0, |field| amount(field.value));
                let mut value = (held + moved).to_le_bytes().to_vec();
                value.resize(8 + random.below(60), 0);
                edit.set(&to, &value, (random.below(3) == 0).then_some(5));
            }
            published.publish(edit.finish());
        },
        |root, section| {
            // SAFETY: the root was loaded inside the section.
            let hash = unsafe { Hash::from_root(root, &seed, section) };
            let sum: u64 = hash.iter().map(|entry| amount(entry.value)).sum();
            assert_eq!(sum, SUM);
            let found = |number| hash.get(&field_name(number)).map_or(0, |f| amount(f.value));
            assert_eq!((0..FIELD_COUNT).map(found).sum::<u64>(), SUM);
        },
    );
}

#[test]
fn lists_stay_whole_beside_a_writer_under_qsbr() {
    lists_stay_whole::<Qsbr>();
}

#[test]
fn lists_stay_whole_beside_a_writer_under_memb() {
    lists_stay_whole::<Memb>();
}

#[test]
fn hashes_stay_whole_beside_a_writer_under_qsbr() {
    hashes_stay_whole::<Qsbr>();
}

#[test]
fn hashes_stay_whole_beside_a_writer_under_memb() {
    hashes_stay_whole::<Memb>();
}
