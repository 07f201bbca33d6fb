//! `ACL`: users, what they may do, and what was denied to them.

mod certificate;
mod declarations;
mod denied;
mod file;
mod inspect;
mod log;
mod users;

pub use certificate::authenticate as authenticate_by_certificate;
pub(in crate::admin) use denied::note_authentication;
pub(crate) use denied::{count_denials, denial_entry, log_denial, note as note_denial};

use crate::access::handler::Handler;
use crate::command::Command;

use declarations::*;

/// Commands that have subcommands only.
pub(crate) const CONTAINERS: &[&Command] = &[&ACL];

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&ACL_CAT, Handler::Session(inspect::cat)),
    (&ACL_DELUSER, Handler::Session(users::deluser)),
    (&ACL_DRYRUN, Handler::Session(inspect::dryrun)),
    (&ACL_GENPASS, Handler::Session(users::genpass)),
    (&ACL_GETUSER, Handler::Session(inspect::getuser)),
    (&ACL_HELP, Handler::Session(inspect::help)),
    (&ACL_LIST, Handler::Session(inspect::list)),
    (&ACL_LOAD, Handler::Session(file::load)),
    (&ACL_LOG, Handler::Session(log::log)),
    (&ACL_SAVE, Handler::Session(file::save)),
    (&ACL_SETUSER, Handler::Session(users::setuser)),
    (&ACL_USERS, Handler::Session(inspect::users)),
    (&ACL_WHOAMI, Handler::Session(inspect::whoami)),
];
