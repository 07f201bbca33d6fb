//! Hardware counters of threads: instructions, cycles, cache misses.
//!
//! Nothing is counted if the kernel has no counters (most virtual machines) or refuses them, and
//! the reports are silent. Counters are opened before a measurement and read after it; in between
//! they cost nothing but their place in a context switch.

use std::io;
use std::ops::AddAssign;

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter, ReadFormat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Counts of threads between the beginning of a `Watch` and its reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HardwareUsage {
    /// Instructions retired.
    pub instructions: u64,
    /// Cycles of the CPU, at whatever frequency it ran.
    pub cycles: u64,
    /// Misses of the last level of cache, as the CPU defines them.
    pub cache_misses: u64,
    /// Only user mode was counted, because the kernel allows no more (`perf_event_paranoid`).
    pub user_only: bool,
}

impl AddAssign for HardwareUsage {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.cycles += other.cycles;
        self.cache_misses += other.cache_misses;
        self.user_only |= other.user_only;
    }
}

impl HardwareUsage {
    /// The sum; `None` when one of them is unknown or there are none.
    pub fn sum(all: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        let add = |mut sum: Self, one: Self| {
            sum += one;
            sum
        };
        all.into_iter().try_fold(None, |sum: Option<Self>, one| {
            let one = one?;
            Some(Some(sum.map_or(one, |sum| add(sum, one))))
        })?
    }
}

const EVENTS: [Hardware; 3] =
    [Hardware::INSTRUCTIONS, Hardware::CPU_CYCLES, Hardware::CACHE_MISSES];

/// Counters that run.
#[derive(Debug)]
pub struct Watch {
    threads: Vec<[Counter; 3]>,
    user_only: bool,
}

impl Watch {
    /// Counts for the calling thread from now on; `None` where that is not possible.
    pub fn of_this_thread() -> Option<Self> {
        // 0 is the calling thread.
        Self::of_threads(&[0], EVENTS)
    }

    /// Counts for the threads that the process has now; `None` where that is not possible.
    pub fn of_process(pid: u32) -> Option<Self> {
        Self::of_threads(&threads_of(pid)?, EVENTS)
    }

    fn of_threads<E: Event + Copy>(threads: &[i32], events: [E; 3]) -> Option<Self> {
        [false, true].into_iter().find_map(|user_only| {
            let mut watch = Self { threads: Vec::new(), user_only };
            for &thread in threads {
                match open(thread, events, user_only) {
                    Ok(counters) => watch.threads.push(counters),
                    // It ended in the meantime.
                    Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
                    Err(_) => return None,
                }
            }
            (!watch.threads.is_empty()).then_some(watch)
        })
    }

    /// Counts so far; `None` when a counter never got its turn on the CPU.
    pub fn read(&mut self) -> Option<HardwareUsage> {
        let mut usage = HardwareUsage { user_only: self.user_only, ..HardwareUsage::default() };
        for [instructions, cycles, cache_misses] in &mut self.threads {
            usage.instructions += whole(instructions)?;
            usage.cycles += whole(cycles)?;
            usage.cache_misses += whole(cache_misses)?;
        }
        Some(usage)
    }
}

fn threads_of(pid: u32) -> Option<Vec<i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    Some(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

fn open<E: Event + Copy>(thread: i32, events: [E; 3], user_only: bool) -> io::Result<[Counter; 3]> {
    let one = |event: E| -> io::Result<Counter> {
        let mut counter = Builder::new(event)
            .observe_pid(thread)
            .any_cpu()
            .exclude_kernel(user_only)
            .read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING)
            .build()?;
        counter.enable()?;
        Ok(counter)
    };
    let [first, second, third] = events;
    Ok([one(first)?, one(second)?, one(third)?])
}

/// A count for the whole time, if the CPU had to share its counters among more events than it has.
fn whole(counter: &mut Counter) -> Option<u64> {
    let data = counter.read_full().ok()?;
    let (enabled, running) =
        (data.time_enabled()?.as_secs_f64(), data.time_running()?.as_secs_f64());
    if enabled == 0.0 {
        // The thread has not run.
        return Some(data.count());
    }
    (running > 0.0).then(|| (data.count() as f64 * (enabled / running)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;

    // Software events run the same way and exist in virtual machines too.
    const STAND_INS: [Software; 3] =
        [Software::TASK_CLOCK, Software::PAGE_FAULTS, Software::CONTEXT_SWITCHES];

    /// Counts of the calling thread while it touches 1,000 pages; `None` where nothing may be
    /// counted.
    fn touch(watch: impl Fn() -> Option<Watch>) -> Option<HardwareUsage> {
        let mut watch = watch()?;
        let mut memory = vec![0u8; 1_000 * 4_096];
        memory.iter_mut().step_by(4_096).for_each(|byte| *byte = 1);
        assert_eq!(std::hint::black_box(&memory)[4_096], 1);
        watch.read()
    }

    #[test]
    fn this_thread_and_all_threads_of_a_process_are_counted() {
        let Some(own) = touch(|| Watch::of_threads(&[0], STAND_INS)) else {
            println!("this kernel allows no counters");
            return;
        };
        assert!(own.instructions > 0 && own.cycles > 0, "{own:?}");
        let threads = threads_of(std::process::id()).unwrap();
        let all = touch(|| Watch::of_threads(&threads, STAND_INS)).unwrap();
        assert!(all.instructions > 0 && all.cycles > 0, "{all:?}");
        // A thread that is not there is left out, and a watch of none is none.
        assert!(Watch::of_threads(&[i32::MAX], STAND_INS).is_none());
        assert!(Watch::of_process(u32::MAX).is_none());
    }

    #[test]
    fn a_sum_with_an_unknown_part_is_unknown() {
        let one = HardwareUsage { instructions: 5, cycles: 7, cache_misses: 1, user_only: true };
        assert_eq!(
            HardwareUsage::sum([Some(one), Some(one)]).map(|sum| sum.instructions),
            Some(10)
        );
        assert_eq!(HardwareUsage::sum([Some(one), None]), None);
        assert_eq!(HardwareUsage::sum([]), None);
    }
}
