//! `tidemill server`: command line of the server.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs `tidemill server` with the arguments that follow the subcommand.
///
/// Blocks the calling thread until the server stops.
pub fn run(args: Vec<OsString>) -> ExitCode {
    eprintln!("tidemill server: not available in this build ({} arguments)", args.len());
    ExitCode::from(2)
}
