//! Commands on HyperLogLogs: strings that estimate how many different elements were added to them.
//!
//! The bytes are Valkey's: a header, then 16,384 registers, *dense* with six bits each or *sparse*
//! as runs of equal ones. Clients read and write them by `GET` and `SET`, so every string is looked
//! at as if it were hostile. A dense one is kept in chunks, of which an addition copies one.

mod add;
mod debug;
mod declarations;
mod estimate;
mod read;
mod registers;
mod self_test;
mod sketch;
mod sparse;

use crate::access::handler::Handler;
use crate::command::Command;

use declarations::*;

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&PFADD, Handler::Keyed(add::pfadd)),
    (&PFCOUNT, Handler::Keyed(read::pfcount)),
    (&PFMERGE, Handler::Keyed(add::pfmerge)),
    (&PFDEBUG, Handler::Keyed(debug::pfdebug)),
    (&PFSELFTEST, Handler::Keyed(self_test::pfselftest)),
];
