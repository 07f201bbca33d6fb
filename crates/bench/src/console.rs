//! Lines for the user. Their reader may be gone (`| head`): that is no reason to end, and with a
//! change of the machine in force or servers running the worst one; `println!` would panic.

use std::fmt::Display;
use std::io::{self, Write};

/// A line on standard output.
pub(crate) fn print(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A line on standard error.
pub(crate) fn note(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
