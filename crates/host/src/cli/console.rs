//! Texts for the user. Their reader may be gone (`| head`), or a disk full: `println!` would panic.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a text to the standard output. A reader that is gone needs none: there is no error then.
///
/// # Errors
/// When it cannot be written; the error names the standard output.
pub(super) fn print(text: &str) -> Result<(), String> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Prints a line to the standard error. Lost when it cannot be written: the exit status remains.
pub(super) fn note(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
