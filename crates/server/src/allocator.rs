//! Statistics, purging and options of jemalloc, the binary's allocator.
//!
//! Unsafe code: an allocator is, purging has no safe interface, as it neither reads nor writes a
//! value, jemalloc looks for its options under a fixed name, and hooks are C functions.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_uint, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use tidemill_engine::shared::{AllocatorMemory, Block};
use tikv_jemalloc_ctl::{epoch, raw, stats, stats_print};
use tikv_jemalloc_sys::extent_hooks_t;
use tikv_jemallocator::Jemalloc;

use crate::limits::{RESERVE_BLOCK_BYTES, RESERVE_BLOCKS, RESERVE_REQUEST_BYTES_MAX, THREAD_BYTES};

/// The binary's allocator: jemalloc, and a note of what could not be had. The standard library
/// tells that to the standard error only, and its hook is unstable.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

thread_local! {
    /// Bytes of this thread's last allocation that failed; 0 if none did. Needs no initialization,
    /// so that a signal handler may read it.
    static FAILED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Bytes of the calling thread's last allocation that failed.
pub(crate) fn failed_bytes() -> Option<usize> {
    Some(FAILED_BYTES.get()).filter(|&bytes| bytes > 0)
}

/// Memory that is kept back, counted in [`RESERVED_BYTES`].
struct Reserve {
    _blocks: [Vec<u8>; RESERVE_BLOCKS],
}

/// Bytes of all reserves.
static RESERVED_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Reserve of this thread; see [`keep_reserve`].
    static RESERVE: Cell<Option<Reserve>> = const { Cell::new(None) };
    /// True if this thread has a reserve and allocates nothing on trial. It has no destructor, so
    /// that it can be read in every allocation.
    static MAY_USE_RESERVE: Cell<bool> = const { Cell::new(false) };
}

impl Reserve {
    fn new() -> Option<Reserve> {
        let mut blocks = [const { Vec::new() }; RESERVE_BLOCKS];
        for block in &mut blocks {
            block.try_reserve_exact(RESERVE_BLOCK_BYTES).ok()?;
        }
        RESERVED_BYTES.fetch_add(RESERVE_BLOCKS * RESERVE_BLOCK_BYTES, Ordering::Relaxed);
        Some(Reserve { _blocks: blocks })
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        RESERVED_BYTES.fetch_sub(RESERVE_BLOCKS * RESERVE_BLOCK_BYTES, Ordering::Relaxed);
    }
}

/// Keeps memory back for allocations of the calling thread that cannot fail, in the arena that they
/// come from: what is too small to be asked for before a change begins. An allocation that fails
/// gives it up and is tried once more. False if there is none.
pub(crate) fn keep_reserve() -> bool {
    if MAY_USE_RESERVE.get() {
        return true;
    }
    let reserve = Reserve::new().or_else(|| {
        flush_thread_cache();
        purge();
        Reserve::new()
    });
    MAY_USE_RESERVE.set(reserve.is_some());
    RESERVE.set(reserve);
    MAY_USE_RESERVE.get()
}

/// Repeats an allocation that failed, with the memory that the thread has kept back.
///
/// Freed memory is purged first: until then jemalloc leaves small freed pieces apart, and cuts a
/// free block only for what has a 64th of its size.
#[cold]
fn allocated_again(bytes: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    if bytes <= RESERVE_REQUEST_BYTES_MAX && MAY_USE_RESERVE.replace(false) {
        purge();
        let pointer = allocate();
        if !pointer.is_null() {
            MAY_USE_RESERVE.set(true);
            return pointer;
        }
        // None where the thread is ending, and its reserve is gone.
        drop(RESERVE.try_with(Cell::take));
        purge();
        let pointer = allocate();
        if !pointer.is_null() {
            return pointer;
        }
    }
    FAILED_BYTES.set(bytes);
    std::ptr::null_mut()
}

#[inline]
fn allocated(bytes: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let pointer = allocate();
    if pointer.is_null() { allocated_again(bytes, allocate) } else { pointer }
}

// SAFETY: jemalloc is an allocator, and everything goes to it and comes from it unchanged.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that jemalloc asks for; here and below.
        allocated(layout.size(), || unsafe { Jemalloc.alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        allocated(layout.size(), || unsafe { Jemalloc.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above; one that failed has left the block as it was.
        allocated(bytes, || unsafe { Jemalloc.realloc(pointer, layout, bytes) })
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { Jemalloc.dealloc(pointer, layout) };
    }
}

/// Larger caches of free memory per thread: writes allocate entries one by one, but what they
/// replaced is freed in bursts, after the grace periods, and a burst should find room in the cache.
///
/// Memory of up to 64 MiB a piece is reused like any other: jemalloc gives back at once what is
/// larger than a limit, which is 8 MiB otherwise, so that each `SET` or `BITOP` of a longer string
/// had all its pages cleared by the kernel, which took four times as long as the command. Pieces
/// beyond it are too few to be worth keeping. See also [`reuse_large_blocks`].
///
/// One thread at most returns memory to the system, see [`purge_in_background`]: it would start
/// another one for each CPU.
// SAFETY: no other item has this name, under which jemalloc expects a pointer to a text that ends
// in a zero; a reference to an array is one.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static JEMALLOC_OPTIONS: &[u8; 105] =
    b"lg_tcache_nslots_mul:4,tcache_nslots_small_max:1024,oversize_threshold:67108864,\
      max_background_threads:1\0";

/// Control that purges all arenas: 4096 means all of them together.
const ALL_ARENAS_PURGE: &std::ffi::CStr = c"arena.4096.purge";
const ALL_ARENAS_MUZZY_PAGES: &[u8] = b"stats.arenas.4096.pmuzzy\0";
const PAGE_BYTES: &[u8] = b"arenas.page\0";

fn size(name: &'static [u8]) -> Option<usize> {
    // SAFETY: the names passed here end in a zero, and jemalloc documents their values as `size_t`.
    unsafe { raw::read(name) }.ok()
}

/// True if jemalloc gives large blocks a page more than they have.
fn is_padded() -> bool {
    // SAFETY: the name ends in a zero, and jemalloc documents the value as `bool`.
    unsafe { raw::read(b"opt.cache_oblivious\0") }.unwrap_or(false)
}

/// Memory that the allocator holds; `None` when it was built without statistics.
pub(crate) fn memory() -> Option<AllocatorMemory> {
    // The figures are those of the last epoch.
    epoch::advance().ok()?;
    let bytes = |value: tikv_jemalloc_ctl::Result<usize>| value.map(|bytes| bytes as u64).ok();
    let page_bytes = size(PAGE_BYTES)?;
    let muzzy_bytes = size(ALL_ARENAS_MUZZY_PAGES)? * page_bytes;
    let reserved_bytes = RESERVED_BYTES.load(Ordering::Relaxed);
    // Each block has a page more, so that blocks begin in different lines of the caches.
    let reserved_pages = if is_padded() { reserved_bytes / RESERVE_BLOCK_BYTES } else { 0 };
    let reserved_active_bytes = (reserved_bytes + reserved_pages * page_bytes) as u64;
    Some(AllocatorMemory {
        allocated_bytes: bytes(stats::allocated::read())?.saturating_sub(reserved_bytes as u64),
        active_bytes: bytes(stats::active::read())?.saturating_sub(reserved_active_bytes),
        // Not touched, but jemalloc cannot know.
        resident_bytes: bytes(stats::resident::read())?.saturating_sub(reserved_active_bytes),
        muzzy_bytes: muzzy_bytes as u64,
    })
}

/// The allocator's report.
pub(crate) fn report() -> String {
    let mut text = Vec::new();
    match stats_print::stats_print(&mut text, stats_print::Options::default()) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => format!("the allocator does not report: {error}\n"),
    }
}

/// Returns unused pages to the system. Takes the locks of all arenas in turn.
pub(crate) fn purge() {
    let (none, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the name ends in a zero; this control takes no old and no new value, as jemalloc
    // documents.
    let status = unsafe {
        tikv_jemalloc_sys::mallctl(
            ALL_ARENAS_PURGE.as_ptr(),
            none,
            nothing,
            std::ptr::null_mut(),
            0,
        )
    };
    debug_assert_eq!(status, 0, "jemalloc knows how to purge");
}

/// Lets the first arena reuse pieces as large as the others do. jemalloc makes it before it takes
/// the option over, and where there is one CPU it makes no other.
///
/// # Errors
///
/// When jemalloc does not know the limit.
pub(crate) fn reuse_large_blocks() -> Result<(), String> {
    // SAFETY: the name ends in a zero, and jemalloc documents the value as `size_t`.
    let bytes = unsafe { raw::read::<usize>(b"opt.oversize_threshold\0") };
    let bytes = bytes.map_err(|error| error.to_string())?;
    // SAFETY: as above.
    unsafe { raw::write(b"arena.0.oversize_threshold\0", bytes) }.map_err(|error| error.to_string())
}

/// Starts the thread that returns freed memory to the system over some ten seconds, or ends it. The
/// thread takes affinity, policy and priority from the calling thread. Blocks until an ended one is
/// gone.
///
/// Without it arenas do that as their threads allocate and free, beside the commands, and never
/// again once these are idle.
///
/// # Errors
///
/// When no thread can be started.
pub(crate) fn purge_in_background(is_wanted: bool) -> Result<(), String> {
    // SAFETY: the name ends in a zero, and jemalloc documents the value as `bool`.
    unsafe { raw::write(b"background_thread\0", is_wanted) }.map_err(|error| error.to_string())
}

/// Utilization of the pages of a block, as `experimental.utilization.query` tells it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Utilization {
    /// Address of the slab from which the size class is handed out now.
    current_slab: *mut c_void,
    /// Free and all blocks of the slab.
    free: usize,
    all: usize,
    /// Bytes of the slab.
    bytes: usize,
    /// Free and all blocks of the size class, in the arena.
    free_of_class: usize,
    all_of_class: usize,
}

/// The control that tells it, looked up once; `None` where jemalloc has none.
static UTILIZATION: LazyLock<Option<[usize; 3]>> = LazyLock::new(|| {
    let mut place = [0; 3];
    raw::name_to_mib(b"experimental.utilization.query\0", &mut place).ok().map(|()| place)
});

/// True if a block lies in a slab that holds less than most of its size class, where a class wastes
/// an eighth or more.
///
/// Slabs that are an eighth free at most stay as they are, and so does the one from which the class
/// is handed out. So whatever the sizes, a keyspace that nobody changes is not moved for ever.
pub(crate) fn is_sparse(block: Block<'_>) -> bool {
    let Some(control) = *UTILIZATION else { return false };
    let mut answer = MaybeUninit::<Utilization>::uninit();
    let mut answer_bytes = size_of::<Utilization>();
    let mut address = block.address().as_ptr();
    // SAFETY: the control takes the address of an allocated block, by a pointer to it, and writes
    // an answer of this layout, whose size it compares.
    let status = unsafe {
        tikv_jemalloc_sys::mallctlbymib(
            control.as_ptr(),
            control.len(),
            answer.as_mut_ptr().cast(),
            &raw mut answer_bytes,
            (&raw mut address).cast(),
            size_of_val(&address),
        )
    };
    if status != 0 {
        return false;
    }
    // SAFETY: the control succeeded, and wrote all of it.
    let answer = unsafe { answer.assume_init() };
    let Utilization { current_slab, free, all, bytes, free_of_class, all_of_class } = answer;
    let slab = current_slab.addr()..current_slab.addr() + bytes;
    // A large block has no slab.
    all > 1
        && !slab.contains(&address.addr())
        && free * 8 > all
        && free_of_class * 8 > all_of_class
        && free * all_of_class * 8 >= free_of_class * all * 7
}

/// Gives the free blocks that are kept for the calling thread back to their slabs.
pub(crate) fn flush_thread_cache() {
    let (none, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the name ends in a zero; this control takes no old and no new value, as jemalloc
    // documents.
    let _ = unsafe {
        tikv_jemalloc_sys::mallctl(
            c"thread.tcache.flush".as_ptr(),
            none,
            nothing,
            std::ptr::null_mut(),
            0,
        )
    };
}

/// True if `bytes` more can be had by the calling thread.
///
/// They are allocated for a moment as one block, and left to the thread's arena: what other threads
/// allocate meanwhile does not come from there, so that those who got this answer at the same time
/// are not promised the same memory. The thread's reserve stays beside them.
pub(crate) fn has_room(bytes: usize) -> bool {
    if !keep_reserve() {
        return false;
    }
    MAY_USE_RESERVE.set(false);
    let mut block = Vec::<u8>::new();
    let is_there = block.try_reserve_exact(bytes).is_ok();
    // Without this the compiler may leave the allocation out, and take it for successful.
    std::hint::black_box(&block);
    MAY_USE_RESERVE.set(true);
    is_there
}

/// True if the system gives what a new thread takes at this moment.
pub(crate) fn has_room_for_thread() -> bool {
    let (access, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory of the process.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), THREAD_BYTES, access, private) };
    // SAFETY: the range was mapped just now, in the same size, and nothing refers to it.
    mapped.is_ok_and(|start| unsafe { munmap(start, THREAD_BYTES) }.is_ok())
}

/// A function that maps memory for an arena.
type MapMemory = unsafe extern "C" fn(
    *mut extent_hooks_t,
    *mut c_void,
    usize,
    usize,
    *mut bool,
    *mut bool,
    c_uint,
) -> *mut c_void;

/// jemalloc's functions as they were, and those that ask for huge pages.
struct Hooks {
    map_memory: MapMemory,
    huge: extent_hooks_t,
}

static HOOKS: OnceLock<Option<Hooks>> = OnceLock::new();

impl Hooks {
    /// `None` when jemalloc does not tell its own.
    fn read() -> Option<Self> {
        // SAFETY: the name ends in a zero, and jemalloc documents the value as a pointer to its
        // hooks.
        let own = unsafe { raw::read::<*const extent_hooks_t>(b"arena.0.extent_hooks\0") }.ok()?;
        // SAFETY: jemalloc's own hooks are a constant of its, which is never written to.
        let own = unsafe { own.as_ref() }?;
        Some(Self {
            map_memory: own.alloc?,
            huge: extent_hooks_t { alloc: Some(map_huge), ..*own },
        })
    }
}

/// Maps memory as jemalloc does and asks for huge pages in it.
///
/// # Safety
///
/// That of jemalloc's hook `alloc`; only jemalloc calls it.
unsafe extern "C" fn map_huge(
    hooks: *mut extent_hooks_t,
    wanted: *mut c_void,
    size_bytes: usize,
    alignment: usize,
    zero: *mut bool,
    commit: *mut bool,
    arena: c_uint,
) -> *mut c_void {
    let Some(Some(own)) = HOOKS.get() else { return std::ptr::null_mut() };
    // SAFETY: the arguments are those that jemalloc made for this very function.
    let mapped =
        unsafe { (own.map_memory)(hooks, wanted, size_bytes, alignment, zero, commit, arena) };
    if !mapped.is_null() {
        // SAFETY: the range was mapped just now and is nobody's yet; the advice changes no
        // contents. Refused, its pages are small, which is as good.
        let _ = unsafe { madvise(mapped, size_bytes, Advice::LinuxHugepage) };
    }
    mapped
}

/// Asks for huge pages in all memory that the calling thread's arena maps from now on. An arena may
/// serve other threads as well. Does not block.
///
/// # Errors
///
/// When jemalloc refuses.
pub(crate) fn ask_for_huge_pages() -> Result<(), String> {
    let hooks =
        HOOKS.get_or_init(Hooks::read).as_ref().ok_or("jemalloc does not tell its hooks")?;
    // SAFETY: the name ends in a zero, and jemalloc documents the value as `unsigned`.
    let arena = unsafe { raw::read::<c_uint>(b"thread.arena\0") };
    let arena = arena.map_err(|error| error.to_string())?;
    let name = format!("arena.{arena}.extent_hooks\0");
    // SAFETY: the name ends in a zero, and jemalloc documents the value as a pointer to hooks.
    // These live in a static that is never dropped, as it demands, and it does not write to them.
    unsafe { raw::write(name.as_bytes(), &raw const hooks.huge) }.map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    /// As in the binary, and counts.
    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    struct Counting;

    thread_local! {
        static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    }

    /// Allocations of the calling thread so far.
    pub(crate) fn allocations() -> u64 {
        ALLOCATIONS.get()
    }

    // SAFETY: everything goes to an allocator and comes from it unchanged; what is not here ends in
    // what is.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            ALLOCATIONS.set(ALLOCATIONS.get() + 1);
            // SAFETY: the caller's promises are the same.
            unsafe { Allocator.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // SAFETY: as above.
            unsafe { Allocator.dealloc(pointer, layout) };
        }
    }

    /// True if the mapping that holds an address may get huge pages on request.
    fn is_advised(address: usize) -> bool {
        let maps =
            std::fs::read_to_string("/proc/self/smaps").expect("the kernel tells of mappings");
        let mut is_inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text: &str| usize::from_str_radix(text, 16).ok();
            if let Some((Some(first), Some(end))) = range.map(|(a, b)| (number(a), number(b))) {
                is_inside = (first..end).contains(&address);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_inside) {
                return flags.split_whitespace().any(|flag| flag == "hg");
            }
        }
        false
    }

    #[test]
    fn mappings_after_the_request_are_advised_and_earlier_ones_are_not() {
        if !std::fs::exists("/sys/kernel/mm/transparent_hugepage").expect("sysfs is mounted") {
            eprintln!("this kernel has no huge pages: not tested");
            return;
        }
        // An arena of its own, or other tests' memory would be there already.
        let on_own_arena = || {
            // SAFETY: the name ends in a zero, and jemalloc documents the value as `unsigned`.
            let arena = unsafe { raw::read::<c_uint>(b"arenas.create\0") }.expect("an arena");
            // SAFETY: as above.
            unsafe { raw::write(b"thread.arena\0", arena) }.expect("the arena is there");
            let before = vec![1u8; 64 << 20];
            assert!(!is_advised(before.as_ptr().addr()));
            ask_for_huge_pages().expect("jemalloc takes hooks");
            let after = vec![1u8; 256 << 20];
            assert!(is_advised(after.as_ptr().addr()));
            ask_for_huge_pages().expect("asking twice is harmless");
        };
        std::thread::spawn(on_own_arena).join().expect("no assertion failed");
    }

    /// Variable that tells this program to be the child of the test of its name.
    const IS_LIMITED: &str = "TIDEMILL_TEST_LIMITED";
    const BLOCK_BYTES: usize = 128 << 10;

    /// Runs a test's body in a process of its own: a limit is one of a process, and other tests
    /// allocate.
    fn in_child(body: fn()) {
        if std::env::var_os(IS_LIMITED).is_some() {
            return body();
        }
        let own = std::env::current_exe().expect("this test");
        let name = std::thread::current().name().expect("a test's thread has its name").to_owned();
        let status = std::process::Command::new(own)
            .args([name.as_str(), "--exact", "--test-threads", "1"])
            .env(IS_LIMITED, "1")
            .status()
            .expect("this test starts");
        assert!(status.success(), "{status}");
    }

    /// Fills the memory, of which the system gives no more from now on; there is a reserve.
    fn fill_memory() -> Vec<Vec<u8>> {
        let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(4096);
        blocks.extend((0..256).map(|_| vec![1; BLOCK_BYTES]));
        assert!(keep_reserve());
        let present = getrlimit(Resource::As);
        setrlimit(Resource::As, Rlimit { current: Some(1), ..present })
            .expect("a limit may be lowered");
        while has_room(BLOCK_BYTES) {
            blocks.push(Vec::with_capacity(BLOCK_BYTES));
        }
        blocks
    }

    #[test]
    fn room_is_memory_that_the_system_gives_or_one_block_that_the_arena_has() {
        assert!(has_room(1 << 20));
        assert!(!has_room(1 << 50), "an address space has 2^47 bytes");
        assert!(!has_room(usize::MAX));
        in_child(|| {
            let mut blocks = fill_memory();
            for index in (0..256).step_by(2) {
                blocks[index] = Vec::new();
            }
            assert!(has_room(BLOCK_BYTES), "the blocks that were freed");
            assert!(!has_room(4 * BLOCK_BYTES), "there is no such block");
            drop(blocks);
            assert!(has_room(4 * BLOCK_BYTES), "all is free again");
        });
    }

    #[test]
    fn allocations_that_fail_get_the_reserve_and_it_comes_back() {
        in_child(|| {
            let blocks = fill_memory();
            let more: Vec<Vec<u8>> = (0..16).map(|_| vec![1; BLOCK_BYTES]).collect();
            assert!(!keep_reserve(), "there is no memory for it");
            assert!(!has_room(1), "the little that is left is for what cannot fail");
            drop((blocks, more));
            assert!(keep_reserve(), "all is free again");
            assert!(has_room(BLOCK_BYTES));
        });
    }

    #[test]
    fn small_allocations_get_the_reserve_again_and_again() {
        in_child(|| {
            let mut small = Vec::with_capacity(1 << 18);
            drop(fill_memory());
            for _ in 0..3 {
                while keep_reserve() {
                    small.extend((0..100).map(|_| vec![1u8; 1000]));
                }
                // More than 30 MB are there.
                assert!(small.len() > 20_000, "{}", small.len());
                small.clear();
                assert!(keep_reserve(), "all is free again");
            }
        });
    }

    #[test]
    fn an_allocation_that_failed_is_noted_by_its_thread() {
        assert_eq!(failed_bytes(), None);
        let too_many = isize::MAX as usize - 4095;
        assert!(Vec::<u8>::new().try_reserve_exact(too_many).is_err());
        assert_eq!(failed_bytes(), Some(too_many));
    }

    #[test]
    fn jemalloc_takes_its_options() {
        // SAFETY: the name ends in a zero, and jemalloc documents the value as `unsigned`.
        let slots_max: u32 =
            unsafe { raw::read(b"opt.tcache_nslots_small_max\0") }.expect("an option");
        assert_eq!(slots_max, 1024);
        // SAFETY: as above, `size_t`.
        let reused_bytes_max: usize =
            unsafe { raw::read(b"opt.oversize_threshold\0") }.expect("an option");
        assert_eq!(reused_bytes_max, 64 << 20);
    }

    #[test]
    fn a_reserve_does_not_count_as_used() {
        in_child(|| {
            let before = memory().expect("statistics are built in");
            assert!(keep_reserve());
            let after = memory().expect("statistics are built in");
            let reserve_bytes = (RESERVE_BLOCKS * RESERVE_BLOCK_BYTES) as u64;
            let most = reserve_bytes / 8;
            let grown =
                |figure: fn(&AllocatorMemory) -> u64| figure(&after).abs_diff(figure(&before));
            assert!(grown(|memory| memory.allocated_bytes) < most, "{before:?} {after:?}");
            assert!(grown(|memory| memory.active_bytes) < most, "{before:?} {after:?}");
            // jemalloc's own data, which are resident as well, grow by 2 MiB at once.
            let metadata_bytes = 2 << 20;
            assert!(
                grown(|memory| memory.resident_bytes) < metadata_bytes + most,
                "{before:?} {after:?}"
            );
            let fragmented =
                |memory: &AllocatorMemory| memory.active_bytes.abs_diff(memory.allocated_bytes);
            assert!(fragmented(&after) < fragmented(&before) + most / 4, "{before:?} {after:?}");
        });
    }

    #[test]
    fn jemalloc_tells_of_itself_and_purges() {
        let memory = memory().expect("statistics are built in");
        assert!(memory.active_bytes >= memory.allocated_bytes, "{memory:?}");
        assert!(report().contains("jemalloc statistics"));
        purge();
    }
}
