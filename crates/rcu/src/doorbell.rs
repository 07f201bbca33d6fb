//! Doorbell: wakes a writer that sleeps when a reader announces.
//!
//! The bell only saves waiting. A reader loads it right after the store that the writer waits for,
//! without a fence between: the load may come first, see no sleeper, and leave the writer asleep.
//! That is the price of an announcement that costs one load more, from a line that it has read
//! already. Therefore every sleep has a timeout, and correctness does not depend on being woken.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

const NOT_AWAITED: u32 = 0;
const AWAITED: u32 = 1;

// Not of `primitive`: the models do not sleep.
#[derive(Debug, Default)]
pub(crate) struct Doorbell(AtomicU32);

impl Doorbell {
    /// Wakes the sleepers. One load when there are none.
    #[inline(always)]
    pub(crate) fn ring(&self) {
        // Relaxed: see above.
        if self.0.load(Ordering::Relaxed) != NOT_AWAITED {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // Relaxed: the kernel compares the word under its own lock before it lets a thread sleep.
        self.0.store(NOT_AWAITED, Ordering::Relaxed);
        // SAFETY: the address is of a live word; waking touches no memory.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                i32::MAX,
            )
        };
    }

    /// Asks readers to ring. The caller looks at their words once more, and then sleeps.
    pub(crate) fn ask(&self) {
        self.0.store(AWAITED, Ordering::Relaxed);
        // The request is out before the caller's last look; it need not be for safety, see above.
        fence(Ordering::SeqCst);
    }

    /// Sleeps until the bell rings, if it has not since `ask`; at most for `timeout`. May return
    /// early.
    pub(crate) fn sleep(&self, timeout: Duration) {
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: the addresses are of a live word and a valid time, which the kernel only reads.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                AWAITED,
                ptr::from_ref(&timeout),
            )
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// Longer than any test takes on any machine: a thread that sleeps it out was not woken.
    const FOR_EVER: Duration = Duration::from_secs(60);

    #[test]
    fn ringing_wakes_a_sleeper() {
        let bell = Arc::new(Doorbell::default());
        bell.ask();
        let sleeper = {
            let bell = Arc::clone(&bell);
            thread::spawn(move || {
                let began_at = Instant::now();
                bell.sleep(FOR_EVER);
                began_at.elapsed()
            })
        };
        while !sleeper.is_finished() {
            bell.ring();
            thread::yield_now();
        }
        assert!(sleeper.join().unwrap() < FOR_EVER);
    }

    #[test]
    fn a_ring_before_the_sleep_ends_it() {
        let bell = Doorbell::default();
        bell.ask();
        bell.ring();
        let began_at = Instant::now();
        bell.sleep(FOR_EVER);
        assert!(began_at.elapsed() < FOR_EVER);
    }

    #[test]
    fn a_sleep_ends_without_a_ring() {
        let bell = Doorbell::default();
        bell.ask();
        bell.sleep(Duration::from_millis(2));
    }
}
