//! The one binary: picks the part and hands it the rest of the command line.

mod tune_ab;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use tidemill_server::cli::nearest;

/// The fewest resident bytes per key of those compared (ARCHITECTURE.md, "Dependencies of the binary").
#[global_allocator]
static ALLOCATOR: tidemill_server::allocator::Allocator = tidemill_server::allocator::Allocator;

/// The commit that this is built from, or `unknown`; from the build script.
const COMMIT: &str = env!("TIDEMILL_COMMIT");

const USAGE: &str = "\
Usage: tidemill <part> [options]

  server       a multi-core, Redis-compatible server
  tune         doctor and tuner for the host
  bench        load generator for any Redis-protocol server
  experiment   repeated, interleaved comparisons with a report

`tidemill <part> --help` explains a part. `tidemill --version` prints the version.
";

const PARTS: [&str; 5] = ["server", "tune", "bench", "experiment", "help"];

/// What is said of a word that is no part, with the part that may have been meant.
fn unknown_part(word: &str) -> String {
    const SHOWN_LETTERS_MAX: usize = 64;
    let visible = |letter: char| if letter.is_control() { '?' } else { letter };
    let shown: String = word.chars().take(SHOWN_LETTERS_MAX).map(visible).collect();
    let hint = if word.starts_with('-') {
        Some(format!("; options come after the part: tidemill server {shown}"))
    } else if word.contains(['/', '.']) {
        Some(format!("; a configuration file comes after the part: tidemill server {shown}"))
    } else {
        nearest(word, PARTS).map(|part| format!("; did you mean '{part}'?"))
    };
    format!("tidemill: unknown part '{shown}'{}", hint.unwrap_or_default())
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let mut part = args.next();
    let mut rest: Vec<OsString> = args.collect();
    if part.as_deref().is_some_and(|part| part == "help") && !rest.is_empty() {
        part = Some(rest.swap_remove(0));
        rest = vec![OsString::from("--help")];
    }
    let Some(part) = part else {
        let _ = io::stderr().write_all(USAGE.as_bytes());
        return ExitCode::from(2);
    };
    match part.to_string_lossy().as_ref() {
        "server" => tidemill_server::cli::run(rest, COMMIT),
        "tune" => tidemill_host::cli::run(rest, Some(&tune_ab::Bench)),
        "bench" => tidemill_bench::cli::run_bench(rest),
        "experiment" => tidemill_bench::cli::run_experiment(rest),
        "-h" | "--help" | "help" => {
            // A reader that is gone needs no usage, and no panic either.
            let _ = io::stdout().write_all(USAGE.as_bytes());
            ExitCode::SUCCESS
        }
        "-V" | "--version" | "version" => {
            let version = env!("CARGO_PKG_VERSION");
            let _ = writeln!(io::stdout(), "tidemill {version} commit {COMMIT}");
            ExitCode::SUCCESS
        }
        unknown => {
            let _ = write!(io::stderr(), "{}\n\n{USAGE}", unknown_part(unknown));
            ExitCode::from(2)
        }
    }
}
