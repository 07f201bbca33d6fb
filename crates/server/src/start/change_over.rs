//! Changes of the configuration of a running server (`CONFIG SET`), where they take more than a
//! worker that looks at its settings.

use std::io;
use std::path::{Path, PathBuf};

use tidemill_engine::config::ServerConfig;
use tidemill_engine::system_error::reason;

use super::{Process, purge_in_background, tls_context};
use crate::process::oom_score::OomScore;
use crate::tls::context::TlsContext;

/// Goes back to a directory, of which a failure is logged.
pub(super) fn enter_again(directory: &Path) {
    if let Err(error) = std::env::set_current_dir(directory) {
        log::error!("Can't go back to {}: {}", directory.display(), reason(&error));
    }
}

impl Process {
    /// Sets the score by which the kernel kills, if that has changed: a start goes on without it,
    /// and so does CONFIG SET of something else.
    pub(super) fn set_oom_score(
        &self,
        next: &ServerConfig,
        changed: &[&'static str],
    ) -> Result<(), (&'static str, String)> {
        let of_score = |name: &&&'static str| name.starts_with("oom-score-adj");
        let Some(name) = changed.iter().find(of_score) else { return Ok(()) };
        let refused = |_| (*name, "Failed to set current oom_score_adj. Check server logs.".into());
        self.oom_score.set(OomScore::of(next)).map_err(refused)
    }

    /// Makes a changed `dir` the working directory. Returns the one before, if there was a change.
    pub(super) fn enter_directory(
        &self,
        next: &ServerConfig,
        changed: &[&'static str],
    ) -> Result<Option<PathBuf>, (&'static str, String)> {
        if !changed.contains(&"dir") {
            return Ok(None);
        }
        let failed = |error: io::Error| ("dir", reason(&error));
        if self.durability.uses_directory() {
            let text = "the append only file is in the present directory";
            return Err(("dir", text.into()));
        }
        if next.directory.is_empty() {
            return Err(("dir", "dir can't be empty".into()));
        }
        let present = std::env::current_dir().map_err(failed)?;
        std::env::set_current_dir(&next.directory).map_err(failed)?;
        Ok(Some(present))
    }

    /// Gets ready for another configuration, in whose directory the process is.
    pub(super) fn prepare_in_directory(
        &self,
        present: &ServerConfig,
        next: &ServerConfig,
        changed: &[&'static str],
    ) -> Result<(), (&'static str, String)> {
        let tls = self.prepare_tls(next, changed)?;
        let last_score = self.oom_score.wanted();
        self.set_oom_score(next, changed)?;
        let result = self.change_over(present, next, changed);
        if result.is_err() {
            // A score that cannot be set back is logged.
            let _ = self.oom_score.set(last_score);
        }
        result?;
        if let Some(context) = tls {
            self.reception.install(next.clone(), context);
        }
        Ok(())
    }

    /// Changes over to another configuration where that can fail only by doing it. A failure
    /// leaves all as it is at present.
    pub(super) fn change_over(
        &self,
        present: &ServerConfig,
        next: &ServerConfig,
        changed: &[&'static str],
    ) -> Result<(), (&'static str, String)> {
        self.move_listeners(next, changed)?;
        let changed_over = self.change_over_rest(next, changed);
        if changed_over.is_err() {
            // A part that cannot be had back is logged.
            let _ = self.move_listeners(present, changed);
            if changed.contains(&"jemalloc-bg-thread") {
                let _ = purge_in_background(present, &self.placement);
            }
        }
        changed_over
    }

    fn change_over_rest(
        &self,
        next: &ServerConfig,
        changed: &[&'static str],
    ) -> Result<(), (&'static str, String)> {
        if changed.contains(&"jemalloc-bg-thread") {
            purge_in_background(next, &self.placement)
                .map_err(|reason| ("jemalloc-bg-thread", reason))?;
        }
        // The log is not switched back: it comes last.
        self.durability.switch(&next.append_only).map_err(|reason| ("appendonly", reason))?;
        self.durability.log().keep_history(next.append_only.keeps_history);
        Ok(())
    }

    /// Loads keys and certificates for another configuration if it concerns them: the context, none
    /// without a port.
    pub(super) fn prepare_tls(
        &self,
        next: &ServerConfig,
        changed: &[&'static str],
    ) -> Result<Option<Option<TlsContext>>, (&'static str, String)> {
        // That name is read with each connection.
        let of_tls =
            |name: &&&'static str| name.starts_with("tls-") && **name != "tls-auth-clients-user";
        let Some(name) = changed.iter().find(of_tls) else { return Ok(None) };
        match tls_context(next) {
            Ok(context) => Ok(Some(context)),
            Err(error) => {
                log::warn!("{error}");
                Err((*name, "Unable to update TLS configuration. Check server logs.".into()))
            }
        }
    }

    /// Listens where another configuration says, if that has changed.
    fn move_listeners(
        &self,
        next: &ServerConfig,
        changed: &[&'static str],
    ) -> Result<(), (&'static str, String)> {
        let of_listeners = |name: &&&'static str| matches!(**name, "bind" | "port" | "tls-port");
        let (name, reason) = match changed.iter().find(of_listeners) {
            None => return Ok(()),
            Some(&"bind") => ("bind", "Failed to bind to specified addresses."),
            Some(&"port") => ("port", "Unable to listen on this port. Check server logs."),
            Some(_) => ("tls-port", "Unable to listen on this port. Check server logs."),
        };
        self.listeners.move_to(next).map_err(|_| (name, reason.into()))?;
        let addresses = self.listeners.addresses();
        for (kind, of_kind) in [("tcp", false), ("tls", true)] {
            let all = addresses.iter().filter(|(_, is_tls)| *is_tls == of_kind);
            let all: Vec<String> = all.map(|(address, _)| address.to_string()).collect();
            if kind == "tcp" || !all.is_empty() {
                log::info!("Listening on {kind} [{}] from now on", all.join(", "));
            }
        }
        Ok(())
    }
}
