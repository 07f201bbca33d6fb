//! The system calls the standard library and `rustix` do not offer for sets of any size.
//!
//! The only module of this crate with `unsafe`. `rustix` has `sched_setaffinity`, but for at most 1,024 CPUs.
#![allow(unsafe_code)]

use std::io;

use crate::CpuSet;

/// Words to start from when asking for a mask: 1,024 CPUs; doubled while the kernel says it is too small.
const AFFINITY_WORDS_MIN: usize = 16;
const AFFINITY_WORDS_MAX: usize = 4_096;

/// The affinity mask of a thread; 0 is the caller.
pub(crate) fn affinity(thread: libc::pid_t) -> io::Result<CpuSet> {
    let mut count = AFFINITY_WORDS_MIN;
    loop {
        let mut words = vec![0u64; count];
        let size_bytes = count * size_of::<u64>();
        // SAFETY: the kernel writes at most `size_bytes` bytes to `words`, which is exactly that large.
        let written = unsafe {
            libc::syscall(libc::SYS_sched_getaffinity, thread, size_bytes, words.as_mut_ptr())
        };
        if written >= 0 {
            return Ok(CpuSet::from_words(words));
        }
        let error = io::Error::last_os_error();
        // EINVAL here means that the kernel knows more CPUs than fit.
        if error.raw_os_error() != Some(libc::EINVAL) || count >= AFFINITY_WORDS_MAX {
            return Err(error);
        }
        count *= 2;
    }
}

/// Sets the affinity mask of a thread; 0 is the caller. The kernel intersects it with the cpuset.
pub(crate) fn set_affinity(thread: libc::pid_t, cpus: &CpuSet) -> io::Result<()> {
    let words = cpus.words();
    let size_bytes = size_of_val(words);
    // SAFETY: the kernel reads `size_bytes` bytes from `words`, which is exactly that large.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, thread, size_bytes, words.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
