//! Denials: reasons why a user may not call a command.

use crate::command::Command;
use crate::error::{CommandError, until_nul};

/// Part of a call that is not permitted. Of several selectors' denials the greatest is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A database.
    Database,
    /// The command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
}

/// A denied call: what of it, and the argument that is to blame; 0 for none in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denial {
    /// Part that is not permitted.
    pub reason: Reason,
    /// Index of the argument.
    pub argument: usize,
}

impl Denial {
    /// Error for the client.
    #[must_use]
    pub fn error(&self, user: &[u8], command: &Command) -> CommandError {
        let text: &'static str = match self.reason {
            Reason::Database => "NOPERM No permissions to access database",
            Reason::Key => "NOPERM No permissions to access a key",
            Reason::Channel => "NOPERM No permissions to access a channel",
            Reason::Command => {
                let text = [b"NOPERM ", &*no_permission(user, command)].concat();
                return CommandError::Bytes(text);
            }
        };
        text.into()
    }

    /// Error in place of a queued command's reply.
    #[must_use]
    pub fn error_in_exec(&self) -> CommandError {
        let reason = match self.reason {
            Reason::Command => "no permission to execute the command or subcommand",
            Reason::Key => "no permission to touch the specified keys",
            Reason::Channel => "no permission to access one of the channels used as arguments",
            Reason::Database => "no permission",
        };
        CommandError::Text(
            format!(
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and \
                 the EXEC call. This command is no longer allowed for the following reason: \
                 {reason}"
            )
            .into(),
        )
    }

    /// Answer of `ACL DRYRUN`; `argument` is the one to blame.
    #[must_use]
    pub fn explain(&self, user: &[u8], command: &Command, argument: &[u8]) -> Vec<u8> {
        let (before, after): (&[u8], &[u8]) = match self.reason {
            Reason::Command => return no_permission(user, command),
            Reason::Database => (b"database ", b""),
            Reason::Key => (b"the '", b"' key"),
            Reason::Channel => (b"the '", b"' channel"),
        };
        [b"User ", user, b" has no permissions to access ", before, until_nul(argument), after]
            .concat()
    }
}

fn no_permission(user: &[u8], command: &Command) -> Vec<u8> {
    let name = command.name.as_bytes();
    [b"User ", user, b" has no permissions to run the '", name, b"' command"].concat()
}
