//! Files of reports. They are looked at before a load, which may take hours, and named when one
//! cannot be written.

use std::io;
use std::path::Path;

use tidemill_host::output::check_file;

/// Writes a whole file; an error names it.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    std::fs::write(path, content).map_err(|error| named(path, &error))
}

/// An error, if it can be told without writing that a file cannot be written.
pub(super) fn check(path: &Path) -> io::Result<()> {
    check_file(path).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
