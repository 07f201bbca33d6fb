//! Commands on sets.

mod combine;
mod declarations;
mod encoding;
mod member;
mod pieces;
mod random;
mod read;
mod sift;
mod table;
mod write;
mod write_run;

pub(crate) use encoding::Thresholds;
pub(crate) use member::member_of;
pub(super) use member::{texts, texts_of, with_text};
pub(super) use table::{Table, WALKED_PER_LOOKUP};

use crate::access::handler::Handler;
use crate::access::write_run::WriteRunCommands;
use crate::command::{Command, WriteRunFamily};

use declarations::*;

/// Commands that may follow each other in a run.
pub(crate) const WRITE_RUN: WriteRunCommands =
    (WriteRunFamily::Sets, &[&SADD, &SREM], write_run::add_and_remove);

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&SADD, Handler::Keyed(write::sadd)),
    (&SREM, Handler::Keyed(write::srem)),
    (&SMOVE, Handler::Keyed(write::smove)),
    (&SISMEMBER, Handler::Keyed(read::sismember)),
    (&SMISMEMBER, Handler::Keyed(read::smismember)),
    (&SCARD, Handler::Keyed(read::scard)),
    (&SMEMBERS, Handler::Keyed(read::smembers)),
    (&SSCAN, Handler::Keyed(read::sscan)),
    (&SPOP, Handler::Keyed(random::spop)),
    (&SRANDMEMBER, Handler::Keyed(random::srandmember)),
    (&SINTER, Handler::Keyed(combine::combine)),
    (&SINTERCARD, Handler::Keyed(combine::sintercard)),
    (&SINTERSTORE, Handler::Keyed(combine::combine_and_store)),
    (&SUNION, Handler::Keyed(combine::combine)),
    (&SUNIONSTORE, Handler::Keyed(combine::combine_and_store)),
    (&SDIFF, Handler::Keyed(combine::combine)),
    (&SDIFFSTORE, Handler::Keyed(combine::combine_and_store)),
];
