//! Configuration in force, and the settings made of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::acl::Users;
use crate::config::{Configuration, SetError};
use crate::settings::Settings;
use crate::shared::host::Host;

#[derive(Debug)]
struct Current {
    configuration: Arc<Configuration>,
    settings: Arc<Settings>,
}

/// Configuration in force. Workers see a change at their next boundary, by the version.
#[derive(Debug)]
pub(super) struct LiveConfig {
    current: Mutex<Current>,
    version: AtomicU64,
}

impl LiveConfig {
    pub(super) fn new(configuration: Configuration) -> LiveConfig {
        let current = Current {
            settings: Arc::new(configuration.settings()),
            configuration: Arc::new(configuration),
        };
        LiveConfig { current: Mutex::new(current), version: AtomicU64::new(0) }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.current().settings)
    }

    pub(super) fn configuration(&self) -> Arc<Configuration> {
        Arc::clone(&self.current().configuration)
    }

    #[inline]
    pub(super) fn version(&self) -> u64 {
        // Acquire: pairs with the Release in `change` and `look_again`.
        self.version.load(Ordering::Acquire)
    }

    /// Lets workers take the settings again: something beside the directives has changed.
    pub(super) fn look_again(&self) {
        // Release: pairs with the Acquire in `version`.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Changes directives that the host is ready for, protected ones if the client may: all or
    /// none.
    pub(super) fn change(
        &self,
        (host, users): (&dyn Host, &Users),
        changes: &[(&[u8], &[u8])],
        may_change_protected: bool,
    ) -> Result<(), SetError> {
        let mut current = self.current();
        let mut next = current.configuration.with_changes(changes, may_change_protected)?;
        let changed: Vec<&'static str> =
            next.changed_among(changes, &current.configuration).collect();
        if let Err((name, reason)) = host.prepare(&current.configuration, &next, &changed) {
            // On the way back the host may have made anew a part that workers have taken.
            self.look_again();
            return Err(SetError::Failed { name: name.into(), reason });
        }
        if let Some(directory) = host.working_directory().filter(|_| changed.contains(&"dir")) {
            next = next.in_directory(&directory);
        }
        let is_password_changed = changed.contains(&"requirepass");
        current.settings = Arc::new(next.settings());
        if is_password_changed {
            users.set_default_password(&current.settings.requirepass);
        }
        current.configuration = Arc::new(next);
        // Release: pairs with the Acquire in `version`.
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }
}
