//! Commands about the server.

mod command;
mod config;
mod debug;
mod declarations;
mod digest;
mod info;
mod lolwut;
mod memory;
mod other;
mod populate;
mod save;
mod shutdown;
pub(crate) mod standing;
mod structures;

use crate::access::handler::Handler;
use crate::command::Command;

use declarations::*;

/// Commands that have subcommands only.
pub(crate) const CONTAINERS: &[&Command] = &[&CONFIG, &MEMORY, &MODULE];

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&COMMAND_ALL, Handler::Session(command::all)),
    (&COMMAND_COUNT, Handler::Session(command::count)),
    (&COMMAND_INFO, Handler::Session(command::info)),
    (&COMMAND_DOCS, Handler::Session(command::docs)),
    (&COMMAND_GETKEYS, Handler::Session(command::getkeys)),
    (&COMMAND_GETKEYSANDFLAGS, Handler::Session(command::getkeysandflags)),
    (&COMMAND_LIST, Handler::Session(command::list)),
    (&COMMAND_HELP, Handler::Session(command::help)),
    (&CONFIG_GET, Handler::Session(config::get)),
    (&CONFIG_SET, Handler::Session(config::set)),
    (&CONFIG_RESETSTAT, Handler::Session(config::resetstat)),
    (&CONFIG_REWRITE, Handler::Session(config::rewrite)),
    (&CONFIG_HELP, Handler::Session(config::help)),
    (&INFO, Handler::Session(info::info)),
    (&TIME, Handler::Session(other::time)),
    (&DEBUG, Handler::Session(debug::debug)),
    (&LOLWUT, Handler::Session(lolwut::lolwut)),
    (&SHUTDOWN, Handler::Session(shutdown::shutdown)),
    (&LASTSAVE, Handler::Session(save::lastsave)),
    (&SAVE, Handler::Session(save::save)),
    (&BGSAVE, Handler::Session(save::bgsave)),
    (&BGREWRITEAOF, Handler::Session(save::bgrewriteaof)),
    (&MEMORY_DOCTOR, Handler::Session(memory::doctor)),
    (&MEMORY_HELP, Handler::Session(memory::help)),
    (&MEMORY_MALLOC_STATS, Handler::Session(memory::malloc_stats)),
    (&MEMORY_PURGE, Handler::Session(memory::purge)),
    (&MEMORY_STATS, Handler::Session(memory::stats)),
    (&MEMORY_USAGE, Handler::Keyed(memory::usage)),
];
