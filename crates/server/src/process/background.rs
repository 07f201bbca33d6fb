//! Running in the background, and the file that tells the process's number.

use std::path::{Path, PathBuf};

use tidemill_engine::config::ServerConfig;

use crate::process::supervisor::Supervisor;

/// The file of a server in the background that was given none.
const DEFAULT_PID_FILE: &str = "/var/run/tidemill.pid";

/// True if the server goes into the background: not under a supervisor, which would take that for
/// its end.
pub(crate) fn is_wanted(config: &ServerConfig, supervisor: Supervisor) -> bool {
    config.daemonize && supervisor == Supervisor::None
}

/// Leaves the terminal: forks, ends the first process, and connects the standard streams to
/// `/dev/null`. The working directory stays. To be called before any thread is started.
///
/// # Errors
///
/// Text for the operator when the system refuses.
pub(crate) fn enter() -> Result<(), String> {
    nix::unistd::daemon(true, false)
        .map_err(|error| format!("the server cannot go into the background: {}", error.desc()))
}

/// The file with the process's number; removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes the file if one is asked for, or belongs to a server in the background. A failure is
    /// logged and no more, as in Redis: packages start servers that may not write there.
    pub(crate) fn write(config: &ServerConfig, is_in_background: bool) -> PidFile {
        let default = is_in_background.then_some(DEFAULT_PID_FILE);
        let Some(path) = config.pid_file.as_deref().or(default).map(Path::new) else {
            return PidFile(None);
        };
        match std::fs::write(path, format!("{}\n", std::process::id())) {
            // Absolute: `dir` may change.
            Ok(()) => PidFile(Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))),
            Err(error) => {
                log::info!("Failed to write PID file {}: {error}", path.display());
                PidFile(None)
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            log::info!("Removing the pid file.");
            // Gone already is as good.
            let _ = std::fs::remove_file(path);
        }
    }
}
