//! Pub/sub, and the lanes by which messages and lines of `MONITOR` reach connections.
//!
//! A message is posted once per worker that has receivers of it, into the worker's *lane*
//! ([`lanes`]). The worker takes its lane once per iteration, encodes each message once per topic
//! and protocol, appends it to its *receivers* ([`receivers`]) and writes once per connection.
//!
//! Subscriptions are known twice. The [`registry`] knows, for all workers, how many
//! subscribers each worker has of a channel or a pattern; the receivers of a worker know which of
//! its sessions they are. Both change together under the lock of the channel's stripe, or of the
//! patterns, and `PUBLISH` posts under the stripe of its channel. From this follows what is
//! promised:
//!
//! - All subscribers of a channel see its messages in one order, those by pattern too.
//! - What `PUBLISH` counts is delivered: a subscription ends behind all messages that were posted
//!   before, and begins behind them.
//! - A session that subscribes takes its messages at the boundaries between its commands, so its
//!   own message follows the reply to its `PUBLISH`, or `EXEC`.
//!
//! Clients that keep copies of keys are told by the same lanes which of them are not as they were
//! ([`invalidations`]); who they are is with the keys' slots.
//!
//! Lock order: slot, stripe, patterns, lane; of each kind one at a time. Nothing is waited for
//! under any of them.
//!
//! May touch: slots (for waking workers). To add another kind of push, add a variant to
//! [`Delivery`](lanes::Delivery) and say in the receivers what becomes of it.

mod counts;
pub mod invalidations;
pub mod lanes;
mod patterns;
pub mod receivers;
pub mod registry;
mod topic;

pub use topic::TopicKind;
