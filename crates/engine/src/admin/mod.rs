//! Handlers of commands on the session, the server and the whole keyspace.
//!
//! May touch: access, workers, shared state, slots, telemetry.

pub(crate) mod acl;
mod alone;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod keyspace;
pub(crate) mod observe;
pub(crate) mod pubsub;
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod transactions;
