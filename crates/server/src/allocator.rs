//! What jemalloc, the binary's allocator, tells and does.
//!
//! The only module of this crate with unsafe code: purging has no safe interface, as it neither reads nor writes a value,
//! and jemalloc looks for its options under a fixed name.
#![allow(unsafe_code)]

use tidemill_engine::shared::AllocatorMemory;
use tikv_jemalloc_ctl::{epoch, raw, stats, stats_print};

/// Larger caches of free memory per thread: writes allocate entries one by one, but what they replaced is freed in bursts,
/// after the grace periods, and a burst should find room in the cache.
// SAFETY: no other item has this name, under which jemalloc expects a pointer to a text that ends in a zero; a reference to
// an array is one.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static JEMALLOC_OPTIONS: &[u8; 52] = b"lg_tcache_nslots_mul:4,tcache_nslots_small_max:1024\0";

/// Stands for all arenas together.
const ALL_ARENAS_PURGE: &std::ffi::CStr = c"arena.4096.purge";
const ALL_ARENAS_MUZZY_PAGES: &[u8] = b"stats.arenas.4096.pmuzzy\0";
const PAGE_BYTES: &[u8] = b"arenas.page\0";

fn size(name: &'static [u8]) -> Option<usize> {
    // SAFETY: the names passed here end in a zero, and jemalloc documents their values as `size_t`.
    unsafe { raw::read(name) }.ok()
}

/// What the allocator holds; `None` when it was built without statistics.
pub(crate) fn memory() -> Option<AllocatorMemory> {
    // The figures are those of the last epoch.
    epoch::advance().ok()?;
    let bytes = |value: tikv_jemalloc_ctl::Result<usize>| value.map(|bytes| bytes as u64).ok();
    let muzzy_bytes = size(ALL_ARENAS_MUZZY_PAGES)? * size(PAGE_BYTES)?;
    Some(AllocatorMemory {
        allocated_bytes: bytes(stats::allocated::read())?,
        active_bytes: bytes(stats::active::read())?,
        resident_bytes: bytes(stats::resident::read())?,
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

/// Gives pages that nothing stands on back to the system. Takes the locks of all arenas in turn.
pub(crate) fn purge() {
    let (none, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the name ends in a zero; this control takes no old and no new value, as jemalloc documents.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jemalloc_takes_its_options() {
        // SAFETY: the name ends in a zero, and jemalloc documents the value as `unsigned`.
        let slots_max: u32 =
            unsafe { raw::read(b"opt.tcache_nslots_small_max\0") }.expect("an option");
        assert_eq!(slots_max, 1024);
    }

    #[test]
    fn jemalloc_tells_of_itself_and_purges() {
        let memory = memory().expect("statistics are built in");
        assert!(memory.active_bytes >= memory.allocated_bytes, "{memory:?}");
        assert!(report().contains("jemalloc statistics"));
        purge();
    }
}
