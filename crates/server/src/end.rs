//! The end of a server, from a signal to stopped workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidemill_engine::shared::Shared;
use tidemill_rcu::{Domain, Flavour};

use crate::allocator;
use crate::durability::must_write_first_base;
use crate::limits::SAVE_END_POLL;
use crate::persistence::{NotSaved, SnapshotFile};
use crate::process::signals::{StopReason, StopSignals};

/// Rules by which a signal ends the server.
#[derive(Clone, Copy, Debug, Default)]
struct ShutdownRules {
    saves: bool,
    /// True if it ends also when it cannot save.
    is_forced: bool,
}

impl ShutdownRules {
    /// The rules that a directive names.
    fn of(shared: &Shared, directive: &str) -> ShutdownRules {
        let configuration = shared.configuration();
        let value = configuration.value(directive).unwrap_or_default();
        let says = |word: &str| value.split(' ').any(|other| other == word);
        let saves = says("save") || !says("nosave") && !shared.settings().save_points.is_empty();
        ShutdownRules { saves, is_forced: says("force") }
    }
}

/// Waits until the server is to stop and all data is saved, where it is to be saved.
pub(crate) fn wait_for_end<F: Flavour>(
    signals: &StopSignals,
    file: &Arc<SnapshotFile>,
    shared: &Shared,
    domain: &Arc<Domain<F>>,
    stop: &AtomicBool,
) {
    signals.end_at_once_by(file);
    loop {
        // For the save at the end.
        allocator::keep_reserve();
        let directive = match signals.wait(stop) {
            // SHUTDOWN has saved already. Data of a server that failed, or that has loaded a part
            // only, must not take the place of the last save.
            StopReason::Client | StopReason::Failure => {
                shared.loading.stop();
                return;
            }
            StopReason::Signal(directive) => directive,
        };
        shared.signalled_end.begin();
        let how = ShutdownRules::of(shared, directive);
        if end_by_signal(how, file, shared, domain, stop) {
            return;
        }
        shared.signalled_end.forget();
        signals.go_on();
    }
}

/// Saves, where data is to be saved; tells whether the server is to stop.
fn end_by_signal<F: Flavour>(
    how: ShutdownRules,
    file: &SnapshotFile,
    shared: &Shared,
    domain: &Arc<Domain<F>>,
    stop: &AtomicBool,
) -> bool {
    // Acquire, also below: pairs with the Release of a thread that ended the server by itself or
    // for a client.
    while shared.is_cron_paused()
        && !shared.signalled_end.is_called_off()
        && !stop.load(Ordering::Acquire)
    {
        thread::sleep(SAVE_END_POLL);
    }
    let has_failed = stop.load(Ordering::Acquire);
    let is_loading = shared.loading.is_running();
    if is_loading && !has_failed {
        log::warn!("Received shutdown signal during loading, scheduling shutdown.");
    }
    let is_partial = has_failed || is_loading;
    if !is_partial && !how.is_forced && must_write_first_base(shared) {
        log::error!("Writing initial AOF, can't exit.");
        return false;
    }
    if is_partial || !how.saves {
        let is_certain = has_failed || shared.signalled_end.decide();
        if is_certain {
            shared.loading.stop();
        }
        return is_certain;
    }
    log::info!("Saving the final RDB snapshot before exiting.");
    match file.save_at_end(shared, domain, stop) {
        Ok(()) => true,
        Err(NotSaved::CalledOff) => false,
        Err(NotSaved::Failed) if how.is_forced => {
            log::warn!("Error trying to save the DB, but the signal forces the exit.");
            true
        }
        Err(NotSaved::Failed) => {
            log::error!("Error trying to save the DB, can't exit.");
            false
        }
    }
}
