//! The caller of a script: what scripts reach beyond their own values.

use std::collections::TryReserveError;

use crate::reply::Answer;

/// Answer to the question if a run may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The run goes on.
    Continue,
    /// The run ends its turn; it goes on with `Interpreter::resume`.
    Suspend,
    /// The run ends with an error that `pcall` does not catch.
    Kill(&'static str),
}

/// End of a run by its caller, within a command, with the text of its error; `pcall` does not catch
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort(pub &'static str);

/// Protocol of the replies that a script receives, as `redis.setresp` sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// The caller of a run. All methods run on the thread of the run.
pub trait Host {
    /// Executes a command. An error of the command is a [`Reply::Error`](crate::Reply::Error).
    ///
    /// # Errors
    ///
    /// [`Abort`], when the run is to end here.
    fn call(&mut self, arguments: &[&[u8]], protocol: Protocol) -> Result<Answer<'_>, Abort>;

    /// Called about every 10,000 calls and backward jumps, and by library functions that take long.
    /// Where the run cannot be suspended (within a metamethod, a comparator, a replacement, a
    /// library function) `may_suspend` is false, and [`Interrupt::Suspend`] makes it ask again as
    /// soon as it can be.
    fn interrupt(&mut self, may_suspend: bool) -> Interrupt;

    /// True if the commands that were executed have used up the run's turn: it asks at its next
    /// step then.
    fn is_late(&self) -> bool {
        false
    }

    /// Writes to the server's log; levels are 0 (debug) to 3 (warning).
    fn log(&mut self, level: u8, message: &[u8]);

    /// True if the user may run a command; `None` if there is no such command.
    ///
    /// # Errors
    ///
    /// When there is no memory for the question.
    fn may_run(&mut self, arguments: &[&[u8]]) -> Result<Option<bool>, TryReserveError>;

    /// CPU time of the process, seconds, for `os.clock`.
    fn cpu_seconds(&mut self) -> f64;
}
