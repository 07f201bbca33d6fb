//! SIGINT and SIGTERM stop the server in order; a second SIGINT at once. SIGHUP, which a closed
//! terminal sends, is ignored, and SIGXFSZ.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// Origin of a request to stop the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// A client, by SHUTDOWN.
    Client,
    /// A signal to the process; the directive that says what it does.
    Signal(&'static str),
}

/// The handlers, installed.
#[derive(Debug)]
pub(crate) struct StopSignals {
    signals: Signals,
    is_stopping: Arc<AtomicBool>,
    shutdown: ShutdownRequest,
}

/// The client that asked for the end by SHUTDOWN, which is carried out by a signal to this process;
/// the first counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShutdownRequest(Arc<OnceLock<String>>);

impl ShutdownRequest {
    /// Notes a client, before the signal is sent.
    pub(crate) fn note(&self, client: &str) {
        // Taken already: another client was faster.
        let _ = self.0.set(client.to_owned());
    }
}

impl StopSignals {
    /// Installs the handlers; a signal from now on is kept for [`StopSignals::wait`].
    pub(crate) fn install() -> Result<StopSignals, String> {
        let failed = |error| format!("signals cannot be handled: {error}");
        let is_stopping = Arc::new(AtomicBool::new(false));
        // Handled by a flag that is never read: the signal is ignored.
        flag::register(SIGHUP, Arc::default()).map_err(failed)?;
        // A write beyond the limit of a file's size fails then, as one on a full disk does.
        flag::register(SIGXFSZ, Arc::default()).map_err(failed)?;
        flag::register_conditional_shutdown(SIGINT, 1, Arc::clone(&is_stopping)).map_err(failed)?;
        let signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        Ok(StopSignals { signals, is_stopping, shutdown: ShutdownRequest::default() })
    }

    /// Handle on which a client's request for the end is noted.
    pub(crate) fn shutdown_request(&self) -> ShutdownRequest {
        self.shutdown.clone()
    }

    /// Goes on after a signal that could not be obeyed.
    pub(crate) fn go_on(&self) {
        // SeqCst: as in `wait`.
        self.is_stopping.store(false, Ordering::SeqCst);
    }

    /// Sleeps until the server is to stop.
    pub(crate) fn wait(&mut self) -> StopReason {
        let mut directive = "shutdown-on-sigterm";
        if let Some(signal) = self.signals.forever().next() {
            // SeqCst: read by a signal handler, wherever it runs; this happens once.
            self.is_stopping.store(true, Ordering::SeqCst);
            if let Some(client) = self.shutdown.0.get() {
                log::info!("User requested shutdown... (user request from '{client}')");
                return StopReason::Client;
            }
            let mut name = "SIGTERM";
            if signal == SIGINT {
                (name, directive) = ("SIGINT", "shutdown-on-sigint");
            }
            log::warn!("Received {name} scheduling shutdown...");
        }
        log::info!("User requested shutdown...");
        StopReason::Signal(directive)
    }
}
