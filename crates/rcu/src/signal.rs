//! The signal flavour's barrier: each reader executes a full fence in a signal handler.
//!
//! `SIGURG` is ignored by default, so that one still under way when its receiver unregisters does
//! no harm, and it is not queued: several requests become one, whose handler answers them all.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Mutex;

use crate::domain::DomainError;
use crate::limits::SIGNAL_DOMAINS_PER_THREAD_MAX;
use crate::primitive::{Ordering, fence};
use crate::reader_state::ReaderState;

const SIGNAL: libc::c_int = libc::SIGURG;

thread_local! {
    // Constant and without a destructor: the handler may read it at any time.
    static STATES: [Cell<*const ReaderState>; SIGNAL_DOMAINS_PER_THREAD_MAX] =
        const { [const { Cell::new(ptr::null()) }; SIGNAL_DOMAINS_PER_THREAD_MAX] };
}

/// Kernel's number of the calling thread; zero where there is no kernel (models).
pub(crate) fn this_kernel_thread() -> libc::pid_t {
    if cfg!(any(loom, miri)) {
        return 0;
    }
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() }
}

/// Installs the handler unless it is installed already.
pub(crate) fn install() -> Result<(), DomainError> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !*installed {
        let handler = current_handler()?;
        if handler != libc::SIG_DFL && handler != libc::SIG_IGN {
            return Err(DomainError::SignalTaken);
        }
        set_handler()?;
        *installed = true;
    }
    Ok(())
}

fn current_handler() -> Result<libc::sighandler_t, DomainError> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only queries; `action` is writable.
    let outcome = unsafe { libc::sigaction(SIGNAL, ptr::null(), action.as_mut_ptr()) };
    if outcome != 0 {
        return Err(DomainError::SignalRefused(io::Error::last_os_error()));
    }
    // SAFETY: sigaction filled it in.
    let action = unsafe { action.assume_init() };
    Ok(action.sa_sigaction)
}

fn set_handler() -> Result<(), DomainError> {
    // SAFETY: all-zero bytes are a valid sigaction with an empty mask.
    let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
    action.sa_sigaction = execute_barrier as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler is async-signal-safe: it reads a constant thread-local and stores to
    // atomics.
    let outcome = unsafe { libc::sigaction(SIGNAL, &action, ptr::null_mut()) };
    if outcome != 0 {
        return Err(DomainError::SignalRefused(io::Error::last_os_error()));
    }
    Ok(())
}

extern "C" fn execute_barrier(_signal: libc::c_int) {
    STATES.with(|states| {
        for state in states {
            let state = state.get();
            if !state.is_null() {
                // SAFETY: `detach` clears the pointer on this very thread before the state is
                // dropped.
                answer(unsafe { &*state });
            }
        }
    });
}

fn answer(state: &ReaderState) {
    // Acquire pairs with the release in `request_barrier`: this thread's later loads see everything
    // that the writer unlinked before.
    let requested = state.barrier_requested.load(Ordering::Acquire);
    // This thread's store of its word comes before this fence, or its loads come after it.
    fence(Ordering::SeqCst);
    // Release pairs with the acquire in `is_barrier_done`, after which the scan loads the word.
    state.barrier_done.store(requested, Ordering::Release);
}

/// Registers the state of the calling thread for the handler.
pub(crate) fn attach(state: &ReaderState) {
    STATES.with(|states| {
        let free = states.iter().find(|place| place.get().is_null());
        free.expect("too many domains of the signal flavour on one thread").set(state);
    });
}

/// Removes the state of the calling thread from the handler's.
pub(crate) fn detach(state: &ReaderState) {
    STATES.with(|states| {
        for place in states.iter().filter(|place| ptr::eq(place.get(), state)) {
            place.set(ptr::null());
        }
    });
}

/// Requests a fence of a registered thread.
pub(crate) fn request_barrier(state: &ReaderState) {
    // Relaxed: requests are made under the registry's lock only.
    let request = state.barrier_requested.load(Ordering::Relaxed) + 1;
    // Release pairs with the acquire in `answer`.
    state.barrier_requested.store(request, Ordering::Release);
    // The outcome does not matter: a registered reader's thread lives, since a reader cannot leave
    // its thread, and one that was leaked stops all grace periods anyway.
    // SAFETY: the system call takes integers only.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), state.kernel_thread, SIGNAL) };
}

pub(crate) fn is_barrier_done(state: &ReaderState) -> bool {
    // Relaxed: as above. Acquire pairs with the release in `answer`.
    state.barrier_done.load(Ordering::Acquire) >= state.barrier_requested.load(Ordering::Relaxed)
}
