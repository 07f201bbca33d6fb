//! Rewrites of the append-only file: the one at hand, the outcome of the last one, and whether
//! another one may begin.
//!
//! They are carried out by the process around the engine, which is called by
//! [`Saving`](crate::saving::Saving). What is counted and answered is decided here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::{REWRITE_FAILURES_MAX, REWRITE_RETRY_MINUTES_MAX};

/// Figures of rewrites, for `INFO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RewriteFigures {
    /// True while one is under way.
    pub is_running: bool,
    /// True if one is to begin as soon as there can be one.
    pub is_scheduled: bool,
    /// Seconds that the last one took.
    pub last_duration_s: Option<u64>,
    /// Seconds since the one at hand began.
    pub current_duration_s: Option<u64>,
    /// True if the last one failed.
    pub has_failed: bool,
    /// Rewrites that have begun.
    pub count: u64,
    /// Rewrites in a row that failed.
    pub failures: u64,
    /// Most bytes that the last one kept from being freed.
    pub held_bytes_peak: u64,
}

#[derive(Debug, Default)]
struct State {
    /// When the one at hand began, Unix time in microseconds.
    started_us: Option<u64>,
    figures: RewriteFigures,
    /// Pause behind the last of several failures, in minutes.
    pause_minutes: u64,
    /// End of that pause, Unix time in seconds.
    paused_until_s: Option<u64>,
    /// True if the one at hand is to count as failed although it was cancelled.
    is_aborted: bool,
    /// True while the process may change its directory: a rewrite would have files in both.
    is_directory_claimed: bool,
}

/// State of rewrites.
#[derive(Debug, Default)]
pub struct Rewrites {
    state: Mutex<State>,
    /// The one at hand is to end without a base.
    is_cancelled: AtomicBool,
}

impl Rewrites {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a rewrite, unless one is under way or the directory is claimed; tells whether it has.
    #[must_use]
    pub fn begin(&self, now_us: u64) -> bool {
        let mut state = self.state();
        !state.is_directory_claimed && self.begin_unless_running(&mut state, now_us)
    }

    /// As [`begin`](Self::begin), for the one who has claimed the directory and stays where it is.
    #[must_use]
    pub fn begin_in_claim(&self, now_us: u64) -> bool {
        self.begin_unless_running(&mut self.state(), now_us)
    }

    fn begin_unless_running(&self, state: &mut State, now_us: u64) -> bool {
        if state.started_us.is_some() {
            return false;
        }
        state.started_us = Some(now_us);
        state.figures.is_scheduled = false;
        state.figures.count += 1;
        // Relaxed, here and below: looked at again and again.
        self.is_cancelled.store(false, Ordering::Relaxed);
        true
    }

    /// Claims the directory, so that no rewrite begins before [`end_claim`](Self::end_claim);
    /// false if one is under way. One claim at a time.
    #[must_use]
    pub fn claim_directory(&self) -> bool {
        let mut state = self.state();
        debug_assert!(!state.is_directory_claimed, "the configuration is changed by one at a time");
        state.is_directory_claimed = state.started_us.is_none();
        state.is_directory_claimed
    }

    /// Lets rewrites begin again.
    pub fn end_claim(&self) {
        self.state().is_directory_claimed = false;
    }

    /// Ends the rewrite at hand.
    pub fn end(&self, now_us: u64, has_succeeded: bool) {
        let mut state = self.state();
        let Some(started_us) = state.started_us.take() else { return };
        let duration_us = now_us.saturating_sub(started_us);
        state.figures.last_duration_s = Some(duration_us / 1_000_000);
        let is_aborted = std::mem::take(&mut state.is_aborted);
        if has_succeeded {
            state.figures.has_failed = false;
            state.figures.failures = 0;
        } else if is_aborted || !self.is_cancelled() {
            // One that was cancelled says nothing of the disk.
            state.figures.has_failed = true;
            state.figures.failures += 1;
        }
    }

    /// Notes the most bytes that the rewrite at hand kept from being freed.
    pub fn note_held_bytes(&self, held_bytes_peak: u64) {
        self.state().figures.held_bytes_peak = held_bytes_peak;
    }

    /// Asks for a rewrite as soon as there can be one.
    pub fn schedule(&self) {
        self.state().figures.is_scheduled = true;
    }

    /// Takes back what was asked for.
    pub fn unschedule(&self) {
        self.state().figures.is_scheduled = false;
    }

    /// Lets earlier failures put off no rewrite.
    pub fn forget_failures(&self) {
        self.state().figures.failures = 0;
    }

    /// True while a rewrite is under way.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state().started_us.is_some()
    }

    /// True if a rewrite is to begin as soon as there can be one.
    #[must_use]
    pub fn is_scheduled(&self) -> bool {
        self.state().figures.is_scheduled
    }

    /// Asks the rewrite at hand to end without a base; tells whether there is one.
    pub fn cancel(&self) -> bool {
        let state = self.state();
        if state.started_us.is_some() {
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
        state.started_us.is_some()
    }

    /// As [`cancel`](Self::cancel), and lets it count as failed.
    pub(crate) fn abort(&self) {
        let mut state = self.state();
        if state.started_us.is_some() {
            state.is_aborted = true;
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// As [`cancel`](Self::cancel), for who needs a cut at once: the rewrite is made up for later.
    pub fn put_off(&self) -> bool {
        let is_running = self.cancel();
        if is_running {
            self.schedule();
        }
        is_running
    }

    /// True if the rewrite at hand is to end without a base.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// True if too many have failed lately: as Valkey 9.1, the third failure in a row is followed
    /// by a pause of a minute, each further one by twice the last pause, up to an hour. `told` is
    /// called with the minutes of a pause that begins.
    #[must_use]
    pub fn is_paused(&self, now_s: u64, told: impl FnOnce(u64)) -> bool {
        let mut state = self.state();
        if state.figures.failures < REWRITE_FAILURES_MAX {
            state.pause_minutes = 0;
            state.paused_until_s = None;
            return false;
        }
        if let Some(until_s) = state.paused_until_s {
            let is_over = now_s >= until_s;
            if is_over {
                state.paused_until_s = None;
            }
            return !is_over;
        }
        state.pause_minutes = (state.pause_minutes * 2).clamp(1, REWRITE_RETRY_MINUTES_MAX);
        state.paused_until_s = Some(now_s + state.pause_minutes * 60);
        told(state.pause_minutes);
        true
    }

    /// Figures for `INFO`.
    #[must_use]
    pub fn figures(&self, now_us: u64) -> RewriteFigures {
        let state = self.state();
        RewriteFigures {
            is_running: state.started_us.is_some(),
            current_duration_s: state
                .started_us
                .map(|started_us| now_us.saturating_sub(started_us) / 1_000_000),
            ..state.figures
        }
    }

    /// Begins the statistics anew.
    pub(super) fn reset(&self) {
        let figures = &mut self.state().figures;
        figures.count = 0;
        figures.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_are_followed_by_longer_and_longer_pauses() {
        let rewrites = Rewrites::default();
        let fail = || {
            assert!(rewrites.begin(0));
            rewrites.end(0, false);
        };
        let is_paused = |now_s| rewrites.is_paused(now_s, |_| {});
        fail();
        fail();
        assert!(!is_paused(0));
        let mut now_s = 0;
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            fail();
            assert!(is_paused(now_s));
            assert!(is_paused(now_s + minutes * 60 - 1), "{minutes}");
            now_s += minutes * 60;
            assert!(!is_paused(now_s), "{minutes}");
        }
        rewrites.forget_failures();
        assert!(!is_paused(now_s));
    }

    #[test]
    fn a_claimed_directory_lets_no_other_rewrite_begin() {
        let rewrites = Rewrites::default();
        assert!(rewrites.claim_directory());
        assert!(!rewrites.begin(0) && !rewrites.is_running());
        assert!(rewrites.begin_in_claim(0) && !rewrites.begin_in_claim(0));
        rewrites.end_claim();
        assert!(!rewrites.claim_directory(), "a rewrite is under way");
        rewrites.end(0, true);
        assert!(rewrites.begin(0), "a claim that was refused keeps none off");
    }

    #[test]
    fn a_rewrite_that_is_put_off_is_no_failure_and_scheduled() {
        let rewrites = Rewrites::default();
        assert!(!rewrites.put_off());
        assert!(rewrites.begin(0));
        assert!(!rewrites.begin(0));
        assert!(rewrites.put_off() && rewrites.is_cancelled());
        rewrites.end(3_000_000, false);
        let figures = rewrites.figures(0);
        assert!(figures.is_scheduled && !figures.has_failed && !figures.is_running);
        assert_eq!((figures.last_duration_s, figures.count), (Some(3), 1));
        assert!(rewrites.begin(0) && !rewrites.is_cancelled());
    }
}
