//! Random sources: mutated scripts of the corpus, random tokens and random programs. None may
//! panic, exceed the limit of memory or run on when it is killed.
//!
//! `FUZZ_SOURCES` sets their number, `SEED` the first seed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::harness::{Store, identity, run};
use crate::programs::Programs;
use crate::scripts::scripts;
use crate::tokens::TOKENS;
use tidemill_script::Interpreter;

fn source(seed: u64, corpus: &[&str]) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = match seed % 4 {
        0 => (0..random.usize(1..60)).map(|_| TOKENS[random.usize(..TOKENS.len())]).collect(),
        1 => Programs::new(seed).program(),
        _ => corpus[random.usize(..corpus.len())].to_owned(),
    }
    .into_bytes();
    if seed % 4 != 1 {
        for _ in 0..random.usize(0..6) {
            let at = random.usize(..=text.len());
            match random.usize(..4) {
                0 => {
                    let token = TOKENS[random.usize(..TOKENS.len())].bytes();
                    text.splice(at..at, token);
                }
                1 if at < text.len() => text[at] = random.u8(..),
                2 => {
                    let end = (at + random.usize(..8)).min(text.len());
                    text.drain(at..end);
                }
                _ => {
                    let other = corpus[random.usize(..corpus.len())].as_bytes();
                    let from = random.usize(..=other.len());
                    let to = (from + random.usize(..20)).min(other.len());
                    text.splice(at..at, other[from..to].iter().copied());
                }
            }
        }
    }
    text
}

#[test]
fn random_sources_end_within_their_limits() {
    let from = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (seed, count) = (from("SEED", 1), from("FUZZ_SOURCES", 20_000));
    println!("seed {seed}, {count} sources");
    let corpus: Vec<_> = scripts().collect();
    let limit = 8 << 20;
    let mut interpreter = Interpreter::for_scripts(&identity(), limit).expect("libraries fit");
    for index in seed..seed.wrapping_add(count) {
        let text = source(index, &corpus);
        let mut host =
            Store { interrupts_max: Some(20), suspend_every: Some(2), ..Store::default() };
        let arguments: [&[u8]; 2] = [b"1", b"x"];
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            run(&mut interpreter, &mut host, &text, &[b"k"], &arguments)
        }));
        let shown = String::from_utf8_lossy(&text);
        assert!(outcome.is_ok(), "SEED={index} FUZZ_SOURCES=1 panics:\n{shown}");
        let used = interpreter.used_bytes();
        assert!(used < 2 * limit, "SEED={index}: {used} bytes\n{shown}");
    }
}
