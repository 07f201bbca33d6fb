//! Commands on hashes.

mod change;
mod declarations;
mod expire;
mod many;
mod pieces;
mod random;
mod read;
mod write;
mod write_run;

pub(super) use read::field_value;

use crate::access::handler::Handler;
use crate::access::write_run::WriteRunCommands;
use crate::command::{Command, WriteRunFamily};

use declarations::*;

/// Commands that may follow each other in a run.
pub(crate) const WRITE_RUN: WriteRunCommands =
    (WriteRunFamily::Hashes, &[&HSET, &HINCRBY, &HDEL], write_run::change_fields);

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&HSET, Handler::Keyed(write::hset)),
    (&HMSET, Handler::Keyed(write::hset)),
    (&HSETNX, Handler::Keyed(write::hsetnx)),
    (&HDEL, Handler::Keyed(write::hdel)),
    (&HINCRBY, Handler::Keyed(write::hincrby)),
    (&HINCRBYFLOAT, Handler::Keyed(write::hincrbyfloat)),
    (&HGET, Handler::Keyed(read::hget)),
    (&HMGET, Handler::Keyed(read::hmget)),
    (&HGETALL, Handler::Keyed(read::hgetall)),
    (&HKEYS, Handler::Keyed(read::hgetall)),
    (&HVALS, Handler::Keyed(read::hgetall)),
    (&HLEN, Handler::Keyed(read::hlen)),
    (&HSTRLEN, Handler::Keyed(read::hstrlen)),
    (&HEXISTS, Handler::Keyed(read::hexists)),
    (&HRANDFIELD, Handler::Keyed(random::hrandfield)),
    (&HSCAN, Handler::Keyed(read::hscan)),
    (&HEXPIRE, Handler::Keyed(expire::hexpire)),
    (&HPEXPIRE, Handler::Keyed(expire::hexpire)),
    (&HEXPIREAT, Handler::Keyed(expire::hexpire)),
    (&HPEXPIREAT, Handler::Keyed(expire::hexpire)),
    (&HTTL, Handler::Keyed(expire::httl)),
    (&HPTTL, Handler::Keyed(expire::httl)),
    (&HEXPIRETIME, Handler::Keyed(expire::httl)),
    (&HPEXPIRETIME, Handler::Keyed(expire::httl)),
    (&HPERSIST, Handler::Keyed(expire::hpersist)),
    (&HGETEX, Handler::Keyed(many::hgetex)),
    (&HSETEX, Handler::Keyed(many::hsetex)),
    (&HGETDEL, Handler::Keyed(many::hgetdel)),
];
