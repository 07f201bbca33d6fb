//! `tidemill tune` as a process of its own, without a harness: this program runs itself again as
//! `tidemill tune`, so its `main` must see the arguments first, and the child may be killed, traced
//! or become another program.
//!
//! `cargo test -p tidemill-host --test tune killed` runs one part.
#![allow(clippy::unwrap_used)] // helpers of tests; the lint knows only test functions

mod killed;
mod launched;
mod namespaced;

use std::process::ExitCode;

/// First argument of a child that is to be `tidemill tune`.
const CHILD: &str = "--as-tidemill-tune";

const PARTS: [(&str, fn()); 3] =
    [("killed", killed::all), ("launched", launched::all), ("namespaced", namespaced::all)];

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == CHILD) {
        return tidemill_host::cli::run(words[1..].to_vec(), None);
    }
    let texts = words.iter().filter_map(|word| word.to_str());
    // An option's value is no filter: `--test-threads 1`.
    let is_filter = |word: &&str| !word.starts_with('-') && word.parse::<usize>().is_err();
    let filters: Vec<&str> = texts.filter(is_filter).collect();
    let is_chosen =
        |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
    for (_, run) in PARTS.iter().filter(|(name, _)| is_chosen(name)) {
        run();
    }
    ExitCode::SUCCESS
}
