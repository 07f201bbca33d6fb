//! The configuration that a worker applies, and the version of it.

use std::ops::Deref;

use tidemill_engine::config::{OutputBufferLimit, OutputBufferLimits, ServerConfig};
use tidemill_engine::shared::Shared;
use tidemill_engine::worker::Worker;
use tidemill_engine::worker::session::Session;

use crate::backlog::fresh_bytes_max;

/// The configuration as of the last iteration.
#[derive(Debug)]
pub(super) struct AppliedConfig {
    config: ServerConfig,
    version: u64,
    /// Bytes of fresh replies from which on a client of some class may exceed its hard limit at
    /// once.
    pub(super) fresh_bytes_min: usize,
    /// True if replies count by blocks, see [`Shared::counts_reply_blocks`].
    pub(super) counts_reply_blocks: bool,
}

impl Deref for AppliedConfig {
    type Target = ServerConfig;

    fn deref(&self) -> &ServerConfig {
        &self.config
    }
}

impl AppliedConfig {
    /// The configuration that is in force now.
    pub(super) fn new(shared: &Shared) -> AppliedConfig {
        // The version first: a change in between is taken again.
        let version = shared.settings_version();
        let config = shared.configuration().server();
        let OutputBufferLimits { normal, pubsub, .. } = config.output_buffer_limits;
        let bytes = fresh_bytes_max(normal).min(fresh_bytes_max(pubsub));
        let counts_reply_blocks = shared.counts_reply_blocks();
        let fresh_bytes_min =
            if counts_reply_blocks { 1 } else { usize::try_from(bytes).unwrap_or(usize::MAX) };
        AppliedConfig { config, version, fresh_bytes_min, counts_reply_blocks }
    }

    /// True if another configuration is in force by now.
    #[inline]
    pub(super) fn is_outdated(&self, shared: &Shared) -> bool {
        self.version != shared.settings_version()
    }

    /// Tells the engine's state of the thread which limits there are for what clients are sent.
    pub(super) fn limit_output(&self, worker: &mut Worker) {
        let OutputBufferLimits { normal, pubsub, .. } = self.config.output_buffer_limits;
        worker.limits_output = normal.hard_bytes > 0 || normal.soft_bytes > 0;
        worker.output_bytes_max = normal.hard_bytes;
        worker.receivers.limit_inboxes(pubsub.hard_bytes, normal.hard_bytes);
    }

    /// Limit of what a client is sent and has not taken.
    pub(super) fn output_limit(&self, session: &Session) -> OutputBufferLimit {
        let limits = &self.config.output_buffer_limits;
        if session.is_subscriber { limits.pubsub } else { limits.normal }
    }

    /// True if time alone can bring a client over its limit.
    pub(super) fn has_soft_limit(&self) -> bool {
        let limits = &self.config.output_buffer_limits;
        limits.normal.soft_bytes > 0 || limits.pubsub.soft_bytes > 0
    }
}
