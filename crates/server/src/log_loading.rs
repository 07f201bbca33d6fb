//! Loading of the append-only file at start.

use std::sync::OnceLock;

use tidemill_engine::worker::Worker;
use tidemill_persist::snapshot::WriteRules;
use tidemill_rcu::Flavour;
use tidemill_store::Member;

use crate::worker::WorkerSpec;

/// Loading by the first worker, for which the others wait.
pub(crate) struct LogLoading {
    is_loaded: OnceLock<bool>,
    /// Circumstances of the base of a log that begins.
    base_rules: WriteRules,
}

impl LogLoading {
    /// Nothing is loaded yet.
    pub(crate) fn new(base_rules: WriteRules) -> LogLoading {
        LogLoading { is_loaded: OnceLock::new(), base_rules }
    }

    /// Loads on the first worker's thread; waits on the others'.
    ///
    /// # Errors
    ///
    /// Text for the operator.
    pub(crate) fn load_or_wait<F: Flavour>(
        &self,
        spec: &WorkerSpec,
        (worker, member): (&mut Worker, &mut Member<F>),
    ) -> Result<(), String> {
        if spec.index > 0 {
            // Its error ends the server.
            let is_loaded = *member.offline(|| self.is_loaded.wait());
            return if is_loaded { Ok(()) } else { Err("the log is not loaded".into()) };
        }
        let result = spec.durability.begin(&spec.shared, (worker, member), &self.base_rules);
        let is_first = self.is_loaded.set(result.is_ok()).is_ok();
        assert!(is_first, "one worker loads");
        result
    }
}
