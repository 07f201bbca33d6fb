//! `tidemill check-rdb FILE`.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use tidemill_persist::check::report;
use tidemill_persist::disk::FileSystem;

const USAGE: &str = "Usage: tidemill check-rdb FILE

Reads a snapshot to its end, and tells what it has and whether it is whole. Changes nothing.
Called as valkey-check-rdb or redis-check-rdb, tidemill does the same.
";

/// Checks the file that the arguments name. Exit status 0 for a whole one, 1 for a damaged one, 2
/// without a name.
pub fn run(arguments: &[OsString]) -> ExitCode {
    let [file] = arguments else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    if file == "-h" || file == "--help" {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match report(&FileSystem, Path::new(file), &mut io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        // A reader that is gone needs no report.
        Ok(false) | Err(_) => ExitCode::from(1),
    }
}
