//! Integration tests of rcu in one binary. Built with `--cfg loom` it holds the loom models
//! instead of the tests on real threads.

#[cfg(loom)]
mod loom_grace;

#[cfg(not(any(loom, miri)))]
mod litmus;
#[cfg(not(any(loom, miri)))]
mod torture;

/// Share of the processors: tortures have it together, a litmus test alone, because its two threads
/// must run at the same moment on a machine that may have no more than two cores.
#[cfg(not(any(loom, miri)))]
static PROCESSORS: std::sync::RwLock<()> = std::sync::RwLock::new(());
