//! Commands of libraries and monitors about parts that there are not: replicas and modules. A
//! question is answered as by a server without them; a command that would need them is refused with
//! the reason.

use crate::access::handler::Handler;
use crate::access::options::is;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::command::Command;
use crate::error::CommandError;

use super::declarations::*;

/// A primary with no replica, at offset 0 as one of Valkey's that never had any.
fn role(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.array(3);
    cx.reply.bulk("master");
    cx.reply.integer(0);
    cx.reply.array(0);
    Ok(())
}

fn replicaof(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if is(cx.arg(1), "NO") && is(cx.arg(2), "ONE") {
        cx.reply.ok();
        return Ok(());
    }
    Err(refused(cx, "there is no replication"))
}

/// The error of a command that would need what there is not, in the words of the configuration's
/// errors.
fn refused(cx: &SessionCx<'_, '_>, missing: &str) -> Box<crate::access::outcome::Stop> {
    let name = cx.command.name.to_uppercase();
    CommandError::err(format_args!("{name} is not supported: {missing}")).into()
}

fn module_list(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.array(0);
    Ok(())
}

fn module_help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(cx.reply, "MODULE", &[("LIST", "No module: there are none.")]);
    Ok(())
}

/// Handlers of these commands.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&ROLE, Handler::Session(role)),
    (&REPLICAOF, Handler::Session(replicaof)),
    (&SLAVEOF, Handler::Session(replicaof)),
    (&MODULE_HELP, Handler::Session(module_help)),
    (&MODULE_LIST, Handler::Session(module_list)),
];
