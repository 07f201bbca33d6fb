//! The fuzz targets' checks on the stable toolchain: the corpus, then mutations of it.
//!
//! `FUZZ_SECONDS` makes it run that long instead of a fixed number of rounds (`make fuzz-rdb`);
//! `SEED` repeats a run. Every input has a budget of memory: a claim in the input that is believed
//! ends the process. It is a process of its own, because the allocator's limit and the panic hook
//! would hold for every other test in it.

#[path = "../fuzz/checks.rs"]
mod checks;
#[path = "../fuzz/collected.rs"]
mod collected;

use std::alloc::System;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

type Check = fn(&[u8]);

/// Mutations per target in a usual run.
const ROUND_COUNT: usize = 100_000;

/// Longest mutated input, in bytes.
const INPUT_BYTES_MAX: usize = 4096;

/// Memory a check may take beyond what there is: for each byte of input, and in any case. A byte
/// of a compressed string becomes 88, which the checks keep several times over; the table of the
/// compressor takes 256 KiB. A believed claim is a million times more.
const BUDGET_PER_BYTE: usize = 4096;
const BUDGET_BYTES: usize = 512 * 1024;

// One test, because the memory limit is the process's.
#[test]
fn any_bytes_keep_the_promises() {
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    eprintln!("SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // A backtrace takes more memory than any check.
        ALLOCATOR.set_limit(usize::MAX).expect("above what is allocated");
        print(panic);
    }));
    let targets: [(&str, Check); 2] = [("payloads", checks::payloads), ("files", checks::files)];
    for (name, check) in targets {
        let corpus = corpus(name);
        assert!(corpus.len() >= 10, "the corpus of {name} is missing");
        for (path, input) in &corpus {
            eprintln!("{}", path.display());
            within_budget(check, input);
        }
        let deadline = fuzz_duration().map(|duration| Instant::now() + duration);
        let mut round = 0;
        while deadline.map_or(round < ROUND_COUNT, |deadline| Instant::now() < deadline) {
            let input = mutate(&corpus, &mut random);
            if let Err(cause) = std::panic::catch_unwind(|| within_budget(check, &input)) {
                eprintln!("{name} round {round}: {}", input.escape_ascii());
                std::panic::resume_unwind(cause);
            }
            round += 1;
        }
        eprintln!("{name}: {} files, {round} mutations", corpus.len());
    }
}

fn within_budget(check: Check, input: &[u8]) {
    let budget = BUDGET_BYTES + input.len() * BUDGET_PER_BYTE;
    ALLOCATOR.set_limit(ALLOCATOR.allocated() + budget).expect("above what is allocated");
    check(input);
    ALLOCATOR.set_limit(usize::MAX).expect("above what is allocated");
}

fn fuzz_duration() -> Option<Duration> {
    let seconds = std::env::var("FUZZ_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("FUZZ_SECONDS is a number")))
}

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&directory).expect("the corpus is in the repository");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}

/// A piece of one file spliced with a piece of another, and some bytes changed, doubled, dropped or
/// replaced by what decoders trip over.
fn mutate(corpus: &[(PathBuf, Vec<u8>)], random: &mut fastrand::Rng) -> Vec<u8> {
    const TRIPS: [&[u8]; 14] = [
        b"\x80\xff\xff\xff\xff",
        b"\x81\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"\xc3\x05\x80\x7f\xff\xff\xff",
        b"\xc3\x40\x40\x41\x40",
        b"\xc0\x80",
        b"\xff",
        b"\x00",
        b"\xfe\xff\xff\xff\xff",
        b"\xf0\xff\xff\xff\xff",
        b"\xf4\xff\xff\xff\xff\xff\xff\xff\xff\x09",
        b"\xfc\x01\x02\x03\x04\x05\x06\x07\x08",
        b"\x0c\x00",
        b"\x50\x00",
    ];
    let pick = |random: &mut fastrand::Rng| corpus[random.usize(0..corpus.len())].1.clone();
    let mut input = pick(random);
    if random.u32(0..4) == 0 {
        let other = pick(random);
        input.truncate(random.usize(0..=input.len()));
        input.extend_from_slice(&other[random.usize(0..=other.len())..]);
    }
    for _ in 0..random.usize(0..4) {
        let at = random.usize(0..=input.len());
        match random.u32(0..5) {
            0 => drop(input.splice(at..at, TRIPS[random.usize(0..TRIPS.len())].iter().copied())),
            1 | 2 if at < input.len() => input[at] = random.u8(..),
            3 if at < input.len() => drop(input.remove(at)),
            _ => {
                let end = random.usize(at..=input.len());
                input.extend_from_within(at..end);
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}
