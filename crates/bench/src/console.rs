//! Lines for the user. Their reader may be gone (`| head`): that is no reason to end, and with a
//! change of the machine in force or servers running the worst one; `println!` would panic.

use std::fmt::Display;
use std::io::{self, Write};

/// A whole text on standard output, such as a report. A reader that is gone needs none: there is
/// no error then.
///
/// # Errors
/// When it cannot be written; the error names the standard output.
pub(crate) fn print_text(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_ref()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(io::Error::new(error.kind(), format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A line on standard output beside something that matters more; lost when it cannot be written.
pub(crate) fn print(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A line on standard error.
pub(crate) fn note(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
