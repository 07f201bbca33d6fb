//! Flavours: the sides that pay for the ordering between readers and writers.
//!
//! A flavour is a type, chosen by generics, so that a read section has no branch on it. Code that
//! only reads takes a [`Section`](crate::Section) instead and is compiled once for all.

use std::fmt::Debug;
use std::sync::atomic::compiler_fence;

use crate::barrier::Barrier;
use crate::domain::DomainError;
use crate::primitive::{Ordering, fence};

/// A way in which readers announce that they are done. Implemented by the five types of this crate
/// only.
pub trait Flavour: Rules + Debug + Sized + Send + Sync + 'static {
    /// Name in settings and reports.
    const NAME: &'static str;
}

/// Differences between the flavours; not nameable outside the crate, which seals [`Flavour`].
pub trait Rules {
    /// True if readers count as reading from one announcement to the next, and a section itself
    /// does nothing.
    const ANNOUNCES: bool = false;

    /// Orders a reader's word before its loads. With `barrier_by_writer` the writer's barrier does
    /// it for the reader.
    fn order_entry(barrier_by_writer: bool);

    /// Barrier that a writer executes before it loads the readers' words.
    ///
    /// # Errors
    ///
    /// When the operating system refuses something that the flavour needs.
    fn barrier() -> Result<Barrier, DomainError>;
}

/// Quiescent-state-based: sections cost nothing, the thread calls
/// [`Reader::quiescent`](crate::Reader::quiescent) often, and goes
/// [`offline`](crate::Reader::offline) before it blocks.
#[derive(Debug)]
pub enum Qsbr {}

/// Plain stores in readers, `sys_membarrier` (private, expedited) in writers; full fences where it
/// is refused.
#[derive(Debug)]
pub enum Memb {}

/// Full fences in readers; no system call.
#[derive(Debug)]
pub enum Mb {}

/// As [`Memb`], and `Domain::<Bp>::enter` registers the calling thread by itself.
#[derive(Debug)]
pub enum Bp {}

/// Plain stores in readers, a signal (`SIGURG`) to each reader per grace period.
///
/// liburcu has removed it in favour of `memb`; it is here so that published comparisons can be
/// repeated. The handler is installed with `SA_RESTART`, yet calls like `epoll_wait` return `EINTR`
/// nevertheless.
#[derive(Debug)]
pub enum Signal {}

impl Flavour for Qsbr {
    const NAME: &'static str = "qsbr";
}

impl Rules for Qsbr {
    const ANNOUNCES: bool = true;

    fn order_entry(_barrier_by_writer: bool) {}

    fn barrier() -> Result<Barrier, DomainError> {
        Ok(Barrier::Fence)
    }
}

impl Flavour for Memb {
    const NAME: &'static str = "memb";
}

impl Rules for Memb {
    #[inline(always)]
    fn order_entry(barrier_by_writer: bool) {
        if barrier_by_writer {
            // The compiler must not move the loads up; the processor is stopped by the writer's
            // membarrier.
            compiler_fence(std::sync::atomic::Ordering::SeqCst);
        } else {
            Mb::order_entry(false);
        }
    }

    fn barrier() -> Result<Barrier, DomainError> {
        Ok(Barrier::membarrier_or_fence())
    }
}

impl Flavour for Mb {
    const NAME: &'static str = "mb";
}

impl Rules for Mb {
    #[inline(always)]
    fn order_entry(_barrier_by_writer: bool) {
        // Pairs with the fence of `Barrier::issue`: either the scan sees this reader's word or the
        // reader sees the unlinking.
        fence(Ordering::SeqCst);
    }

    fn barrier() -> Result<Barrier, DomainError> {
        Ok(Barrier::Fence)
    }
}

impl Flavour for Bp {
    const NAME: &'static str = "bp";
}

impl Rules for Bp {
    #[inline(always)]
    fn order_entry(barrier_by_writer: bool) {
        Memb::order_entry(barrier_by_writer);
    }

    fn barrier() -> Result<Barrier, DomainError> {
        Memb::barrier()
    }
}

impl Flavour for Signal {
    const NAME: &'static str = "signal";
}

impl Rules for Signal {
    #[inline(always)]
    fn order_entry(_barrier_by_writer: bool) {
        // The processor is stopped by the fence in the signal's handler.
        compiler_fence(std::sync::atomic::Ordering::SeqCst);
    }

    fn barrier() -> Result<Barrier, DomainError> {
        Barrier::signal()
    }
}
