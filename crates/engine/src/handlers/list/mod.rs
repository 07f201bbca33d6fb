//! Commands on lists.

mod change;
mod declarations;
mod encoding;
mod look;
mod movement;
mod pieces;
mod pop;
mod push;
mod write_run;

pub(super) use encoding::new_encoding;
pub(crate) use encoding::{node_limit, restored_encoding};

use crate::access::handler::Handler;
use crate::access::write_run::WriteRunCommands;
use crate::command::{Command, WriteRunFamily};

use declarations::*;

/// Commands that may follow each other in a run.
pub(crate) const WRITE_RUN: WriteRunCommands = (
    WriteRunFamily::Lists,
    &[&LPUSH, &RPUSH, &LPUSHX, &RPUSHX, &LPOP, &RPOP],
    write_run::push_and_pop,
);

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&LPUSH, Handler::Keyed(push::push)),
    (&RPUSH, Handler::Keyed(push::push)),
    (&LPUSHX, Handler::Keyed(push::push)),
    (&RPUSHX, Handler::Keyed(push::push)),
    (&LPOP, Handler::Keyed(pop::pop)),
    (&RPOP, Handler::Keyed(pop::pop)),
    (&LMPOP, Handler::Keyed(pop::lmpop)),
    (&BLPOP, Handler::Keyed(pop::bpop)),
    (&BRPOP, Handler::Keyed(pop::bpop)),
    (&BLMPOP, Handler::Keyed(pop::blmpop)),
    (&LMOVE, Handler::Keyed(movement::lmove)),
    (&BLMOVE, Handler::Keyed(movement::blmove)),
    (&RPOPLPUSH, Handler::Keyed(movement::rpoplpush)),
    (&BRPOPLPUSH, Handler::Keyed(movement::brpoplpush)),
    (&LLEN, Handler::Keyed(look::llen)),
    (&LINDEX, Handler::Keyed(look::lindex)),
    (&LRANGE, Handler::Keyed(look::lrange)),
    (&LPOS, Handler::Keyed(look::lpos)),
    (&LSET, Handler::Keyed(change::lset)),
    (&LINSERT, Handler::Keyed(change::linsert)),
    (&LREM, Handler::Keyed(change::lrem)),
    (&LTRIM, Handler::Keyed(change::ltrim)),
];
