//! Our side of the comparison: the same work as `liburcu.c`.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tidemill_rcu::{
    Bp, Domain, Flavour, Garbage, Guard, Limits, Mb, Memb, Qsbr, Reader, RetireList, Signal,
};

use crate::{Counts, Work};

const READS_PER_ANNOUNCEMENT: u64 = 1024;
const CONTENTS: u64 = 8;

/// As long as a cache line with the allocator's header: neighbours share none. Only the contents
/// are ever touched.
#[repr(C)]
struct Object {
    contents: u64,
    _rest: MaybeUninit<[u64; 6]>,
}

impl Object {
    fn new(contents: u64) -> Object {
        Object { contents, _rest: MaybeUninit::uninit() }
    }
}

#[repr(align(128))]
struct OwnLine<T>(T);

struct Shared<F: Flavour> {
    domain: Arc<Domain<F>>,
    published: OwnLine<AtomicPtr<Object>>,
    running: OwnLine<AtomicBool>,
    start: Barrier,
}

/// Way in which a flavour's users open a section: by their reader, or (`Bp`) without one.
trait Sections: Flavour {
    type Registration;
    fn register(domain: &Arc<Domain<Self>>) -> Self::Registration;
    fn open<'s>(
        domain: &'s Arc<Domain<Self>>,
        registration: &'s Self::Registration,
    ) -> Guard<'s, Self>;
    fn quiescent(_registration: &mut Self::Registration) {}
}

macro_rules! explicit_sections {
    ($($flavour:ty),*) => {$(
        impl Sections for $flavour {
            type Registration = Reader<Self>;

            fn register(domain: &Arc<Domain<Self>>) -> Reader<Self> {
                domain.register()
            }

            #[inline(always)]
            fn open<'s>(
                _domain: &'s Arc<Domain<Self>>,
                reader: &'s Reader<Self>,
            ) -> Guard<'s, Self> {
                reader.enter()
            }

            #[inline(always)]
            fn quiescent(reader: &mut Reader<Self>) {
                reader.quiescent();
            }
        }
    )*};
}

explicit_sections!(Qsbr, Memb, Mb, Signal);

impl Sections for Bp {
    type Registration = ();

    fn register(_domain: &Arc<Domain<Self>>) {}

    #[inline(always)]
    fn open<'s>(domain: &'s Arc<Domain<Self>>, (): &'s ()) -> Guard<'s, Self> {
        domain.enter()
    }
}

/// Opens as many sections as lie between two announcements; returns how many saw a destroyed
/// object.
///
/// A function of its own: by its shared references the compiler knows what no other thread changes,
/// as it knows the addresses of liburcu's global variables.
#[inline(never)]
fn read_some<F: Sections>(
    domain: &Arc<Domain<F>>,
    registration: &F::Registration,
    published: &AtomicPtr<Object>,
) -> u64 {
    let mut wrong = 0;
    for _ in 0..READS_PER_ANNOUNCEMENT {
        let _guard = F::open(domain, registration);
        let object = published.load(Ordering::Acquire);
        // SAFETY: the section is open, and objects are destroyed after a grace period.
        wrong += u64::from(unsafe { (*object).contents } != CONTENTS);
    }
    wrong
}

fn create() -> *mut Object {
    Box::into_raw(Box::new(Object::new(CONTENTS)))
}

unsafe fn destroy(pointer: NonNull<u8>) {
    let object = pointer.cast::<Object>();
    // SAFETY: made by `create`, and the contents come first; a reader that still looked would find
    // them wrong.
    unsafe { object.cast::<u64>().as_ptr().write_volatile(0) };
    // SAFETY: as above, and destroyed once.
    drop(unsafe { Box::from_raw(object.as_ptr()) });
}

impl<F: Sections> Shared<F> {
    fn read_on(&self) -> u64 {
        self.start.wait();
        let mut registration = F::register(&self.domain);
        let (mut reads, mut wrong) = (0, 0);
        while self.running.0.load(Ordering::Relaxed) {
            wrong += read_some(&self.domain, &registration, &self.published.0);
            F::quiescent(&mut registration);
            reads += READS_PER_ANNOUNCEMENT;
        }
        assert_eq!(wrong, 0, "a reader saw a destroyed object");
        reads
    }

    fn replace(&self) -> NonNull<u8> {
        let old = self.published.0.swap(create(), Ordering::AcqRel);
        NonNull::new(old.cast()).expect("an object is always published")
    }

    /// Waits for a grace period after each write.
    fn write_one_by_one(&self) -> u64 {
        self.start.wait();
        let mut writes = 0;
        while self.running.0.load(Ordering::Relaxed) {
            let old = self.replace();
            writes += 1;
            self.domain.synchronize();
            // SAFETY: unlinked before the grace period.
            unsafe { destroy(old) };
        }
        writes
    }

    /// Retires, and waits for a grace period whenever `batch` objects have gathered.
    fn write_in_batches(&self, batch: usize) -> u64 {
        let list = RetireList::for_domain(&self.domain, Limits::default());
        self.start.wait();
        let (mut writes, mut count) = (0, 0);
        while self.running.0.load(Ordering::Relaxed) {
            // SAFETY: unlinked by `replace`; the list belongs to the readers' domain.
            list.retire(unsafe { Garbage::new(self.replace(), size_of::<Object>(), destroy) });
            writes += 1;
            count += 1;
            if count == batch {
                list.synchronize(&self.domain);
                count = 0;
            }
        }
        list.synchronize(&self.domain);
        writes
    }

    fn write_on(&self, batch: usize) -> u64 {
        if batch == 1 { self.write_one_by_one() } else { self.write_in_batches(batch) }
    }
}

fn run<F: Sections>(work: &Work) -> Counts {
    let shared = Shared::<F> {
        domain: Domain::new().expect("nobody else uses the signal here"),
        published: OwnLine(AtomicPtr::new(create())),
        running: OwnLine(AtomicBool::new(true)),
        start: Barrier::new(work.readers + work.writers + 1),
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..work.readers).map(|_| scope.spawn(|| shared.read_on())).collect();
        let writers: Vec<_> =
            (0..work.writers).map(|_| scope.spawn(|| shared.write_on(work.batch))).collect();
        shared.start.wait();
        let began = Instant::now();
        thread::sleep(Duration::from_millis(work.milliseconds));
        shared.running.0.store(false, Ordering::Relaxed);
        let elapsed = began.elapsed();
        let sum = |threads: Vec<thread::ScopedJoinHandle<'_, u64>>| {
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
        };
        Counts { reads: sum(readers), writes: sum(writers), elapsed }
    })
}

/// Runs the work in this process.
pub fn run_flavour(flavour: &str, work: &Work) -> Counts {
    match flavour {
        "qsbr" => run::<Qsbr>(work),
        "memb" => run::<Memb>(work),
        "mb" => run::<Mb>(work),
        "bp" => run::<Bp>(work),
        "signal" => run::<Signal>(work),
        other => panic!("no such flavour: {other}"),
    }
}

/// Ordering of readers against writers here, flavour by flavour.
pub fn descriptions() -> Vec<String> {
    fn describe<F: Flavour>() -> String {
        Domain::<F>::new().map_or_else(|error| error.to_string(), |domain| domain.description())
    }
    vec![
        describe::<Qsbr>(),
        describe::<Memb>(),
        describe::<Mb>(),
        describe::<Bp>(),
        describe::<Signal>(),
    ]
}
