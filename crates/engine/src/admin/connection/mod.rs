//! Commands about connections.

mod client;
mod declarations;
mod filter;
mod hello;
mod tracking;

pub(super) use client::describe;

use crate::access::handler::Handler;
use crate::command::Command;

use declarations::*;

/// Commands that have subcommands only.
pub(crate) const CONTAINERS: &[&Command] = &[&CLIENT];

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&PING, Handler::Session(hello::ping)),
    (&ECHO, Handler::Session(hello::echo)),
    (&SELECT, Handler::Session(hello::select)),
    (&HELLO, Handler::Session(hello::hello)),
    (&AUTH, Handler::Session(hello::auth)),
    (&QUIT, Handler::Session(hello::quit)),
    (&RESET, Handler::Session(hello::reset)),
    (&CLIENT_GETNAME, Handler::Session(client::getname)),
    (&CLIENT_SETNAME, Handler::Session(client::setname)),
    (&CLIENT_SETINFO, Handler::Session(client::setinfo)),
    (&CLIENT_ID, Handler::Session(client::id)),
    (&CLIENT_INFO, Handler::Session(client::info)),
    (&CLIENT_LIST, Handler::Session(client::list)),
    (&CLIENT_KILL, Handler::Session(client::kill)),
    (&CLIENT_REPLY, Handler::Session(client::reply_mode)),
    (&CLIENT_NO_EVICT, Handler::Session(client::no_evict)),
    (&CLIENT_NO_TOUCH, Handler::Session(client::no_touch)),
    (&CLIENT_UNBLOCK, Handler::Session(client::unblock)),
    (&CLIENT_PAUSE, Handler::Session(client::pause)),
    (&CLIENT_UNPAUSE, Handler::Session(client::unpause)),
    (&CLIENT_HELP, Handler::Session(client::help)),
    (&CLIENT_GETREDIR, Handler::Session(tracking::getredir)),
    (&CLIENT_TRACKINGINFO, Handler::Session(tracking::trackinginfo)),
    (&CLIENT_TRACKING, Handler::Session(tracking::tracking)),
    (&CLIENT_CACHING, Handler::Session(tracking::caching)),
    (&CLIENT_CAPA, Handler::Session(client::capa)),
    (&CLIENT_IMPORT_SOURCE, Handler::Session(client::import_source)),
];
