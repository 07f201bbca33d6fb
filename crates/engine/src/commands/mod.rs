//! The commands, one file per family; each is declared once, next to its handler.

mod connection;
mod string;
mod transactions;

use crate::command::Command;

/// All commands.
#[must_use]
pub fn all() -> Vec<&'static Command> {
    [connection::COMMANDS, string::COMMANDS, transactions::COMMANDS].concat()
}
