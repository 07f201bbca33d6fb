//! Commands on the whole keyspace: walks over it, and changes of whole databases.

mod declarations;
pub(super) mod flush;
mod walk;

use crate::access::handler::Handler;
use crate::command::Command;

use declarations::*;

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&KEYS, Handler::Session(walk::keys)),
    (&SCAN, Handler::Session(walk::scan)),
    (&RANDOMKEY, Handler::Session(walk::randomkey)),
    (&DBSIZE, Handler::Session(walk::dbsize)),
    (&FLUSHDB, Handler::Session(flush::flushdb)),
    (&FLUSHALL, Handler::Session(flush::flushall)),
    (&SWAPDB, Handler::Session(flush::swapdb)),
];
