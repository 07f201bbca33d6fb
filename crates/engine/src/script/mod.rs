//! Scripts and libraries of functions that the server knows. May touch: nothing of the engine.
//!
//! [`Scripts`] is shared by all workers: the cache of scripts by digest, the libraries, and the
//! runs that take long. What a worker compiled is its own: see
//! [`worker::scripts`](crate::worker::scripts). How scripts run is in
//! [`execute::script`](crate::execute).

mod cache;
mod functions;
mod running;

pub(crate) use cache::{
    Cache, CachedScript, DIGEST_DIGITS, DigestText, Origin, UndeclaredKeys, digits_of, hexadecimal,
    parse_digest,
};
pub(crate) use functions::{Functions, Library, LibraryFunction, Snapshot, function_bytes};
pub use functions::{Policy, RestoreError};
pub(crate) use running::{Holds, KillError, Kind, Running, RunningScript};

use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_script::Identity;

use crate::REDIS_VERSION;
use crate::command::{Command, Flags, Scope};

/// Name of the only engine of scripts.
pub(crate) const ENGINE: &str = "LUA";

/// Scripts and functions of one server.
#[derive(Debug)]
pub struct Scripts {
    /// Scripts by digest.
    pub(crate) cache: Cache,
    /// Libraries of functions.
    pub functions: Functions,
    /// Runs that take long.
    pub(crate) running: Running,
    /// `DEBUG SET-DISABLE-DENY-SCRIPTS`.
    is_denial_disabled: AtomicBool,
    identity: Identity,
}

impl Scripts {
    /// No script and no library.
    #[must_use]
    pub(crate) fn new() -> Scripts {
        Scripts {
            cache: Cache::default(),
            functions: Functions::default(),
            running: Running::default(),
            is_denial_disabled: AtomicBool::new(false),
            identity: identity(),
        }
    }

    /// Lets scripts call `DEBUG` and `CLIENT`, for tests, or not.
    pub(crate) fn set_denial_disabled(&self, is_disabled: bool) {
        // Relaxed: it holds for commands sent after the answer.
        self.is_denial_disabled.store(is_disabled, Ordering::Relaxed);
    }

    /// True if a command is for clients only.
    pub(crate) fn denies(&self, command: &Command) -> bool {
        if command.scope == Scope::Script || !command.flags.contains(Flags::NOSCRIPT) {
            return command.scope == Scope::Script;
        }
        let is_of_tests = command.name == "debug" || command.name.starts_with("client|");
        // Relaxed: as in `set_denial_disabled`.
        !(is_of_tests && self.is_denial_disabled.load(Ordering::Relaxed))
    }

    /// Names and versions that scripts see.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }
}

/// Name and version of Valkey 9.1: scripts compare them.
fn identity() -> Identity {
    Identity {
        server_name: "valkey".to_owned(),
        version: "9.1.2".to_owned(),
        version_number: 0x0009_0102,
        redis_version: REDIS_VERSION.to_owned(),
        redis_version_number: 0x0007_0204,
    }
}
