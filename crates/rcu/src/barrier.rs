//! Barriers: the ordering that a writer executes between unlinking and loading the readers' words.
#![allow(unsafe_code)]

use std::io;
use std::sync::Arc;

use crate::domain::DomainError;
use crate::primitive::{Ordering, fence};
use crate::reader_state::ReaderState;
use crate::signal;

/// The writer's half of the ordering against readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// A full fence in the writer; readers execute theirs.
    Fence,
    /// The kernel executes a full fence on every running thread of the process.
    Membarrier,
    /// Each reader executes a full fence in a signal handler, some time after the barrier was
    /// issued.
    Signal,
}

impl Barrier {
    pub(crate) fn membarrier_or_fence() -> Barrier {
        // Neither loom nor Miri knows the system call.
        if cfg!(any(loom, miri)) {
            return Barrier::Fence;
        }
        match membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
            Ok(()) => Barrier::Membarrier,
            Err(_) => Barrier::Fence,
        }
    }

    pub(crate) fn signal() -> Result<Barrier, DomainError> {
        signal::install().map(|()| Barrier::Signal)
    }

    /// True if readers may leave their fence to the writer.
    pub(crate) fn is_by_writer(self) -> bool {
        self != Barrier::Fence
    }

    /// Issues the barrier; it is complete for one reader when `is_done_by` returns true.
    pub(crate) fn issue(self, states: &[Arc<ReaderState>]) {
        match self {
            // Pairs with the fences in `Mb::order_entry` and `ReaderState::go_online`.
            Barrier::Fence => fence(Ordering::SeqCst),
            Barrier::Membarrier => expedited_membarrier(),
            Barrier::Signal => states.iter().for_each(|state| signal::request_barrier(state)),
        }
    }

    /// True if the barrier issued last is complete for this reader.
    pub(crate) fn is_done_by(self, state: &ReaderState) -> bool {
        self != Barrier::Signal || signal::is_barrier_done(state)
    }
}

fn expedited_membarrier() {
    let outcome = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED).or_else(|_| {
        // A forked child has lost the registration of its parent.
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)?;
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    });
    // Going on without the barrier would free memory under readers.
    outcome.expect("sys_membarrier works once it was registered");
}

fn membarrier(command: libc::c_int) -> io::Result<()> {
    // SAFETY: the system call takes integers only.
    let outcome = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
