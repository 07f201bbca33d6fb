//! Changes of the configuration of a running server (`CONFIG SET`), where they take more than a
//! worker that looks at its settings.

use tidemill_engine::config::{Configuration, ServerConfig};

use super::{Process, purge_in_background, tls_context};
use crate::durability::DirectoryClaim;
use crate::persistence::SnapshotMove;
use crate::process::oom_score::OomScore;
use crate::tls::context::TlsContext;

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

    /// Judges whether `dir` may become what another configuration says, if it has changed. Keeps
    /// the log from the directory meanwhile if that is to be left; none if it is not.
    pub(super) fn claim_directory(
        &self,
        next: &ServerConfig,
        changed: &[&'static str],
    ) -> Result<Option<DirectoryClaim<'_>>, (&'static str, String)> {
        if !changed.contains(&"dir") {
            return Ok(None);
        }
        if next.directory.is_empty() {
            return Err(("dir", "dir can't be empty".into()));
        }
        if is_here(&next.directory) {
            return Ok(None);
        }
        let claim = self.durability.claim_directory();
        let reason = "the append only file is in the present directory";
        claim.map(Some).ok_or_else(|| ("dir", reason.into()))
    }

    /// Moves the snapshot where a configuration says, if it leaves the directory or `dbfilename`
    /// has changed. The move is taken back unless it is committed.
    pub(super) fn move_snapshot(
        &self,
        to: &Configuration,
        changed: &[&'static str],
        leaves_directory: bool,
    ) -> Result<Option<SnapshotMove<'_>>, (&'static str, String)> {
        let server = to.server();
        let name = match () {
            () if leaves_directory => "dir",
            () if changed.contains(&"dbfilename") => "dbfilename",
            () => return Ok(None),
        };
        // A save has its place from its begin, though its thread has not opened the file yet.
        if self.durability.is_saving_or_loading() {
            return Err((name, "a snapshot is being saved or loaded".into()));
        }
        let saves = !to.settings().save_points.is_empty();
        let directory = leaves_directory.then_some(&*server.directory);
        let moved = self.snapshot_file.move_to(directory, &server.snapshot_file, saves);
        moved.map(Some).map_err(|reason| (name, reason))
    }

    /// Gets ready for another configuration, in whose directory the process is.
    pub(super) fn prepare_in_place(
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
        self.durability.keep_history(next.append_only.keeps_history);
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

/// True if a directory is the working directory, whatever its path.
fn is_here(directory: &str) -> bool {
    let identity = |path| rustix::fs::stat(path).map(|found| (found.st_dev, found.st_ino));
    identity(directory).is_ok_and(|found| identity(".") == Ok(found))
}
