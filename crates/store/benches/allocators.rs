//! Comparison of allocators: memory and time under a load of mixed sizes whose pieces are freed by
//! other threads than made them.
//!
//! `make bench-allocators MINUTES=60`, or `cargo bench -p tidemill-store --bench allocators --
//! [minutes]` (5). Each run is a process of its own; the allocators take turns in each of the
//! rounds. Ends with failure when another allocator beats the binary's in both memory and time.
//!
//! A run has one thread for each core and 200,000 places. A step replaces the piece in a place at
//! random, so that half of all frees (with two threads) are of another thread's pieces. Sizes are
//! those of entries, tree nodes, tables and long strings; their mixture moves to larger pieces and
//! back three times, since a load that never changes fragments nothing.
#![allow(unsafe_code)]
// A bench that cannot go on stops.
#![allow(clippy::unwrap_used)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CStr;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const NAMES: [&str; 3] = ["jemalloc", "mimalloc", "system"];
/// Names of the allocators in the binary.
const CHOSEN: usize = 0;
const ROUND_COUNT: usize = 3;
const PLACE_COUNT: usize = 200_000;
const STEPS_PER_LOOK: usize = 256;
/// Number of times that the mixture of sizes comes and goes during a run.
const WAVE_COUNT: f64 = 3.0;

/// Names the allocator of a run: its index in [`NAMES`].
const VARIABLE: &CStr = c"TIDEMILL_BENCH_ALLOCATOR";

/// Passes calls on to the allocator that the environment names: one branch, the same for all of
/// them.
struct Switch;

const UNKNOWN: u8 = u8::MAX;
static SELECTED: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The allocator of this process. It is chosen at the first allocation, since each piece must go
/// back where it came from.
#[inline]
fn selected() -> u8 {
    // Relaxed: a thread that finds it unknown reads the same from the environment, which does not
    // change.
    let selected = SELECTED.load(Ordering::Relaxed);
    if selected == UNKNOWN { select() } else { selected }
}

#[cold]
fn select() -> u8 {
    // SAFETY: the name ends in a zero, and no thread changes the environment.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    let digit = if value.is_null() {
        b'0'
    } else {
        // SAFETY: a variable's value ends in a zero, so it has a first byte.
        unsafe { value.cast::<u8>().read() }
    };
    let selected = digit.wrapping_sub(b'0');
    SELECTED.store(selected, Ordering::Relaxed);
    selected
}

macro_rules! selected {
    ($allocator:ident => $call:expr) => {
        match selected() {
            0 => {
                let $allocator = tikv_jemallocator::Jemalloc;
                $call
            }
            1 => {
                let $allocator = mimalloc::MiMalloc;
                $call
            }
            _ => {
                let $allocator = System;
                $call
            }
        }
    };
}

// SAFETY: every call of a process goes to the same one of three sound allocators.
unsafe impl GlobalAlloc for Switch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        selected!(allocator => unsafe { allocator.alloc(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        selected!(allocator => unsafe { allocator.dealloc(pointer, layout) });
    }
}

#[global_allocator]
static ALLOCATOR: Switch = Switch;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|text| text != "--bench").collect();
    if arguments.first().is_some_and(|first| first == "--run") {
        run(arguments[1].parse().unwrap());
        return ExitCode::SUCCESS;
    }
    let minutes = arguments.first().map_or(5.0, |text| text.parse().unwrap());
    compare(minutes)
}

/// Bytes of a piece: mostly entries and nodes, some tables and short texts, few long strings.
fn size(random: u64, scale: f64) -> usize {
    let (low, high) = match random % 100 {
        0..60 => (64.0, 160.0),
        60..90 => (160.0, 1024.0),
        90..99 => (1024.0, 8192.0),
        _ => (8192.0, 131_072.0),
    };
    let share = (random >> 8) as f64 / (u64::MAX >> 8) as f64;
    (low * f64::powf(high / low, share) * scale) as usize
}

fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// One run; prints steps, CPU nanoseconds, live and resident bytes.
fn run(seconds: f64) {
    let before = common::resident_bytes();
    let places: Vec<Mutex<Vec<u8>>> = (0..PLACE_COUNT).map(|_| Mutex::default()).collect();
    let (steps, cpu_ns) = (AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
        for thread in 1..=threads as u64 {
            let (places, steps, cpu_ns) = (&places, &steps, &cpu_ns);
            scope.spawn(move || {
                let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread);
                let mut count = 0;
                loop {
                    let elapsed = start.elapsed().as_secs_f64() / seconds;
                    if elapsed >= 1.0 {
                        break;
                    }
                    // From 1 to 2 and back.
                    let wave = (elapsed * WAVE_COUNT * std::f64::consts::TAU).cos();
                    let scale = 1.5 - wave / 2.0;
                    for _ in 0..STEPS_PER_LOOK {
                        let piece = vec![1; size(next_random(&mut random), scale)];
                        let place =
                            &places[(next_random(&mut random) >> 20) as usize % PLACE_COUNT];
                        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
                        // Freed under the lock, as a table's owner retires under its slot's.
                        *place = piece;
                    }
                    count += STEPS_PER_LOOK as u64;
                }
                steps.fetch_add(count, Ordering::Relaxed);
                cpu_ns.fetch_add(common::cpu_ns(), Ordering::Relaxed);
            });
        }
    });
    // By then allocators have given back what they give back by themselves.
    std::thread::sleep(Duration::from_secs(1));
    let resident = common::resident_bytes() - before;
    let live: usize = places.iter().map(|place| place.lock().unwrap().len()).sum();
    println!("{} {} {live} {resident}", steps.into_inner(), cpu_ns.into_inner());
}

/// Result of one run.
#[derive(Clone, Copy)]
struct Figures {
    ns_per_step: f64,
    resident_per_live: f64,
}

fn measure(allocator: usize, seconds: f64) -> Figures {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--run", &seconds.to_string()])
        .env(VARIABLE.to_str().unwrap(), allocator.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {output:?}", NAMES[allocator]);
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [steps, cpu_ns, live, resident] = numbers[..] else { panic!("{text}") };
    Figures { ns_per_step: cpu_ns / steps, resident_per_live: resident / live }
}

fn compare(minutes: f64) -> ExitCode {
    common::describe();
    let seconds = minutes * 60.0 / (ROUND_COUNT * NAMES.len()) as f64;
    let mut runs = [const { Vec::new() }; NAMES.len()];
    for round in 0..ROUND_COUNT {
        for turn in 0..NAMES.len() {
            let allocator = (round + turn) % NAMES.len();
            runs[allocator].push(measure(allocator, seconds));
        }
    }
    println!("medians of {ROUND_COUNT} runs of {seconds:.0} s each");
    println!("| allocator | CPU ns per step | resident / live bytes |");
    println!("|---|---|---|");
    let medians = runs.map(|runs| Figures {
        ns_per_step: median(&runs, |figures| figures.ns_per_step),
        resident_per_live: median(&runs, |figures| figures.resident_per_live),
    });
    for (name, figures) in NAMES.iter().zip(medians) {
        println!("| {name} | {:.0} | {:.3} |", figures.ns_per_step, figures.resident_per_live);
    }
    let chosen = medians[CHOSEN];
    let better = medians.iter().zip(NAMES).find(|(other, _)| {
        other.ns_per_step < chosen.ns_per_step && other.resident_per_live < chosen.resident_per_live
    });
    match better {
        Some((_, name)) => println!("verdict: MISSED, {name} beats {} in both", NAMES[CHOSEN]),
        None => println!("verdict: met, none beats {} in both", NAMES[CHOSEN]),
    }
    if better.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn median(runs: &[Figures], of: fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
