//! Surroundings of an engine that do nothing: a clock that is stopped until it is moved, a host
//! without a process, a notifier that wakes nobody.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidemill_engine::clock::Clock;
use tidemill_engine::shared::{AllocatorMemory, Host};
use tidemill_engine::slots::mailbox::Notify;

/// Clock that shows the same time until it is moved. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct StoppedClock {
    unix_us: Arc<AtomicU64>,
    ahead_ms: Arc<AtomicU64>,
    cpu_us: Arc<AtomicU64>,
    /// No thread runs while the clock is moved on.
    is_preempted: Arc<AtomicBool>,
}

impl StoppedClock {
    /// Clock that shows a Unix time in microseconds.
    #[must_use]
    pub fn new(unix_us: u64) -> Self {
        Self {
            unix_us: Arc::new(AtomicU64::new(unix_us)),
            ahead_ms: Arc::default(),
            cpu_us: Arc::default(),
            is_preempted: Arc::default(),
        }
    }

    /// Unix time in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.unix_us() / 1000
    }

    /// Moves the clock on by microseconds.
    pub fn advance_us(&self, by_us: u64) {
        self.unix_us.fetch_add(by_us, Ordering::SeqCst);
        if !self.is_preempted.load(Ordering::SeqCst) {
            self.cpu_us.fetch_add(by_us, Ordering::SeqCst);
        }
    }

    /// Lets threads not run from now on while the clock is moved on, or run again.
    pub fn set_preempted(&self, is_preempted: bool) {
        self.is_preempted.store(is_preempted, Ordering::SeqCst);
    }

    /// Moves the clock on by milliseconds.
    pub fn advance_ms(&self, by_ms: u64) {
        self.advance_us(by_ms * 1000);
    }

    /// Sets the wall clock back by milliseconds; the server's time stays.
    pub fn set_back_ms(&self, by_ms: u64) {
        self.ahead_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for StoppedClock {
    fn unix_us(&self) -> u64 {
        self.unix_us.load(Ordering::SeqCst)
    }

    fn ahead_ms(&self) -> u64 {
        self.ahead_ms.load(Ordering::SeqCst)
    }

    fn monotonic_us(&self) -> u64 {
        self.unix_us()
    }

    fn thread_cpu_ns(&self) -> u64 {
        self.cpu_us.load(Ordering::SeqCst) * 1000
    }
}

/// Notifier of a worker that does not sleep.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentNotifier;

impl Notify for SilentNotifier {
    fn notify(&self) {}
}

/// Host without a process around the engine. Two of its calls can take time. It keeps what is
/// logged; clones keep it together.
#[derive(Clone, Debug, Default)]
pub struct SilentHost {
    call_times: Option<CallTimes>,
    lines: Arc<Mutex<Vec<(u8, String)>>>,
    lacks_memory: Arc<AtomicBool>,
    tries_room: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
struct CallTimes {
    clock: StoppedClock,
    report_us: u64,
    purge_us: u64,
}

impl SilentHost {
    /// Host that moves a clock on by `report_us` for `MEMORY MALLOC-STATS` and by `purge_us` for
    /// `MEMORY PURGE`.
    #[must_use]
    pub fn with_call_times(clock: StoppedClock, report_us: u64, purge_us: u64) -> Self {
        let call_times = Some(CallTimes { clock, report_us, purge_us });
        Self { call_times, ..Self::default() }
    }

    /// Has no memory to keep back from now on, or has it again.
    pub fn set_lacks_memory(&self, lacks_memory: bool) {
        self.lacks_memory.store(lacks_memory, Ordering::SeqCst);
    }

    /// Finds out about room by an allocation from now on; before, there was always some.
    pub fn try_room(&self) {
        self.tries_room.store(true, Ordering::SeqCst);
    }

    /// Levels and lines that were logged since the last call.
    ///
    /// # Panics
    ///
    /// When a thread panicked while it logged.
    #[must_use]
    pub fn take_lines(&self) -> Vec<(u8, String)> {
        std::mem::take(&mut self.lines.lock().expect("no thread panicked"))
    }
}

impl Host for SilentHost {
    fn shut_down(&self, _requested_by: &str) {}

    fn log(&self, level: u8, message: &[u8]) {
        let line = String::from_utf8_lossy(message).into_owned();
        self.lines.lock().expect("no thread panicked").push((level, line));
    }

    fn rewrite_configuration(&self, _: &dyn Fn(&[u8]) -> Vec<u8>) -> Result<(), String> {
        Ok(())
    }

    fn allocator(&self) -> AllocatorMemory {
        AllocatorMemory::default()
    }

    fn allocator_report(&self) -> String {
        let Some(times) = &self.call_times else { return String::new() };
        times.clock.advance_us(times.report_us);
        "report".into()
    }

    fn has_room(&self, bytes: usize) -> bool {
        let mut block = Vec::<u8>::new();
        let is_there =
            !self.tries_room.load(Ordering::SeqCst) || block.try_reserve_exact(bytes).is_ok();
        // Without this the compiler may leave the allocation out, and take it for successful.
        std::hint::black_box(&block);
        is_there && self.keep_reserve()
    }

    fn keep_reserve(&self) -> bool {
        !self.lacks_memory.load(Ordering::SeqCst)
    }

    fn purge_memory(&self) {
        if let Some(times) = &self.call_times {
            times.clock.advance_us(times.purge_us);
        }
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
