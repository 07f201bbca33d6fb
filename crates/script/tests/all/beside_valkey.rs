//! The same scripts in Valkey and here.

use crate::harness::{Peer, Store, interpreter, run, shown};
use crate::programs::Programs;
use crate::scripts::scripts;

/// Compares one source; the answer tells where they differ.
fn difference(valkey: &mut Peer, source: &str) -> Option<String> {
    let source = source.as_bytes();
    let arguments: [&[u8]; 3] = [b"10", b"abc", b""];
    let theirs = valkey.eval(source, &[b"key1", b"key2"], &arguments);
    let mut host = Store::default();
    let result = run(&mut interpreter(), &mut host, source, &[b"key1", b"key2"], &arguments);
    let ours = shown(&result);
    // Addresses differ.
    let hides = |text: &str| text.contains("0x");
    if ours == theirs || hides(&ours) && hides(&theirs) {
        return None;
    }
    let source = String::from_utf8_lossy(source);
    Some(format!("{source}\n  valkey: {theirs}\n  ours:   {ours}\n"))
}

#[test]
fn scripts_of_the_corpus_answer_as_in_valkey() {
    let Some(mut valkey) = Peer::start() else { return };
    let mut differences = Vec::new();
    for source in scripts() {
        valkey.flush();
        differences.extend(difference(&mut valkey, source));
    }
    let count = differences.len();
    assert!(count == 0, "{count} differences:\n{}", differences.join("\n"));
}

#[test]
fn random_programs_answer_as_in_valkey() {
    let Some(mut valkey) = Peer::start() else { return };
    let from = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (seed, count) = (from("SEED", 1), from("PROGRAMS", 1_500));
    println!("seed {seed}, {count} programs");
    let mut differences = Vec::new();
    for index in 0..count {
        let source = Programs::new(seed.wrapping_add(index)).program();
        if let Some(difference) = difference(&mut valkey, &source) {
            differences.push(format!("SEED={} PROGRAMS=1: {difference}", seed + index));
        }
        if differences.len() >= 10 {
            break;
        }
    }
    let count = differences.len();
    assert!(count == 0, "{count} differences:\n{}", differences.join("\n"));
}
