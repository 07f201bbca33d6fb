//! A change made and undone by shell commands.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::experiment::ab::Change;
use crate::secrets::hide;

/// Two commands for `sh -c`. Their standard output is dropped, their errors are shown.
#[derive(Clone, Debug)]
pub struct ShellChange {
    /// Makes the change.
    pub apply: String,
    /// Undoes it.
    pub revert: String,
}

impl Change for ShellChange {
    fn apply(&mut self) -> io::Result<()> {
        run(&self.apply)
    }

    fn revert(&mut self) -> io::Result<()> {
        run(&self.revert)
    }
}

/// In a process group of its own: a Ctrl-C at the terminal must not end a revert half way.
fn run(line: &str) -> io::Result<()> {
    let output = Command::new("sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let line = hide(line);
    Err(io::Error::other(format!("`{line}` failed ({}): {}", output.status, text.trim())))
}
