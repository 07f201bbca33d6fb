//! The commands, one file per family; each is declared once, next to its handler.

mod bitmap;
mod connection;
pub(crate) mod hash;
mod help;
pub(crate) mod key;
mod list;
mod observe;
mod options;
mod server;
mod string;
mod transactions;

use crate::command::Command;

/// All commands.
#[must_use]
pub fn all() -> Vec<&'static Command> {
    [
        bitmap::COMMANDS,
        connection::COMMANDS,
        hash::COMMANDS,
        key::COMMANDS,
        list::COMMANDS,
        observe::COMMANDS,
        server::COMMANDS,
        string::COMMANDS,
        transactions::COMMANDS,
    ]
    .concat()
}
