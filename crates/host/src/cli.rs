//! `tidemill tune`: command line of the host doctor.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs `tidemill tune` with the arguments that follow the subcommand.
pub fn run(args: Vec<OsString>) -> ExitCode {
    eprintln!("tidemill tune: not available in this build ({} arguments)", args.len());
    ExitCode::from(2)
}
