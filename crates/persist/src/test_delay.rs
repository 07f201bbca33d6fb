//! Delays that tests ask for, so that saves and loads take long.

use std::thread;
use std::time::Duration;

/// Longest sleep without a look whether there is a reason to go on.
const STEP_US: u64 = 10_000;

/// Sleeps for `delay_us` microseconds, or until `is_over`; -N is one microsecond in N calls. 0 is
/// no delay.
pub fn delay(delay_us: i64, is_over: impl Fn() -> bool) {
    let mut left_us = match delay_us {
        0.. => delay_us.unsigned_abs(),
        // Seldom, as a sleep takes longer than it says.
        _ => u64::from(fastrand::u64(..delay_us.unsigned_abs()) == 0),
    };
    while left_us > 0 && !is_over() {
        let step_us = left_us.min(STEP_US);
        thread::sleep(Duration::from_micros(step_us));
        left_us -= step_us;
    }
}
