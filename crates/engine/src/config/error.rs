//! Why a configuration is refused.

use std::fmt;

use crate::error::until_nul;

/// Why the server does not start. Printed as Valkey prints it, with the file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// A file cannot be read.
    Unreadable {
        /// Its path.
        path: String,
        /// The operating system's reason.
        reason: String,
    },
    /// A line is refused.
    Line {
        /// The file's path, `standard input`, or `command line`.
        origin: String,
        /// Counted from 1; on the command line, options.
        line: usize,
        /// The line itself.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Unreadable { path, reason } => {
                write!(formatter, "Fatal error, can't open config file '{path}': {reason}")
            }
            LoadError::Line { origin, line, text, reason } => {
                let version = env!("CARGO_PKG_VERSION");
                writeln!(formatter, "*** FATAL CONFIG FILE ERROR (Tidemill {version}) ***")?;
                writeln!(formatter, "Reading the configuration file {origin}, at line {line}")?;
                writeln!(formatter, ">>> '{text}'")?;
                formatter.write_str(reason)
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// Why CONFIG SET changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// There is no such directive.
    Unknown {
        /// As the client spelled it.
        name: Vec<u8>,
    },
    /// A directive cannot have that value, or not now.
    Failed {
        /// As the client spelled it.
        name: Vec<u8>,
        /// What is wrong.
        reason: String,
    },
}

impl SetError {
    /// The error as it goes to the client, its code first.
    #[must_use]
    pub fn wire(&self) -> Vec<u8> {
        let (before, name, after) = match self {
            SetError::Unknown { name } => {
                let before = "ERR Unknown option or number of arguments for CONFIG SET - '";
                (before, name, String::from("'"))
            }
            SetError::Failed { name, reason } => {
                let before = "ERR CONFIG SET failed (possibly related to argument '";
                (before, name, format!("') - {reason}"))
            }
        };
        [before.as_bytes(), until_nul(name), after.as_bytes()].concat()
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.wire().escape_ascii())
    }
}

impl std::error::Error for SetError {}
