//! Commands on the bits of strings. Bit 0 is the highest bit of byte 0.

mod bit;
mod combine;
mod count;
mod declarations;
mod field;

use crate::access::handler::Handler;
use crate::command::Command;

use declarations::*;

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&SETBIT, Handler::Keyed(bit::setbit)),
    (&GETBIT, Handler::Keyed(bit::getbit)),
    (&BITCOUNT, Handler::Keyed(count::bitcount)),
    (&BITPOS, Handler::Keyed(count::bitpos)),
    (&BITOP, Handler::Keyed(combine::bitop)),
    (&BITFIELD, Handler::Keyed(field::bitfield)),
    (&BITFIELD_RO, Handler::Keyed(field::bitfield)),
];
