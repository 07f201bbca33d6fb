//! `tidemill bench` and `tidemill experiment`: command lines.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs `tidemill bench` with the arguments that follow the subcommand.
pub fn run_bench(args: Vec<OsString>) -> ExitCode {
    eprintln!("tidemill bench: not available in this build ({} arguments)", args.len());
    ExitCode::from(2)
}

/// Runs `tidemill experiment` with the arguments that follow the subcommand.
pub fn run_experiment(args: Vec<OsString>) -> ExitCode {
    eprintln!("tidemill experiment: not available in this build ({} arguments)", args.len());
    ExitCode::from(2)
}
