//! The configuration that a worker applies, and the version of it.

use std::ops::Deref;

use tidemill_engine::config::ServerConfig;
use tidemill_engine::shared::Shared;

/// The configuration as of the last iteration.
#[derive(Debug)]
pub(super) struct AppliedConfig {
    config: ServerConfig,
    version: u64,
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
        AppliedConfig { config: shared.configuration().server(), version }
    }

    /// True if another configuration is in force by now.
    #[inline]
    pub(super) fn is_outdated(&self, shared: &Shared) -> bool {
        self.version != shared.settings_version()
    }

    /// True if a limit for the unsent replies of clients is set.
    pub(super) fn limits_output(&self) -> bool {
        let limit = self.config.output_buffer_limits.normal;
        limit.hard_bytes > 0 || limit.soft_bytes > 0
    }
}
