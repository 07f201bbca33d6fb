//! Delays that tests ask for, so that saves and loads take long.

use std::thread;
use std::time::Duration;

/// Sleeps for `delay_us` microseconds; -N is one microsecond in N calls. 0 is no delay.
pub(crate) fn delay(delay_us: i64) {
    let us = match delay_us {
        0 => return,
        1.. => delay_us.unsigned_abs(),
        // Seldom, as a sleep takes longer than it says.
        _ => u64::from(fastrand::u64(..delay_us.unsigned_abs()) == 0),
    };
    if us > 0 {
        thread::sleep(Duration::from_micros(us));
    }
}
