//! Commands on strings.
//!
//! A string lives in its entry while it is short, in an allocation of its own when long, and in
//! chunks once a long one is modified in place.

mod declarations;
mod get;
mod lcs;
mod many;
mod number;
mod range;
mod set;

pub(super) use range::{make_raw, new_raw_string, pieces, write, write_runs};
pub(super) use set::text_encoding_of;
pub(crate) use set::{SET_EVENT, encoding_of};

use crate::access::handler::Handler;
use crate::command::Command;

use declarations::*;

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&GET, Handler::Keyed(get::get)),
    (&SET, Handler::Keyed(set::set)),
    (&SETNX, Handler::Keyed(set::setnx)),
    (&SETEX, Handler::Keyed(set::setex)),
    (&PSETEX, Handler::Keyed(set::setex)),
    (&GETSET, Handler::Keyed(set::getset)),
    (&GETDEL, Handler::Keyed(get::getdel)),
    (&GETEX, Handler::Keyed(get::getex)),
    (&MGET, Handler::Keyed(many::mget)),
    (&MSET, Handler::Keyed(many::mset)),
    (&MSETNX, Handler::Keyed(many::msetnx)),
    (&MSETEX, Handler::Keyed(many::msetex)),
    (&DELIFEQ, Handler::Keyed(get::delifeq)),
    (&APPEND, Handler::Keyed(range::append)),
    (&STRLEN, Handler::Keyed(get::strlen)),
    (&SETRANGE, Handler::Keyed(range::setrange)),
    (&GETRANGE, Handler::Keyed(range::getrange)),
    (&SUBSTR, Handler::Keyed(range::getrange)),
    (&INCR, Handler::Keyed(number::incr)),
    (&DECR, Handler::Keyed(number::decr)),
    (&INCRBY, Handler::Keyed(number::incrby)),
    (&DECRBY, Handler::Keyed(number::decrby)),
    (&INCRBYFLOAT, Handler::Keyed(number::incrbyfloat)),
    (&LCS, Handler::Keyed(lcs::lcs)),
];
