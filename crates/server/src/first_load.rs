//! Loading of data at start, beside workers that refuse to touch keys meanwhile.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use tidemill_engine::config::ServerConfig;
use tidemill_engine::saving::Present;
use tidemill_engine::shared::Shared;
use tidemill_persist::load::{LoadError, LoadFault};
use tidemill_rcu::{Domain, Flavour};

use crate::durability::Durability;
use crate::persistence::SnapshotFile;
use crate::readiness::Readiness;
use crate::resources::start_thread;
use crate::start::StopOnExit;

/// Data that is loaded at start.
#[derive(Debug)]
pub(crate) enum FirstLoad {
    /// None: the server begins empty.
    Nothing,
    /// The snapshot.
    Snapshot(Arc<SnapshotFile>),
    /// The append-only file; the snapshot's file has the circumstances of its base.
    Log(Arc<Durability>, Arc<SnapshotFile>),
}

/// Text for the operator when the snapshot cannot be loaded.
fn fatal(file: &SnapshotFile, error: &LoadError) -> String {
    format!("{}\n{}", file.describe(error), error.verdict())
}

/// Begins to load what there is, before there are workers. An append-only file that is not there is
/// begun at once: a server that has nothing to load never answers that it loads.
pub(crate) fn begin_loading<F: Flavour>(
    options: &ServerConfig,
    (file, log): (&Arc<SnapshotFile>, &Arc<Durability>),
    (shared, domain): (&Arc<Shared>, &Arc<Domain<F>>),
) -> Result<FirstLoad, String> {
    log.attach(shared);
    if !options.append_only.is_enabled {
        let is_there = file.begin_at_start(shared).map_err(|error| fatal(file, &error))?;
        let load = is_there.then(|| FirstLoad::Snapshot(Arc::clone(file)));
        return Ok(load.unwrap_or(FirstLoad::Nothing));
    }
    if let Some(total_bytes) = log.begin()? {
        shared.loading.begin(shared.clock.unix_us() / 1_000_000, total_bytes);
        return Ok(FirstLoad::Log(Arc::clone(log), Arc::clone(file)));
    }
    let begun = log.load_at_start((shared, domain), &file.base_rules(shared));
    begun.map_err(Option::unwrap_or_default)?;
    Ok(FirstLoad::Nothing)
}

/// True if so little data is loaded that clients need not know of it.
fn is_little(options: &ServerConfig, shared: &Shared) -> bool {
    let bytes_max = options.unseen_load_bytes_max;
    shared.loading.figures().is_some_and(|figures| figures.total_bytes <= bytes_max)
}

impl FirstLoad {
    /// Loads; on a thread of its own. The error is text for the operator, none if the server stops.
    fn run<F: Flavour>(
        &self,
        shared: &Arc<Shared>,
        domain: &Arc<Domain<F>>,
    ) -> Result<(), Option<String>> {
        match self {
            FirstLoad::Nothing => Ok(()),
            FirstLoad::Snapshot(file) => match file.load_all(shared, domain, Present::Removed) {
                Ok(()) => {
                    shared.loading.end();
                    Ok(())
                }
                Err(LoadError { fault: LoadFault::Stopped, .. }) => Err(None),
                Err(error) => Err(Some(fatal(file, &error))),
            },
            FirstLoad::Log(log, file) => {
                log.load_at_start((shared, domain), &file.base_rules(shared))
            }
        }
    }

    /// Loads beside the workers, by threads of their priority: they have nothing else to do yet.
    /// The server is ready then, or stops. Returns the thread, which ends soon when it stops.
    ///
    /// Clients of much data are accepted at once, and are told that it loads. Those of little wait
    /// in the kernel's queue until it is loaded: who starts a server and connects finds its data.
    pub(crate) fn start<F: Flavour>(
        self,
        options: &ServerConfig,
        (shared, domain): (&Arc<Shared>, &Arc<Domain<F>>),
        (begin_accepting, ready): (impl FnOnce() + Send + 'static, Readiness),
        (stop, failure): (&Arc<AtomicBool>, &Arc<OnceLock<String>>),
    ) -> Result<Option<JoinHandle<()>>, String> {
        if let FirstLoad::Nothing = self {
            begin_accepting();
            ready.tell();
            return Ok(None);
        }
        let mut begin_accepting = Some(begin_accepting);
        if !is_little(options, shared) {
            begin_accepting.take().into_iter().for_each(|begin| begin());
        }
        let (shared, domain) = (Arc::clone(shared), Arc::clone(domain));
        let (stop, failure) = (Arc::clone(stop), Arc::clone(failure));
        let body = move || match self.run(&shared, &domain) {
            Ok(()) => {
                begin_accepting.into_iter().for_each(|begin| begin());
                ready.tell();
            }
            Err(None) => {}
            Err(Some(text)) => {
                let is_first = failure.set(text).is_ok();
                assert!(is_first, "data is loaded once at start");
                drop(StopOnExit(stop));
            }
        };
        let thread = start_thread("load", body);
        thread.map(Some).map_err(|error| format!("no thread loads: {error}"))
    }
}
