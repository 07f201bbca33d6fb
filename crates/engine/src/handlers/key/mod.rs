//! Commands on keys of any type, and on the keyspace as a whole.

pub(crate) mod damage;
mod declarations;
mod dump;
mod expire;
mod look;
mod migrate;
mod object;
mod remove;
mod rename;
mod restore;
mod sort;
pub(crate) mod stream_payload;
mod wait;

use crate::access::handler::Handler;
use crate::command::Command;

use declarations::*;

/// Commands that have subcommands only.
pub(crate) const CONTAINERS: &[&Command] = &[&OBJECT];

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&DEL, Handler::Keyed(remove::del)),
    (&UNLINK, Handler::Keyed(remove::del)),
    (&EXISTS, Handler::Keyed(look::exists)),
    (&TYPE, Handler::Keyed(look::type_of)),
    (&TOUCH, Handler::Keyed(look::touch)),
    (&EXPIRE, Handler::Keyed(expire::expire)),
    (&PEXPIRE, Handler::Keyed(expire::expire)),
    (&EXPIREAT, Handler::Keyed(expire::expire)),
    (&PEXPIREAT, Handler::Keyed(expire::expire)),
    (&TTL, Handler::Keyed(expire::ttl)),
    (&PTTL, Handler::Keyed(expire::ttl)),
    (&EXPIRETIME, Handler::Keyed(expire::ttl)),
    (&PEXPIRETIME, Handler::Keyed(expire::ttl)),
    (&PERSIST, Handler::Keyed(expire::persist)),
    (&RENAME, Handler::Keyed(rename::rename)),
    (&RENAMENX, Handler::Keyed(rename::rename)),
    (&COPY, Handler::Keyed(rename::copy)),
    (&MOVE, Handler::Keyed(rename::move_key)),
    (&MIGRATE, Handler::Keyed(migrate::migrate)),
    (&DUMP, Handler::Keyed(dump::dump)),
    (&RESTORE, Handler::Keyed(restore::restore)),
    (&RESTORE_ASKING, Handler::Keyed(restore::restore)),
    (&OBJECT_ENCODING, Handler::Keyed(object::encoding)),
    (&OBJECT_FREQ, Handler::Keyed(object::freq)),
    (&OBJECT_IDLETIME, Handler::Keyed(object::idletime)),
    (&OBJECT_REFCOUNT, Handler::Keyed(object::refcount)),
    (&OBJECT_HELP, Handler::Session(object::help)),
    (&SORT, Handler::Keyed(sort::sort)),
    (&SORT_RO, Handler::Keyed(sort::sort)),
    (&WAIT, Handler::Keyed(wait::wait)),
    (&WAITAOF, Handler::Keyed(wait::waitaof)),
];
