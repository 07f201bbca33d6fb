//! Reasons why a configuration is refused.

use std::fmt::{self, Write};
use std::sync::Arc;

use super::configuration::Declaration;
use super::table::{RENAME, statement};
use crate::error::until_nul;
use crate::limits::{FAULT_TEXT_MAX, FAULTS_SHOWN_MAX};

/// Reasons why the server does not start: all that is wrong, each with its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadError {
    /// The first of them, at most [`FAULTS_SHOWN_MAX`].
    faults: Vec<Fault>,
    /// Faults found.
    count: usize,
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) place: FaultSource,
    /// Error at that place.
    pub(super) reason: String,
    /// Correction, if one is known.
    pub(super) remedy: Option<Remedy>,
}

/// Correction of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Values of this kind.
    Accepted(String),
    /// This name, which is near to one that there is not.
    Meant(String),
}

/// Place of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FaultSource {
    /// A file as a whole.
    File { path: String },
    /// A directive in a line, counted from 1, of a file or of standard input.
    Line { origin: Arc<str>, line: usize, directive: String },
    /// A directive on the command line with its values, in Valkey's form; values of what is not
    /// known, or is a secret, are left out.
    Option { call: String },
    /// Another argument of the command line.
    Argument { text: String },
    /// The file of users.
    UsersFile { path: String },
    /// A directive that nothing sets.
    Default { directive: String },
}

impl LoadError {
    /// Adds a fault; of many the rest is only counted.
    pub(super) fn add(&mut self, fault: impl FnOnce() -> Fault) {
        self.count += 1;
        if self.faults.len() < FAULTS_SHOWN_MAX {
            self.faults.push(fault());
        }
    }

    /// Adds what is wrong with a declaration, which begins with `word`.
    pub(crate) fn add_declaration(&mut self, word: &str, line: &Declaration, reason: String) {
        // A reason about a user names the rule, or the file of users: the form is no remedy there.
        let accepted = statement(word.as_bytes()).filter(|statement| statement.name == RENAME);
        let remedy = accepted.map(|statement| Remedy::Accepted(statement.accepted.to_owned()));
        self.add(|| Fault { place: line.place.clone(), reason, remedy });
    }

    /// Adds what is wrong with the file of users.
    pub(crate) fn add_users_file(&mut self, path: &str, reason: String) {
        let place = FaultSource::UsersFile { path: path.to_owned() };
        self.add(|| Fault { place, reason, remedy: None });
    }

    /// Adds the faults of another error.
    pub(super) fn append(&mut self, other: LoadError) {
        self.count += other.count;
        self.faults.extend(other.faults);
        self.faults.truncate(FAULTS_SHOWN_MAX);
    }

    /// True if there is no error.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The part of a text that a line of an error shows: without control characters, and bounded.
struct Shown<'t>(&'t str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.chars();
        for letter in rest.by_ref().take(FAULT_TEXT_MAX) {
            match letter.is_control() {
                true => write!(formatter, "{}", letter.escape_default())?,
                false => formatter.write_char(letter)?,
            }
        }
        formatter.write_str(if rest.next().is_some() { "..." } else { "" })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            FaultSource::File { path } => {
                write!(formatter, "Fatal error, can't open config file '{}'", Shown(path))?;
            }
            FaultSource::Line { origin, line, directive } => {
                write!(formatter, "{}:{line}: directive '{}'", Shown(origin), Shown(directive))?;
            }
            FaultSource::Option { call: text } | FaultSource::Argument { text } => {
                write!(formatter, "command line: '{}'", Shown(text))?;
            }
            FaultSource::UsersFile { path } => write!(formatter, "aclfile '{}'", Shown(path))?,
            FaultSource::Default { directive } => {
                write!(formatter, "directive '{}'", Shown(directive))?;
            }
        }
        write!(formatter, ": {}", Shown(&self.reason))?;
        match &self.remedy {
            Some(Remedy::Accepted(accepted)) => write!(formatter, "; accepted: {accepted}"),
            Some(Remedy::Meant(name)) => write!(formatter, "; did you mean '{name}'?"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LoadError {
    /// A line for each fault, below the words that scripts look for in what Redis prints.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_of_command_line = |fault: &Fault| {
            matches!(fault.place, FaultSource::Option { .. } | FaultSource::Argument { .. })
        };
        let source =
            if self.faults.iter().all(is_of_command_line) { "COMMAND LINE" } else { "CONFIG FILE" };
        let version = env!("CARGO_PKG_VERSION");
        write!(formatter, "*** FATAL {source} ERROR (Tidemill {version}) ***")?;
        for fault in &self.faults {
            write!(formatter, "\n{fault}")?;
        }
        match self.count - self.faults.len() {
            0 => Ok(()),
            1 => formatter.write_str("\n... and 1 more error"),
            hidden => write!(formatter, "\n... and {hidden} more errors"),
        }
    }
}

impl std::error::Error for LoadError {}

/// Reason why CONFIG SET changes nothing.
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
        /// Error.
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
