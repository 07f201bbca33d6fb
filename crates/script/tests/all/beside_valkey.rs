//! The same scripts in Valkey and here.

use crate::callbacks;
use crate::constructors;
use crate::harness::{Peer, Store, interpreter, run, shown};
use crate::language::Pieces;
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

/// Compares sources, one after the other.
fn compare_all(sources: impl IntoIterator<Item = impl AsRef<str>>) {
    let Some(mut valkey) = Peer::start() else { return };
    let mut differences = Vec::new();
    for source in sources {
        valkey.flush();
        differences.extend(difference(&mut valkey, source.as_ref()));
    }
    let count = differences.len();
    assert!(count == 0, "{count} differences:\n{}", differences.join("\n"));
}

#[test]
fn scripts_of_the_corpus_answer_as_in_valkey() {
    compare_all(scripts());
}

#[test]
fn constructors_answer_as_in_valkey() {
    compare_all(constructors::sources());
}

#[test]
fn callbacks_answer_as_in_valkey() {
    // Loops call in a way in which Lua 5.1 cannot yield; here they can. `load` reads its source to
    // the end, and its errors have no place. `pcall` as its own `__call` ends at another depth.
    let differs = ["load(", "in function(...) coroutine.yield", "__call=pcall"];
    let is_alike = |source: &String| !differs.iter().any(|part| source.contains(part));
    compare_all(callbacks::sources().into_iter().filter(is_alike));
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Compares what random sources give, until ten of them differ.
fn compare(count: u64, mut differs: impl FnMut(u64) -> Option<String>) {
    let (seed, count) = (from_environment("SEED", 1), from_environment("PROGRAMS", count));
    println!("seed {seed}, {count} programs");
    let mut differences = Vec::new();
    for index in 0..count {
        if let Some(difference) = differs(seed.wrapping_add(index)) {
            differences.push(format!("SEED={} PROGRAMS=1: {difference}", seed + index));
        }
        if differences.len() >= 10 {
            break;
        }
    }
    let count = differences.len();
    assert!(count == 0, "{count} differences:\n{}", differences.join("\n"));
}

#[test]
fn random_programs_answer_as_in_valkey() {
    let Some(mut valkey) = Peer::start() else { return };
    compare(1_500, |seed| difference(&mut valkey, &Programs::new(seed).program()));
}

#[test]
fn pieces_of_the_language_answer_as_in_valkey() {
    let Some(mut valkey) = Peer::start() else { return };
    compare(5_000, |seed| difference(&mut valkey, &Pieces::new(seed).program()));
}

#[test]
fn broken_sources_are_refused_as_in_valkey() {
    let Some(mut valkey) = Peer::start() else { return };
    compare(5_000, |seed| {
        let source = Pieces::new(seed).broken();
        let theirs = valkey.compile_error(source.as_bytes());
        let mut interpreter = interpreter();
        let ours = match interpreter.compile(source.as_bytes()) {
            Ok(_) => String::new(),
            Err(text) => {
                let text = String::from_utf8_lossy(&text).replace(['\r', '\n'], " ");
                format!("ERR Error compiling script (new function): {text}")
            }
        };
        (ours != theirs).then(|| format!("{source}\n  valkey: {theirs}\n  ours:   {ours}\n"))
    });
}
