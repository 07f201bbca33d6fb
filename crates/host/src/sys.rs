//! The system calls the standard library and `rustix` do not offer for sets of any size.
//!
//! The only module of this crate with `unsafe`. `rustix` has `sched_setaffinity`, but for at most 1,024 CPUs.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;

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

/// What `ethtool -c` shows of an interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coalescing {
    pub(crate) rx_usecs: u32,
    pub(crate) rx_frames: u32,
    pub(crate) tx_usecs: u32,
    pub(crate) tx_frames: u32,
}

/// Fields of `struct ethtool_coalesce` of `linux/ethtool.h`, the command first.
const COALESCE_FIELDS: usize = 23;
const ETHTOOL_GCOALESCE: u32 = 0x0e;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// Reads an interface's coalescing by `SIOCETHTOOL`.
pub(crate) fn coalescing(interface: &str) -> io::Result<Coalescing> {
    let mut fields = [0u32; COALESCE_FIELDS];
    fields[0] = ETHTOOL_GCOALESCE;
    // SAFETY: all-zero bytes are a valid `ifreq`, a struct of plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = fields.as_mut_ptr().cast();
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    // SAFETY: the kernel reads the request and writes one `ethtool_coalesce`, 23 words, through `ifru_data`,
    // which points to `fields`, of that size and alive until after the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let [_, rx_usecs, rx_frames, _, _, tx_usecs, tx_frames, ..] = fields;
    Ok(Coalescing { rx_usecs, rx_frames, tx_usecs, tx_frames })
}
