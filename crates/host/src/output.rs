//! Output of command lines: texts for the user, and files that are looked at before long work.
//!
//! The reader of a text may be gone (`| head`): that is no reason to end, and with a change of the
//! machine in force or servers running the worst one. A full disk is one. `println!` would panic
//! with either.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::{Access, access};

/// Prints a whole text, such as a report, to the standard output. A reader that is gone needs none:
/// there is no error then.
///
/// # Errors
/// When it cannot be written; the error names the standard output.
pub fn print_text(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_ref()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(io::Error::new(error.kind(), format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a line to the standard output beside something that matters more; lost when it cannot be
/// written.
pub fn print_line(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Prints a line to the standard error. Lost when it cannot be written: the exit status remains.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Judges whether a file can be written, without making one.
///
/// # Errors
/// It is a directory, or the system's.
pub fn check_file(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        Err(io::Error::other("is a directory"))
    } else if path.exists() {
        Ok(access(path, Access::WRITE_OK)?)
    } else {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok(access(parent.unwrap_or(Path::new(".")), Access::WRITE_OK | Access::EXEC_OK)?)
    }
}
