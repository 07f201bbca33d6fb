//! `tidemill bench` and `tidemill experiment`: command lines.

mod ab;
mod bench;
mod experiment;
pub(crate) mod flags;
mod outputs;
pub(crate) mod settings;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory;
use tidemill_host::output::{note, print_text};

use crate::load::Stop;

pub use ab::{AbFlags, judge_change};

const EXIT_TROUBLE: u8 = 1;
const EXIT_USAGE: u8 = 2;
const EXIT_UNREACHABLE: u8 = 3;
/// `experiment ab`: the change was not proven better.
const EXIT_REVERTED: u8 = 4;
const EXIT_INTERRUPTED: u8 = 130;

/// The flags of `tidemill bench`, for completions and the manual.
#[must_use]
pub fn bench_command() -> clap::Command {
    flags::Flags::command()
}

/// The flags of `tidemill experiment`, for completions and the manual.
#[must_use]
pub fn experiment_command() -> clap::Command {
    experiment::Flags::command()
}

/// Runs `tidemill bench` with the arguments that follow the subcommand. Blocks until the run ends.
pub fn run_bench(args: Vec<OsString>) -> ExitCode {
    bench::main(args)
}

/// Runs `tidemill experiment` with the arguments that follow the subcommand. Blocks until it ends.
pub fn run_experiment(args: Vec<OsString>) -> ExitCode {
    experiment::main(args)
}

/// Prints the help that was asked for, or the parser's complaint; gives the exit status.
fn refuse(part: &str, error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        // Lost when it cannot be written: the exit status remains.
        let _ = error.print();
        return ExitCode::from(EXIT_USAGE);
    }
    match print_text(error.to_string()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(format_args!("{part}: {error}"));
            ExitCode::from(EXIT_TROUBLE)
        }
    }
}

/// SIGINT, SIGTERM and SIGHUP set `stop`, each time: a second one must not leave servers behind,
/// nor prevent the revert that the first one asked for.
fn end_on_signals(stop: &Stop) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if let Err(error) = signal_hook::flag::register(signal, stop.clone()) {
            note(format_args!("tidemill: signal {signal} cannot be handled: {error}"));
        }
    }
}

/// SIGINT and SIGTERM set `stop`; the second one ends the process at once.
fn handle_signals(stop: &Stop) {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let registered = signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(EXIT_INTERRUPTED),
            stop.clone(),
        )
        .and_then(|_| signal_hook::flag::register(signal, stop.clone()));
        if let Err(error) = registered {
            note(format_args!("tidemill: signal {signal} cannot be handled: {error}"));
        }
    }
}
