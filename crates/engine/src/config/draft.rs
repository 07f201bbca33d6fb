//! A configuration that was read and is not in use yet, with the faults found so far.
//!
//! Reading judges each directive by itself. Declarations are judged by those who know the commands,
//! and a value that names something of the host by those who know the host: a draft takes their
//! faults as well, so that all are reported at once, each with its place.

use std::collections::BTreeMap;

use super::configuration::{Configuration, find};
use super::error::{Fault, FaultSource, LoadError};

/// A configuration with the faults found so far.
#[derive(Debug, Default)]
pub struct Draft {
    /// A directive with a fault keeps the value from before.
    pub(super) configuration: Configuration,
    /// Places of the directives that are set, by their index in the table; the last one counts.
    pub(super) places: BTreeMap<usize, FaultSource>,
    pub(super) error: LoadError,
}

impl Draft {
    /// The configuration, in which a directive with a fault has the value from before.
    #[must_use]
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// True if no fault was found so far.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.error.is_empty()
    }

    /// Adds faults.
    pub fn add(&mut self, faults: LoadError) {
        self.error.append(faults);
    }

    /// Adds the fault of a directive whose value cannot take effect, at the place that sets it.
    pub fn refuse(&mut self, directive: &str, reason: String) {
        let place = find(directive).and_then(|(index, _)| self.places.get(&index).cloned());
        let by_default = || FaultSource::Default { directive: directive.to_owned() };
        let place = place.unwrap_or_else(by_default);
        self.error.add(|| Fault { place, reason, remedy: None });
    }

    /// The configuration, if it has no fault.
    ///
    /// # Errors
    /// [`LoadError`] with all that is wrong.
    pub fn finish(self) -> Result<Configuration, LoadError> {
        if self.error.is_empty() { Ok(self.configuration) } else { Err(self.error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RENAME;
    use crate::config::tests::{faults, read_with};

    /// Adds a fault to each declaration of a draft, as those who know the commands do.
    fn refuse_declarations(draft: &mut Draft) {
        let mut error = LoadError::default();
        for line in draft.configuration().renames() {
            error.add_declaration(RENAME, line, String::from("No such command"));
        }
        for line in draft.configuration().user_lines() {
            error.add_declaration("user", line, String::from("No such rule"));
        }
        draft.add(error);
    }

    #[test]
    fn declarations_of_the_command_line_are_options_and_not_lines() {
        let mut draft =
            read_with(&[], &["--rename-command", "no", "x", "--user", "bob", ">secret"]);
        refuse_declarations(&mut draft);
        let text = draft.finish().expect_err("both are refused").to_string();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            text,
            format!(
                "*** FATAL COMMAND LINE ERROR (Tidemill {version}) ***\n\
                 command line: 'rename-command \"no\" \"x\"': No such command; accepted: a command \
                 and its new name, \"\" for none\n\
                 command line: 'user': No such rule"
            )
        );
    }

    #[test]
    fn faults_that_are_found_after_reading_are_told_with_those_of_it_and_their_places() {
        let text = "port abc\nrename-command no x\nuser bob +nosuch\nunixsocketgroup none\n";
        let mut draft = read_with(&[("a.conf", text)], &["a.conf", "--tls-port", "7"]);
        assert!(!draft.is_sound());
        refuse_declarations(&mut draft);
        for name in ["unixsocketgroup", "tls-port", "port", "cpu-placement"] {
            draft.refuse(name, String::from("not here"));
        }
        assert_eq!(
            faults(draft.finish()),
            [
                "a.conf:1: directive 'port': argument couldn't be parsed into an integer; \
                 accepted: 0 to 65535",
                "a.conf:2: directive 'rename-command': No such command; accepted: a command and \
                 its new name, \"\" for none",
                "a.conf:3: directive 'user': No such rule",
                "a.conf:4: directive 'unixsocketgroup': not here",
                "command line: 'tls-port \"7\"': not here",
                // Neither has another value than by default.
                "directive 'port': not here",
                "directive 'cpu-placement': not here",
            ]
        );
    }

    #[test]
    fn faults_beyond_those_that_are_shown_are_counted_from_all_sources() {
        let lines = "port x\n".repeat(99) + &"rename-command no x\n".repeat(5);
        let mut draft = read_with(&[("a.conf", lines.leak())], &["a.conf"]);
        refuse_declarations(&mut draft);
        let found = faults(draft.finish());
        assert_eq!(found.len(), 101);
        assert_eq!(found.last().map(String::as_str), Some("... and 4 more errors"));
    }
}
