//! Loading of the snapshot at start, beside workers that refuse to touch keys meanwhile.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::thread;

use tidemill_engine::config::ServerConfig;
use tidemill_engine::shared::Shared;
use tidemill_persist::load::{LoadError, LoadFault};
use tidemill_rcu::{Domain, Flavour};

use crate::persistence::SnapshotFile;
use crate::readiness::Readiness;
use crate::start::StopOnExit;

/// Text for the operator when the snapshot cannot be loaded.
fn fatal(file: &SnapshotFile, error: &LoadError) -> String {
    format!("{}\n{}", file.describe(error), error.verdict())
}

/// Begins to load the snapshot, if there is one and `appendonly` is off; returns the file then.
pub(crate) fn begin_loading<'f>(
    options: &ServerConfig,
    file: &'f Arc<SnapshotFile>,
    shared: &Shared,
) -> Result<Option<&'f Arc<SnapshotFile>>, String> {
    if options.append_only.is_enabled {
        return Ok(None);
    }
    let is_there = file.begin_at_start(shared).map_err(|error| fatal(file, &error))?;
    Ok(is_there.then_some(file))
}

/// Loads the snapshot, if there is one, beside the workers, by threads of their priority: they have
/// nothing to do yet. The server is ready then, or stops.
pub(crate) fn load_snapshot<F: Flavour>(
    file: Option<&Arc<SnapshotFile>>,
    (shared, domain): (&Arc<Shared>, &Arc<Domain<F>>),
    ready: Readiness,
    stop: &Arc<AtomicBool>,
    failure: &Arc<OnceLock<String>>,
) -> Result<(), String> {
    let Some(file) = file else {
        ready.tell();
        return Ok(());
    };
    let (file, shared, domain) = (Arc::clone(file), Arc::clone(shared), Arc::clone(domain));
    let (stop, failure) = (Arc::clone(stop), Arc::clone(failure));
    let body = move || match file.load_all(&shared, &domain) {
        Ok(()) => {
            shared.loading.end();
            ready.tell();
        }
        // The server stops already.
        Err(LoadError { fault: LoadFault::Stopped, .. }) => {}
        Err(error) => {
            let is_first = failure.set(fatal(&file, &error)).is_ok();
            assert!(is_first, "the snapshot is loaded once at start");
            drop(StopOnExit(stop));
        }
    };
    let thread = thread::Builder::new().name("load".into()).spawn(body);
    thread.map(drop).map_err(|error| format!("no thread loads: {error}"))
}
