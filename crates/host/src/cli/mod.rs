//! `tidemill tune`: command line of the host doctor and tuner.
//!
//! Every command ends with 2, after one line that says why, when it was used wrongly or could not
//! read what it needs; nothing was changed then. Otherwise `doctor` ends with 0 (nothing to do), 1
//! (advice) or 3 (a problem), `plan` and `capture` with 0, `apply`, `revert` and `verify` with 0,
//! or 1 when something was refused or left alone. `ab` ends as its judge does: with 0 when the
//! change was kept; `run` as the command does. A text that cannot be written is 1, unless its
//! reader is gone.

mod arguments;
mod change;
mod examine;
mod launch;
mod show;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::output::{note, print_text};
use crate::tune::Judge;
use arguments::{Arguments, Command};

/// Wrong usage, or something needed cannot be read; nothing was changed.
const STATUS_USAGE: u8 = 2;
/// Something was refused or left alone.
const STATUS_LEFT: u8 = 1;
/// The text of a command cannot be written.
const STATUS_UNWRITTEN: u8 = 1;

/// Output of a command and its exit status.
struct Outcome {
    text: String,
    status: u8,
}

/// The commands of `tidemill tune`, for completions and the manual.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs `tidemill tune` with the arguments that follow the subcommand. Without a judge `ab` is
/// refused.
pub fn run(args: Vec<OsString>, judge: Option<&dyn Judge>) -> ExitCode {
    let words = std::iter::once(OsString::from("tidemill tune")).chain(args);
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let outcome = match arguments.command {
        Command::Doctor(arguments) => examine::doctor(&arguments),
        Command::Plan(arguments) => examine::plan(&arguments),
        Command::Capture(arguments) => examine::capture(&arguments),
        Command::Ab(arguments) => {
            return change::compare(&arguments, judge).unwrap_or_else(|message| complain(&message));
        }
        Command::Run(arguments) => launch::launch(&arguments),
        Command::Apply(arguments) => change::apply(&arguments),
        Command::Revert(arguments) => change::revert(&arguments),
        Command::Verify(arguments) => change::verify(&arguments),
    };
    match outcome {
        Ok(outcome) => conclude(&outcome),
        Err(message) => complain(&message),
    }
}

/// Prints the output of a command; gives its status, or another one when it cannot be written.
fn conclude(outcome: &Outcome) -> ExitCode {
    match print_text(&outcome.text) {
        Ok(()) => ExitCode::from(outcome.status),
        Err(message) => {
            note(format_args!("tidemill tune: {message}"));
            ExitCode::from(STATUS_UNWRITTEN)
        }
    }
}

fn complain(message: &str) -> ExitCode {
    note(format_args!("tidemill tune: {message}"));
    ExitCode::from(STATUS_USAGE)
}

/// Help where it was asked for or nothing else was said, else the parser's complaint in one line.
fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp => conclude(&Outcome { text: error.to_string(), status: 0 }),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            note(error.to_string().trim_end());
            ExitCode::from(STATUS_USAGE)
        }
        _ => {
            let text = error.to_string();
            let told: Vec<&str> =
                text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            complain(told.join(" ").trim_start_matches("error: "))
        }
    }
}
