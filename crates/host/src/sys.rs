//! The system calls the standard library and `rustix` do not offer for sets of any size.
//!
//! The only module of this crate with `unsafe`. `rustix` has `sched_setaffinity`, but for at most
//! 1,024 CPUs.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;

use crate::CpuSet;

/// Words to start from when asking for a mask: 1,024 CPUs; doubled while the kernel says it is too
/// small.
const AFFINITY_WORDS_MIN: usize = 16;
const AFFINITY_WORDS_MAX: usize = 4_096;

/// The affinity mask of a thread; 0 is the caller.
pub(crate) fn affinity(thread: libc::pid_t) -> io::Result<CpuSet> {
    let mut count = AFFINITY_WORDS_MIN;
    loop {
        let mut words = vec![0u64; count];
        let size_bytes = count * size_of::<u64>();
        // SAFETY: the kernel writes at most `size_bytes` bytes to `words`, which is exactly that
        // large.
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

/// Values that `ethtool -c` shows of an interface.
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

/// Reads an interface's coalescing by `SIOCETHTOOL`.
pub(crate) fn coalescing(interface: &str) -> io::Result<Coalescing> {
    let mut fields = [0u32; COALESCE_FIELDS];
    fields[0] = ETHTOOL_GCOALESCE;
    ethtool(interface, &mut fields)?;
    let [_, rx_usecs, rx_frames, _, _, tx_usecs, tx_frames, ..] = fields;
    Ok(Coalescing { rx_usecs, rx_frames, tx_usecs, tx_frames })
}

/// Fields of `struct ethtool_channels`: the command, four maxima, four counts, each for receiving,
/// transmitting, other and combined queues.
const CHANNELS_FIELDS: usize = 9;
const CHANNELS_COMBINED_MAX: usize = 4;
const CHANNELS_COMBINED: usize = 8;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_SCHANNELS: u32 = 0x3d;

fn channels(interface: &str) -> io::Result<[u32; CHANNELS_FIELDS]> {
    let mut fields = [0u32; CHANNELS_FIELDS];
    fields[0] = ETHTOOL_GCHANNELS;
    ethtool(interface, &mut fields)?;
    Ok(fields)
}

/// Number of combined queues of an interface, present and possible.
pub(crate) fn combined_queues(interface: &str) -> io::Result<(u32, u32)> {
    let fields = channels(interface)?;
    Ok((fields[CHANNELS_COMBINED], fields[CHANNELS_COMBINED_MAX]))
}

/// Sets the number of combined queues and leaves the others as they are.
pub(crate) fn set_combined_queues(interface: &str, count: u32) -> io::Result<()> {
    let mut fields = channels(interface)?;
    fields[0] = ETHTOOL_SCHANNELS;
    fields[CHANNELS_COMBINED] = count;
    ethtool(interface, &mut fields)
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// One `SIOCETHTOOL` whose struct consists of 32-bit words, the command first.
fn ethtool<const WORDS: usize>(interface: &str, fields: &mut [u32; WORDS]) -> io::Result<()> {
    let words = match fields[0] {
        ETHTOOL_GCOALESCE => COALESCE_FIELDS,
        _ => CHANNELS_FIELDS,
    };
    assert!(words == WORDS, "a struct of another command");
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
    // SAFETY: the kernel reads the request, and reads and writes the command's struct through
    // `ifru_data`, which points to `fields`: as many words as that struct has, checked above, and
    // alive until after the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Scheduling of a thread, as `sched_getattr` tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Scheduling {
    size_bytes: u32,
    /// `SCHED_OTHER`, `SCHED_BATCH` and so on.
    pub(crate) policy: u32,
    flags: u64,
    /// -20 to 19.
    pub(crate) nice: i32,
    priority: u32,
    /// The slice of a thread under EEVDF since 6.12; 0 where the kernel tells none.
    pub(crate) runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const SCHEDULING_BYTES: u32 = size_of::<Scheduling>() as u32;
// The first published size of `struct sched_attr`, which every kernel takes.
const _: () = assert!(SCHEDULING_BYTES == 48);

/// The scheduling of the calling thread.
pub(crate) fn scheduling() -> io::Result<Scheduling> {
    let mut scheduling = Scheduling::default();
    // SAFETY: the kernel writes at most the given number of bytes to the struct, which is exactly
    // that large.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, &raw mut scheduling, SCHEDULING_BYTES, 0)
    };
    if result == 0 { Ok(scheduling) } else { Err(io::Error::last_os_error()) }
}

/// Sets the scheduling of the calling thread; a program started in its place keeps it.
pub(crate) fn set_scheduling(scheduling: Scheduling) -> io::Result<()> {
    let scheduling = Scheduling { size_bytes: SCHEDULING_BYTES, ..scheduling };
    // SAFETY: the kernel reads as many bytes as the struct's first field says, which is its size.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const scheduling, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the source of the calling thread's new memory: a mode such as `MPOL_BIND` and its nodes.
/// Threads started by it, and a program started in its place, inherit it.
pub(crate) fn set_memory_policy(mode: libc::c_int, nodes: &CpuSet) -> io::Result<()> {
    let words = nodes.words();
    // The kernel reads one bit less than it is told.
    let bit_count = words.len() * u64::BITS as usize + 1;
    // SAFETY: the kernel reads `bit_count - 1` bits from `words`, which holds exactly as many.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, words.as_ptr(), bit_count) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Switches transparent huge pages off, or back to the machine's setting, for the calling process
/// and the program started in its place.
pub(crate) fn forbid_huge_pages(forbidden: bool) -> io::Result<()> {
    let forbidden = libc::c_ulong::from(forbidden);
    let unused: libc::c_ulong = 0;
    // SAFETY: this operation takes numbers only, and no memory is shared with the kernel.
    let result =
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, forbidden, unused, unused, unused) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
