//! The one binary: picks the part and hands it the rest of the command line.

mod tune_ab;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

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

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let part = args.next();
    let rest: Vec<OsString> = args.collect();
    match part.as_deref().and_then(|part| part.to_str()) {
        Some("server") => tidemill_server::cli::run(rest, COMMIT),
        Some("tune") => tidemill_host::cli::run(rest, Some(&tune_ab::Bench)),
        Some("bench") => tidemill_bench::cli::run_bench(rest),
        Some("experiment") => tidemill_bench::cli::run_experiment(rest),
        Some("-h" | "--help" | "help") => {
            // A reader that is gone needs no usage, and no panic either.
            let _ = io::stdout().write_all(USAGE.as_bytes());
            ExitCode::SUCCESS
        }
        Some("-V" | "--version" | "version") => {
            let version = env!("CARGO_PKG_VERSION");
            let _ = writeln!(io::stdout(), "tidemill {version} commit {COMMIT}");
            ExitCode::SUCCESS
        }
        _ => {
            let _ = io::stderr().write_all(USAGE.as_bytes());
            ExitCode::from(2)
        }
    }
}
