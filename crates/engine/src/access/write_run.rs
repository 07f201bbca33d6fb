//! Write runs: consecutive writes of one client to one key, carried out as one change.
//!
//! The handler of a run makes one edit of the key, applies one command after the other to it, and
//! lets it be published once. A command that it cannot apply ends the run and has changed nothing:
//! it is executed by itself behind the publication. So no handler of a run makes an error reply,
//! creates a key anew that the run has emptied, or looks at what only a published value has.

use smallvec::SmallVec;
use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::request::ArgumentView;

use crate::access::context::Cx;
use crate::command::{Command, WriteRunFamily};
use crate::limits::{TURN_REPLY_BYTES_MAX, WRITE_RUN_COMMANDS_MAX};

/// Handler of a run. The run ends with the first command that it leaves.
pub type WriteRunHandler = fn(&mut Cx<'_, '_>, &mut WriteRun<'_>);

/// Commands of a family, and the handler of its runs.
pub type WriteRunCommands = (WriteRunFamily, &'static [&'static Command], WriteRunHandler);

/// A command of a run. It was admitted, and its number of arguments is right.
#[derive(Clone, Copy, Debug)]
pub struct RunCall<'r> {
    /// The command.
    pub command: &'static Command,
    /// Its name and arguments; the first argument is the key.
    pub args: ArgumentView<'r>,
}

/// Commands of a run, in order.
pub(crate) type RunCalls<'r> = SmallVec<[RunCall<'r>; WRITE_RUN_COMMANDS_MAX]>;

/// A command of a run that is done.
#[derive(Clone, Debug)]
pub(crate) struct DoneCall {
    /// Number of changes that it counts as.
    pub(crate) changes: u64,
    /// Length of the replies behind its own.
    pub(crate) reply_end: usize,
    /// Argument that the journal has instead of the client's, and its position.
    pub(crate) journaled: Option<(usize, Vec<u8>)>,
}

/// Commands of a run that are done, in order.
pub(crate) type DoneCalls = SmallVec<[DoneCall; WRITE_RUN_COMMANDS_MAX]>;

/// A run that is carried out.
#[derive(Debug)]
pub struct WriteRun<'r> {
    calls: &'r [RunCall<'r>],
    done: &'r mut DoneCalls,
    /// Target of the replies.
    pub reply: &'r mut ReplyBuffer,
}

impl<'r> WriteRun<'r> {
    /// A run that has not begun: `done` is empty.
    pub(crate) fn new(
        calls: &'r [RunCall<'r>],
        done: &'r mut DoneCalls,
        reply: &'r mut ReplyBuffer,
    ) -> WriteRun<'r> {
        WriteRun { calls, done, reply }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &'r [u8] {
        self.calls[0].args.get(1)
    }

    /// All its commands.
    #[must_use]
    pub fn calls(&self) -> &'r [RunCall<'r>] {
        self.calls
    }

    /// The next command; none behind the last one, or when the replies are too long for more.
    #[must_use]
    pub fn next_call(&self) -> Option<RunCall<'r>> {
        // One that found no memory counts as longer than any.
        let is_full = self.reply.len() > TURN_REPLY_BYTES_MAX;
        self.calls.get(self.done.len()).filter(|_| !is_full).copied()
    }

    /// The next command was applied, which counts as a number of changes, and has its reply.
    pub fn end_call(&mut self, changes: u64) {
        self.end_call_as(changes, None);
    }

    /// As [`WriteRun::end_call`]; the journal has the command with another argument at a position.
    pub(crate) fn end_call_as(&mut self, changes: u64, journaled: Option<(usize, Vec<u8>)>) {
        self.done.push(DoneCall { changes, reply_end: self.reply.len(), journaled });
    }

    /// True if a command was applied.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.done.is_empty()
    }
}
