//! `tidemill bench` and `tidemill experiment`: command lines.

mod bench;
pub(crate) mod flags;
mod settings;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs `tidemill bench` with the arguments that follow the subcommand. Blocks until the run ends.
pub fn run_bench(args: Vec<OsString>) -> ExitCode {
    bench::main(args)
}

/// Runs `tidemill experiment` with the arguments that follow the subcommand.
pub fn run_experiment(args: Vec<OsString>) -> ExitCode {
    eprintln!("tidemill experiment: not available in this build ({} arguments)", args.len());
    ExitCode::from(2)
}
