//! Commands on positions.
//!
//! A geo set is a sorted set: the score of a member is the number of the cell that its position
//! lies in, of a grid of 2^26 by 2^26 cells. Cells that are near each other have near numbers,
//! mostly, so that a search reads a few ranges of scores.

mod area;
mod declarations;
mod grid;
mod polygon;
mod position;
mod search;

use crate::access::handler::Handler;
use crate::command::Command;

use declarations::*;

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&GEOADD, Handler::Keyed(position::geoadd)),
    (&GEODIST, Handler::Keyed(position::geodist)),
    (&GEOHASH, Handler::Keyed(position::geohash)),
    (&GEOPOS, Handler::Keyed(position::geopos)),
    (&GEORADIUS, Handler::Keyed(search::georadius)),
    (&GEORADIUS_RO, Handler::Keyed(search::georadius)),
    (&GEORADIUSBYMEMBER, Handler::Keyed(search::georadius)),
    (&GEORADIUSBYMEMBER_RO, Handler::Keyed(search::georadius)),
    (&GEOSEARCH, Handler::Keyed(search::geosearch)),
    (&GEOSEARCHSTORE, Handler::Keyed(search::geosearch)),
];
