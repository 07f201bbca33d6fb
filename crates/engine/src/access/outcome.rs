//! End of a handler: it has replied, or it stops for a reason.

use crate::blocking::Block;
use crate::error::CommandError;
use crate::slots::parking::WaitTarget;

/// End of a handler: it has replied, or it stops for a reason.
pub type Outcome = Result<(), Box<Stop>>;

/// Reason why a handler stops without a reply.
#[derive(Debug)]
pub enum Stop {
    /// It failed; the error is the reply.
    Error(CommandError),
    /// It has to wait for its keys to be written.
    Block(Block),
    /// It waits for its keys to be written, and is registered with them.
    Blocked,
    /// Something that it needs is taken. The whole command runs again once it is free; nothing was
    /// changed yet.
    Wait(WaitTarget),
    /// It needs the slots of all its keys locked, not just read.
    NeedLocks,
    /// It takes long: it is to compute its result without locks.
    TakesLong,
    /// Its reads without locks do not count, and it is not to go on trying.
    Disturbed,
}

impl Stop {
    /// Reason why a command stops for which something is taken.
    #[cold]
    pub(crate) fn wait(place: WaitTarget) -> Box<Stop> {
        Box::new(Stop::Wait(place))
    }

    /// True if the whole command runs again: nothing that it did counts.
    pub(crate) fn is_repeated(&self) -> bool {
        matches!(self, Stop::Wait(_) | Stop::NeedLocks | Stop::TakesLong)
    }

    /// Takes out what a command waits for and leaves [`Stop::Blocked`], if that is why it stops.
    pub(crate) fn take_block(&mut self) -> Option<Block> {
        match std::mem::replace(self, Stop::Blocked) {
            Stop::Block(block) => Some(block),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl From<CommandError> for Box<Stop> {
    #[cold]
    fn from(error: CommandError) -> Box<Stop> {
        Box::new(Stop::Error(error))
    }
}

impl From<&'static str> for Box<Stop> {
    #[cold]
    fn from(text: &'static str) -> Box<Stop> {
        CommandError::from(text).into()
    }
}
