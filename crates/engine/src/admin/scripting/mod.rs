//! Commands about scripts and functions. Those that run one are declared here and executed in
//! [`execute::script`](crate::execute).

mod cache;
mod declarations;
mod libraries;
mod library;
mod shebang;

pub(crate) use cache::{NO_SCRIPT, compile_error, flags_of};
pub(crate) use library::Loader;
pub use library::{restore, restore_sources};

use crate::access::handler::{Handler, ScriptCommand, ScriptName};
use crate::access::options::is;
use crate::access::session_context::SessionCx;
use crate::command::Command;
use crate::error::CommandError;
use crate::script::{KillError, Kind};

use declarations::*;

/// Commands that have subcommands only.
pub(crate) const CONTAINERS: &[&Command] = &[&SCRIPT, &FUNCTION];

const fn runs(name: ScriptName, is_read_only: bool) -> Handler {
    Handler::Script(ScriptCommand { name, is_read_only })
}

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&EVAL, runs(ScriptName::Source, false)),
    (&EVAL_RO, runs(ScriptName::Source, true)),
    (&EVALSHA, runs(ScriptName::Digest, false)),
    (&EVALSHA_RO, runs(ScriptName::Digest, true)),
    (&FCALL, runs(ScriptName::Function, false)),
    (&FCALL_RO, runs(ScriptName::Function, true)),
    (&SCRIPT_DEBUG, Handler::Session(cache::debug)),
    (&SCRIPT_EXISTS, Handler::Session(cache::exists)),
    (&SCRIPT_FLUSH, Handler::Session(cache::flush)),
    (&SCRIPT_HELP, Handler::Session(cache::help)),
    (&SCRIPT_KILL, Handler::Session(|cx| kill(cx, Kind::Script))),
    (&SCRIPT_LOAD, Handler::Session(cache::load)),
    (&SCRIPT_SHOW, Handler::Session(cache::show)),
    (&FUNCTION_DELETE, Handler::Session(libraries::delete)),
    (&FUNCTION_DUMP, Handler::Session(libraries::dump)),
    (&FUNCTION_FLUSH, Handler::Session(libraries::flush)),
    (&FUNCTION_HELP, Handler::Session(libraries::help)),
    (&FUNCTION_KILL, Handler::Session(|cx| kill(cx, Kind::Function))),
    (&FUNCTION_LIST, Handler::Session(libraries::list)),
    (&FUNCTION_LOAD, Handler::Session(libraries::load)),
    (&FUNCTION_RESTORE, Handler::Session(libraries::restore)),
    (&FUNCTION_STATS, Handler::Session(libraries::stats)),
];

/// Ends runs of a kind that take long.
fn kill(cx: &mut SessionCx<'_, '_>, kind: Kind) -> crate::access::outcome::Outcome {
    match cx.shared.scripts.running.kill(kind) {
        Ok(()) => {
            cx.reply.ok();
            Ok(())
        }
        Err(KillError::NotBusy) => Err("NOTBUSY No scripts in execution right now.".into()),
        Err(KillError::HasWritten) => {
            Err("UNKILLABLE Sorry the script already executed write commands against the \
                 dataset. You can either wait the script termination or kill the server in a hard \
                 way using the SHUTDOWN NOSAVE command."
                .into())
        }
        Err(KillError::OtherKind(kind)) => Err(busy_error(kind).into()),
    }
}

/// Error for who needs what a run of a kind has locked.
pub(crate) fn busy_error(kind: Kind) -> CommandError {
    match kind {
        Kind::Script => {
            "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or \
                         SHUTDOWN NOSAVE."
        }
        Kind::Function => {
            "BUSY Valkey is busy running a script. You can only call FUNCTION KILL \
                           or SHUTDOWN NOSAVE."
        }
    }
    .into()
}

/// Reads an optional `SYNC` or `ASYNC`, between which there is no difference here: what is flushed
/// is small.
fn flush_mode(cx: &SessionCx<'_, '_>, error: &'static str) -> Result<(), CommandError> {
    match cx.args.len() {
        2 => Ok(()),
        3 if is(cx.arg(2), "SYNC") || is(cx.arg(2), "ASYNC") => Ok(()),
        _ => Err(error.into()),
    }
}
