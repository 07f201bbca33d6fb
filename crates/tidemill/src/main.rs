//! The one binary: picks the part and hands it the rest of the command line.

mod reference;
mod tune_ab;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use tidemill_server::cli::{nearest, print};

use reference::{EXAMPLES, PARTS};

/// The fewest resident bytes per key of those compared (docs/decisions/jemalloc.md).
#[global_allocator]
static ALLOCATOR: tidemill_server::allocator::Allocator = tidemill_server::allocator::Allocator;

/// The commit that this is built from, or `unknown`; from the build script.
const COMMIT: &str = env!("TIDEMILL_COMMIT");

const USAGE: &str = "\
Usage: tidemill PART [OPTIONS]

A Redis-protocol server for high loads, a tuner for its host and a load generator, in one program.

Parts:
  server       multi-core, Redis-compatible server
  tune         doctor and tuner for the host: explains, plans, applies, reverts
  bench        load generator for any Redis-protocol server
  experiment   repeated, interleaved comparisons with a report
  check-aof    checks and repairs an append-only file
  check-rdb    check of a snapshot
  completions  completion script for bash, zsh or fish
  help PART    help of a part; `tidemill PART --help` is the same

Options:
  -h, --help     print this
  -V, --version  print version and commit

";

const COMPLETIONS_USAGE: &str = "\
Usage: tidemill completions bash|zsh|fish

Prints a completion script; the Debian package installs all three.

Examples:
  source <(tidemill completions bash)
  tidemill completions zsh >\"${fpath[1]}/_tidemill\"
  tidemill completions fish >~/.config/fish/completions/tidemill.fish
";

/// `tidemill completions SHELL`.
fn completions(words: &[OsString]) -> ExitCode {
    let shell = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    if words.len() == 1 && matches!(&*shell, "-h" | "--help") {
        return print(COMPLETIONS_USAGE);
    }
    if let [_] = words
        && let Some(script) = reference::completions(&shell)
    {
        return print(&script);
    }
    let _ = io::stderr().write_all(COMPLETIONS_USAGE.as_bytes());
    ExitCode::from(2)
}

/// `tidemill man DIRECTORY`, for packages: not listed, since a user has the pages installed.
fn manual(words: &[OsString]) -> ExitCode {
    let [directory] = words else {
        let _ = writeln!(io::stderr(), "Usage: tidemill man DIRECTORY");
        return ExitCode::from(2);
    };
    match reference::write_manual(Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "tidemill man: {}: {error}", directory.display());
            ExitCode::from(1)
        }
    }
}

/// Message about a word that is no part, with the part that may have been meant.
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

/// Runs the part that is a program of Valkey's or Redis's, if this one was called by the name of
/// that program.
fn run_as_redis(name: &OsStr, args: &mut std::env::ArgsOs) -> Option<ExitCode> {
    let name = Path::new(name).file_name()?.to_str()?;
    let program = ["valkey-", "redis-"].iter().find_map(|project| name.strip_prefix(project))?;
    match program {
        "server" => Some(tidemill_server::cli::run_as_redis(args.collect(), COMMIT)),
        "check-aof" => Some(tidemill_server::check_aof::run(args.collect())),
        "check-rdb" => Some(tidemill_server::check_rdb::run(&args.collect::<Vec<_>>())),
        _ => None,
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    if let Some(status) = run_as_redis(&name, &mut args) {
        return status;
    }
    let mut part = args.next();
    let mut rest: Vec<OsString> = args.collect();
    if part.as_deref().is_some_and(|part| part == "help") && !rest.is_empty() {
        part = Some(rest.swap_remove(0));
        rest = vec![OsString::from("--help")];
    }
    let Some(part) = part else {
        let _ = write!(io::stderr(), "{USAGE}{EXAMPLES}");
        return ExitCode::from(2);
    };
    match part.to_string_lossy().as_ref() {
        "server" => tidemill_server::cli::run(rest, COMMIT),
        "tune" => tidemill_host::cli::run(rest, Some(&tune_ab::Bench)),
        "bench" => tidemill_bench::cli::run_bench(rest),
        "experiment" => tidemill_bench::cli::run_experiment(rest),
        "check-aof" => tidemill_server::check_aof::run(rest),
        "check-rdb" => tidemill_server::check_rdb::run(&rest),
        "completions" => completions(&rest),
        "man" => manual(&rest),
        "-h" | "--help" | "help" => print(format!("{USAGE}{EXAMPLES}")),
        "-V" | "--version" | "version" => {
            let version = env!("CARGO_PKG_VERSION");
            print(format!("tidemill {version} commit {COMMIT}\n"))
        }
        unknown => {
            let _ = write!(io::stderr(), "{}\n\n{USAGE}{EXAMPLES}", unknown_part(unknown));
            ExitCode::from(2)
        }
    }
}
