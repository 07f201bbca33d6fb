//! Userspace read-copy-update.
//!
//! Readers walk shared structures without a lock; a writer unlinks a node, retires it, and frees it
//! once every reader that could have seen it is done: after a *grace period*. The flavours differ
//! in how a reader announces that it is done, and so in which side pays for the memory ordering
//! between the two.
//!
//! | flavour | cost of a read section | cost of a grace period |
//! |---|---|---|
//! | [`Qsbr`] | nothing; the thread announces quiescent states | waiting for announcements |
//! | [`Memb`] | two plain stores | one `sys_membarrier`, or a fence ([`Domain::description`]) |
//! | [`Mb`] | two plain stores and one full fence | a fence |
//! | [`Bp`] | as `Memb`; threads register themselves | as `Memb` |
//! | [`Signal`] | two plain stores | one signal to each reader |
//!
//! # How a grace period is found
//!
//! A [`Domain`] has one counter. Starting a grace period advances it and remembers the new value,
//! the target. Each registered reader has a word of its own: zero depth when it is outside any
//! section, else the counter's value as it was when the section began (or, under `Qsbr`, when the
//! reader last announced). The period is over once each word was seen outside or at the target and
//! beyond.
//!
//! Two dangers make this more than counting:
//!
//! - *A reader enters while the writer looks.* The reader stores its word, then loads pointers; the
//!   writer stores pointers, then loads words. Without a full fence on both sides each may miss the
//!   other (store buffering). `Mb` executes the reader's fence at each entry. `Memb`, `Bp` and
//!   `Signal` let the writer execute it in the reader's place, by `sys_membarrier` or a signal.
//!   `Qsbr` needs it only when a reader comes online.
//! - *A reader reads the counter and stores its word much later.* The word then holds an old value,
//!   which only makes later periods wait longer. liburcu keeps one bit of the counter and therefore
//!   flips it twice; 56 bits do not repeat, so one pass is enough.
//!
//! Loading the words is a *scan*: one at a time per domain, advanced by the threads that poll,
//! under a lock that polling only tries. A scan serves every period that began before it, so the
//! cost of the barrier is shared, and the crate needs no thread of its own.
//!
//! A barrier that interrupts readers is not issued at once when the last one was just now: polling
//! threads get one per [`BARRIER_PAUSE`](limits::BARRIER_PAUSE) ([`Domain::with_barrier_pause`]
//! sets another), a thread that blocks in [`Domain::synchronize`] lets readers run for half the
//! time that the last one took. Signals always keep the whole pause. Retired memory therefore waits
//! a millisecond longer, and readers lose less than a percent to it.
//!
//! # Guards are lifetimes
//!
//! ```
//! use tidemill_rcu::{Domain, Limits, Published, Qsbr, RetireList};
//!
//! let domain = Domain::<Qsbr>::new()?;
//! let mut reader = domain.register();
//! let retired = RetireList::for_domain(&domain, Limits::default());
//! let value = Published::new(String::from("old"));
//! {
//!     let guard = reader.enter();
//!     let old = value.load(guard.section());
//!     // SAFETY: all loads use sections of `domain`, which `retired` belongs to.
//!     unsafe { value.replace(String::from("new"), &retired) };
//!     assert_eq!(old, "old"); // still there: this reader has not announced
//! }
//! reader.quiescent(); // does not compile while `old` is in use
//! # Ok::<(), tidemill_rcu::DomainError>(())
//! ```
//!
//! ```compile_fail
//! # use tidemill_rcu::{Domain, Published, Qsbr};
//! # let domain = Domain::<Qsbr>::new().unwrap();
//! # let mut reader = domain.register();
//! # let value = Published::new(1);
//! let guard = reader.enter();
//! let old = value.load(guard.section());
//! reader.quiescent();
//! assert_eq!(*old, 1);
//! ```
//!
//! # What it is not
//!
//! There are no data structures here but [`Published`], a single pointer; no `call_rcu` thread per
//! CPU, since the thread that retires also frees; and no protection from a reader that stays in its
//! section: the retire list then reports that it is over its limit ([`RetireList::is_over_limit`]),
//! and the writer must hold back.

mod barrier;
mod domain;
mod doorbell;
mod flavour;
mod garbage;
mod grace;
#[cfg(not(loom))]
mod implicit;
pub mod limits;
mod orphans;
mod pace;
mod primitive;
mod published;
mod reader;
mod reader_state;
mod reclaimer;
mod retire;
mod section;
mod signal;
mod wait;

pub use domain::{Domain, DomainError, DomainId};
pub use flavour::{Bp, Flavour, Mb, Memb, Qsbr, Signal};
pub use garbage::Garbage;
pub use grace::GracePeriod;
pub use published::Published;
pub use reader::{Guard, Reader, Span};
pub use reclaimer::{Reclaimer, ReclaimerHandle};
pub use retire::{Budget, Limits, Reclaimed, RetireList};
pub use section::Section;
