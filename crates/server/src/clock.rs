//! The server's clock: Unix time that never goes back.
//!
//! The wall clock may be set at any moment, by hand, by a time service, by a hypervisor. How much
//! time has passed does not change with it: a key that was given a minute lives for a minute. So
//! the server's time is anchored to the monotonic clock, and compared with the wall clock ten times
//! a second:
//!
//! | the wall clock was | the server's time |
//! |---|---|
//! | set forward | follows at once: it only rises, and that is how a machine wakes up |
//! | set back, up to a second in all | runs slower by 500 ppm until the wall clock has caught up |
//! | set back further | goes on as it did; it is [`ahead_ms`](Clock::ahead_ms) from then on |
//!
//! Slewing an hour would take 83 days, in which absolute times of clients that are right would be
//! an hour wrong. So what is exchanged with clients as an absolute time is translated by `ahead_ms`
//! instead, and that changes at steps only.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use nix::time::{ClockId, clock_gettime};
use tidemill_engine::clock::Clock;

const NS_PER_S: u64 = 1_000_000_000;

/// Microseconds between two looks at the wall clock.
const LOOK_US: u64 = 100_000;

/// Difference to the wall clock, in microseconds, below which nothing is done: reading two clocks
/// takes a moment.
const DIFFERENCE_US_MIN: i64 = 1000;

/// The longest way back, in microseconds, that is made by running slower.
const SLEWED_US_MAX: u64 = 1_000_000;

/// Microseconds in which the server's time loses one microsecond while slewing: 500 ppm.
const SLEW_US_PER_US: u64 = 2000;

/// Two readings of the monotonic clock around one of the wall clock that are further apart, in
/// microseconds, say nothing.
const READING_US_MAX: u64 = 500;

/// Source of the time.
pub(crate) trait TimeSource: Send + Sync + 'static {
    /// Unix time in microseconds, as it is set.
    fn wall_us(&self) -> u64;

    /// Nanoseconds since some moment in the past.
    fn monotonic_ns(&self) -> u64;

    /// CPU time of the calling thread, in nanoseconds.
    fn thread_cpu_ns(&self) -> u64;
}

/// The system's real-time and monotonic clocks.
///
/// Read straight from the C library: the checked differences of two times that `std` deals in cost
/// more than the reading itself, and each request is timed. (`rustix` would read the kernel's page
/// without the library, but crashes under valgrind.)
#[derive(Debug)]
pub(crate) struct SystemTime;

fn clock_ns(clock: ClockId) -> u64 {
    // Neither clock is before its zero (of the monotonic one this is boot, of the other 1970), and
    // every kernel has both.
    clock_gettime(clock)
        .map_or(0, |time| time.tv_sec().max(0) as u64 * NS_PER_S + time.tv_nsec() as u64)
}

impl TimeSource for SystemTime {
    fn wall_us(&self) -> u64 {
        clock_ns(ClockId::CLOCK_REALTIME) / 1000
    }

    fn monotonic_ns(&self) -> u64 {
        clock_ns(ClockId::CLOCK_MONOTONIC)
    }

    fn thread_cpu_ns(&self) -> u64 {
        clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
    }
}

/// The course of the server's time from one moment on.
#[derive(Clone, Copy, Debug)]
struct Course {
    /// Start of the course, by the monotonic clock and by the server's time.
    from_us: u64,
    unix_us: u64,
    /// Microseconds that it loses from then on, 500 ppm at a time.
    slewed_us: u64,
    /// Milliseconds that it stays ahead of the wall clock.
    ahead_ms: u64,
}

impl Course {
    fn lost_us(&self, monotonic_us: u64) -> u64 {
        let elapsed_us = monotonic_us.saturating_sub(self.from_us);
        self.slewed_us.min(elapsed_us / SLEW_US_PER_US)
    }

    fn unix_us(&self, monotonic_us: u64) -> u64 {
        let elapsed_us = monotonic_us.saturating_sub(self.from_us);
        self.unix_us + elapsed_us - self.lost_us(monotonic_us)
    }

    /// The course from a moment on at which the wall clock shows `wall_us`; none when it is as
    /// expected.
    fn after_look(&self, monotonic_us: u64, wall_us: u64) -> Option<Course> {
        let unix_us = self.unix_us(monotonic_us);
        let to_slew_us = self.slewed_us - self.lost_us(monotonic_us);
        let expected_us = unix_us.saturating_sub(to_slew_us + self.ahead_ms * 1000);
        let step_us = wall_us as i64 - expected_us as i64;
        if step_us.abs() < DIFFERENCE_US_MIN {
            return None;
        }
        let by_us = step_us.unsigned_abs();
        let mut next = Course { from_us: monotonic_us, unix_us, slewed_us: to_slew_us, ..*self };
        if step_us < 0 && to_slew_us + by_us <= SLEWED_US_MAX {
            next.slewed_us += by_us;
        } else if step_us < 0 {
            next.ahead_ms += by_us / 1000;
        } else {
            let slewed_us = by_us.min(to_slew_us);
            let ahead_ms = ((by_us - slewed_us) / 1000).min(self.ahead_ms);
            next.slewed_us -= slewed_us;
            next.ahead_ms -= ahead_ms;
            let is_ahead = next.ahead_ms > 0;
            next.unix_us += if is_ahead { 0 } else { by_us - slewed_us - ahead_ms * 1000 };
        }
        Some(next)
    }
}

/// A [`Course`] that one thread writes and all read.
#[derive(Debug, Default)]
struct CourseCell {
    from_us: AtomicU64,
    unix_us: AtomicU64,
    slewed_us: AtomicU64,
    ahead_ms: AtomicU64,
}

impl CourseCell {
    // Relaxed, both: `AnchoredClock::version` orders them.
    fn load(&self) -> Course {
        Course {
            from_us: self.from_us.load(Ordering::Relaxed),
            unix_us: self.unix_us.load(Ordering::Relaxed),
            slewed_us: self.slewed_us.load(Ordering::Relaxed),
            ahead_ms: self.ahead_ms.load(Ordering::Relaxed),
        }
    }

    fn store(&self, course: Course) {
        self.from_us.store(course.from_us, Ordering::Relaxed);
        self.unix_us.store(course.unix_us, Ordering::Relaxed);
        self.slewed_us.store(course.slewed_us, Ordering::Relaxed);
        self.ahead_ms.store(course.ahead_ms, Ordering::Relaxed);
    }
}

/// The server's clock.
#[derive(Debug)]
pub(crate) struct AnchoredClock<S> {
    source: S,
    /// Counts courses: the present one is in the cell of its parity, the other is written next.
    version: AtomicU64,
    courses: [CourseCell; 2],
    /// Time of the next look at the wall clock, by the monotonic clock.
    next_look_us: AtomicU64,
    looking: Mutex<()>,
}

/// The server's clock by the system's time.
pub(crate) type SystemClock = AnchoredClock<SystemTime>;

impl SystemClock {
    pub(crate) fn of_system() -> SystemClock {
        AnchoredClock::new(SystemTime)
    }
}

impl<S: TimeSource> AnchoredClock<S> {
    /// A clock that shows the source's wall clock now.
    fn new(source: S) -> AnchoredClock<S> {
        let from_us = source.monotonic_ns() / 1000;
        let course = Course { from_us, unix_us: source.wall_us(), slewed_us: 0, ahead_ms: 0 };
        let courses = [CourseCell::default(), CourseCell::default()];
        courses[0].store(course);
        AnchoredClock {
            source,
            version: AtomicU64::new(0),
            courses,
            next_look_us: AtomicU64::new(from_us + LOOK_US),
            looking: Mutex::default(),
        }
    }

    /// The present course. A reader repeats itself only when another course began meanwhile, of
    /// which there are ten a second at most; a writer that stops in the middle of writing delays no
    /// reader.
    fn course(&self) -> Course {
        loop {
            // Acquire: pairs with the Release store in `look`; the cell's content is there.
            let version = self.version.load(Ordering::Acquire);
            let course = self.courses[(version % 2) as usize].load();
            // Acquire: pairs with the Release fence in `look`. A thread that has read what is
            // written for the version after the next sees that the next has begun.
            fence(Ordering::Acquire);
            if self.version.load(Ordering::Relaxed) == version {
                return course;
            }
            std::hint::spin_loop();
        }
    }

    /// Looks at the wall clock, unless another thread does so at this moment.
    #[cold]
    fn look(&self) {
        let Ok(_looking) = self.looking.try_lock() else { return };
        let before_us = self.source.monotonic_ns() / 1000;
        // Relaxed, also below: only this thread writes, others look a moment earlier or later.
        if before_us < self.next_look_us.load(Ordering::Relaxed) {
            return;
        }
        let wall_us = self.source.wall_us();
        let after_us = self.source.monotonic_ns() / 1000;
        if after_us - before_us > READING_US_MAX {
            return;
        }
        self.next_look_us.store(after_us + LOOK_US, Ordering::Relaxed);
        let Some(next) = self.course().after_look(before_us, wall_us) else { return };
        // Relaxed: only who has the mutex writes.
        let version = self.version.load(Ordering::Relaxed) + 1;
        // Release: pairs with the Acquire fence in `course`.
        fence(Ordering::Release);
        self.courses[(version % 2) as usize].store(next);
        // Release: pairs with the Acquire in `course`.
        self.version.store(version, Ordering::Release);
    }
}

impl<S: TimeSource> Clock for AnchoredClock<S> {
    fn thread_cpu_ns(&self) -> u64 {
        self.source.thread_cpu_ns()
    }

    fn unix_us(&self) -> u64 {
        self.unix_us_at(self.source.monotonic_ns())
    }

    fn unix_us_at(&self, monotonic_ns: u64) -> u64 {
        let monotonic_us = monotonic_ns / 1000;
        // Relaxed: a thread that sees an old time looks in vain.
        if monotonic_us >= self.next_look_us.load(Ordering::Relaxed) {
            self.look();
        }
        self.course().unix_us(monotonic_us)
    }

    fn ahead_ms(&self) -> u64 {
        self.course().ahead_ms
    }

    fn monotonic_us(&self) -> u64 {
        self.monotonic_ns() / 1000
    }

    fn monotonic_ns(&self) -> u64 {
        self.source.monotonic_ns()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    use super::*;

    const START_US: u64 = 1_700_000_000_000_000;
    const S: u64 = 1_000_000;
    const HOUR: u64 = 3600 * S;

    /// Time that passes when told to, and a wall clock that is set.
    #[derive(Clone, Debug, Default)]
    struct FakeTime(Arc<(AtomicU64, AtomicI64)>);

    impl FakeTime {
        fn set_by(&self, by_us: i64) {
            self.0.1.fetch_add(by_us, Ordering::SeqCst);
        }
    }

    impl TimeSource for FakeTime {
        fn wall_us(&self) -> u64 {
            let passed_us = self.0.0.load(Ordering::SeqCst);
            (START_US + passed_us).saturating_add_signed(self.0.1.load(Ordering::SeqCst))
        }

        fn thread_cpu_ns(&self) -> u64 {
            self.monotonic_ns()
        }

        fn monotonic_ns(&self) -> u64 {
            (7 * HOUR + self.0.0.load(Ordering::SeqCst)) * 1000
        }
    }

    struct Tested {
        time: FakeTime,
        clock: AnchoredClock<FakeTime>,
        last_us: u64,
    }

    impl Tested {
        fn new() -> Tested {
            let time = FakeTime::default();
            let clock = AnchoredClock::new(time.clone());
            Tested { time, clock, last_us: START_US }
        }

        /// Lets time pass in steps of a tick; the clock never goes back, and never runs slower than
        /// by 500 ppm.
        fn pass(&mut self, us: u64) -> u64 {
            let mut left_us = us;
            while left_us > 0 {
                let step_us = left_us.min(LOOK_US);
                self.time.0.0.fetch_add(step_us, Ordering::SeqCst);
                left_us -= step_us;
                let now_us = self.clock.unix_us();
                let least_us = step_us - step_us.div_ceil(SLEW_US_PER_US) - 1;
                assert!(now_us >= self.last_us + least_us, "{} behind {}", now_us, self.last_us);
                self.last_us = now_us;
            }
            self.last_us
        }

        fn wall_us(&self) -> u64 {
            self.clock.wall_us()
        }
    }

    #[test]
    fn the_clock_shows_unix_time() {
        let mut tested = Tested::new();
        assert_eq!(tested.clock.unix_us(), START_US);
        assert_eq!(tested.pass(HOUR), START_US + HOUR);
        assert_eq!(tested.clock.ahead_ms(), 0);
    }

    #[test]
    fn a_step_forward_is_followed_at_once() {
        let mut tested = Tested::new();
        tested.time.set_by(HOUR as i64);
        assert_eq!(tested.pass(LOOK_US), START_US + HOUR + LOOK_US);
        assert_eq!(tested.clock.ahead_ms(), 0);
    }

    #[test]
    fn a_short_step_back_is_slewed() {
        let mut tested = Tested::new();
        tested.time.set_by(-(S as i64) / 2);
        let passed_us = 100 * S;
        let lost_us = START_US + passed_us - tested.pass(passed_us);
        assert!(lost_us.abs_diff(passed_us / SLEW_US_PER_US) <= LOOK_US, "{lost_us}");
        tested.pass(1000 * S);
        assert_eq!(tested.last_us, tested.time.wall_us());
        assert_eq!(tested.clock.ahead_ms(), 0);
    }

    #[test]
    fn a_long_step_back_moves_the_wall_clock_only() {
        let mut tested = Tested::new();
        tested.pass(10 * S);
        tested.time.set_by(-(HOUR as i64));
        assert_eq!(tested.pass(60 * S), START_US + 70 * S);
        assert_eq!(tested.clock.ahead_ms(), HOUR / 1000);
        assert_eq!(tested.wall_us(), tested.time.wall_us());
        assert_eq!(tested.pass(HOUR), START_US + 70 * S + HOUR, "it is not slewed");
    }

    #[test]
    fn a_step_forward_takes_earlier_steps_back_off_first() {
        let mut tested = Tested::new();
        tested.time.set_by(-(HOUR as i64));
        tested.pass(S);
        tested.time.set_by(HOUR as i64 / 2);
        assert_eq!(tested.pass(S), START_US + 2 * S);
        assert_eq!(tested.clock.ahead_ms(), HOUR / 2000);
        tested.time.set_by(HOUR as i64);
        assert_eq!(tested.pass(S), START_US + 3 * S + HOUR / 2);
        assert_eq!((tested.clock.ahead_ms(), tested.wall_us()), (0, tested.time.wall_us()));
    }

    #[test]
    fn steps_of_any_kind_leave_the_clock_monotonic_and_the_wall_clock_right() {
        let mut tested = Tested::new();
        let mut random = 12_345_u64;
        for _ in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let size_us = 1 << (random >> 59);
            let by_us = ((random >> 20) % size_us) as i64;
            tested.time.set_by(if random & (1 << 40) == 0 { by_us } else { -by_us });
            tested.pass(1 + (random >> 30) % (2 * S));
        }
        tested.pass(2 * LOOK_US);
        let apart_us = tested.wall_us().abs_diff(tested.time.wall_us());
        assert!(apart_us <= SLEWED_US_MAX + DIFFERENCE_US_MIN as u64, "{apart_us}");
        tested.pass(SLEWED_US_MAX * (SLEW_US_PER_US + 1));
        let apart_us = tested.wall_us().abs_diff(tested.time.wall_us());
        assert!(apart_us <= DIFFERENCE_US_MIN as u64, "{apart_us}");
    }

    #[test]
    fn readers_beside_steps_see_no_torn_course() {
        let tested = Arc::new(Tested::new());
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let tested = Arc::clone(&tested);
                std::thread::spawn(move || {
                    let mut last_us = 0;
                    for _ in 0..20_000 {
                        let now_us = tested.clock.unix_us();
                        assert!(now_us >= last_us, "{now_us} behind {last_us}");
                        assert!(now_us < START_US + 2 * HOUR, "{now_us}");
                        last_us = now_us;
                    }
                })
            })
            .collect();
        // Every course has other numbers than the one before.
        for index in 0..20_000_i64 {
            tested.time.set_by(if index % 2 == 0 { -(HOUR as i64) } else { HOUR as i64 });
            tested.time.0.0.fetch_add(LOOK_US, Ordering::SeqCst);
            tested.clock.unix_us();
        }
        readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
    }
}
