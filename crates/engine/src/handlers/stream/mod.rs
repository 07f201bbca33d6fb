//! Commands on streams.

mod add;
mod claim;
mod declarations;
mod delete;
mod deliver;
mod group;
mod id;
mod info;
mod journal;
mod lag;
mod pending;
mod pieces;
mod range;
mod read;
mod trim;
mod write_run;

use crate::access::handler::Handler;
use crate::access::write_run::WriteRunCommands;
use crate::command::{Command, WriteRunFamily};

use declarations::*;

pub(crate) use self::lag::Counters;

/// Commands that have subcommands only.
pub(crate) const CONTAINERS: &[&Command] = &[&XGROUP, &XINFO];

/// Commands that may follow each other in a run.
pub(crate) const WRITE_RUN: WriteRunCommands =
    (WriteRunFamily::Streams, &[&XADD], write_run::append);

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&XADD, Handler::Keyed(add::xadd)),
    (&XTRIM, Handler::Keyed(trim::xtrim)),
    (&XDEL, Handler::Keyed(delete::xdel)),
    (&XSETID, Handler::Keyed(delete::xsetid)),
    (&XLEN, Handler::Keyed(range::xlen)),
    (&XRANGE, Handler::Keyed(range::xrange)),
    (&XREVRANGE, Handler::Keyed(range::xrange)),
    (&XREAD, Handler::Keyed(read::xread)),
    (&XREADGROUP, Handler::Keyed(read::xreadgroup)),
    (&XACK, Handler::Keyed(pending::xack)),
    (&XPENDING, Handler::Keyed(pending::xpending)),
    (&XCLAIM, Handler::Keyed(claim::xclaim)),
    (&XAUTOCLAIM, Handler::Keyed(claim::xautoclaim)),
    (&XGROUP_CREATE, Handler::Keyed(group::create)),
    (&XGROUP_CREATECONSUMER, Handler::Keyed(group::create_consumer)),
    (&XGROUP_DELCONSUMER, Handler::Keyed(group::delete_consumer)),
    (&XGROUP_DESTROY, Handler::Keyed(group::destroy)),
    (&XGROUP_SETID, Handler::Keyed(group::set_id)),
    (&XGROUP_HELP, Handler::Session(group::help)),
    (&XINFO_CONSUMERS, Handler::Keyed(info::consumers)),
    (&XINFO_GROUPS, Handler::Keyed(info::groups)),
    (&XINFO_STREAM, Handler::Keyed(info::stream)),
    (&XINFO_HELP, Handler::Session(info::help)),
];
