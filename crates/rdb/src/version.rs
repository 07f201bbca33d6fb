//! Versions of the format, and whose they are.

use crate::limits::{COMMON_VERSION, REDIS_VERSION_MAX, REDIS_VERSIONS, VALKEY_VERSION};

/// Server whose types and opcodes a version has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// Redis 7.4 and later.
    Redis,
    /// Valkey, and all that Redis wrote before 7.4.
    Valkey,
}

/// Treatment of versions that this crate does not know: `rdb-version-check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionCheck {
    /// They are refused.
    Strict,
    /// They are read as the newest known one of their fork.
    Relaxed,
}

/// Version of a file or payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16);

impl Version {
    /// Version that files and payloads of Valkey 9 have.
    pub const VALKEY: Version = Version(VALKEY_VERSION);

    /// Version that Redis 7.2 and Valkey 8 read too.
    pub const COMMON: Version = Version(COMMON_VERSION);

    /// Server whose types it has. Type 22 is a hash with expiries in both, encoded differently.
    #[must_use]
    pub fn fork(self) -> Fork {
        if self.is_foreign() { Fork::Redis } else { Fork::Valkey }
    }

    /// True if only Redis writes it: Valkey refuses such payloads.
    #[must_use]
    pub fn is_foreign(self) -> bool {
        REDIS_VERSIONS.contains(&self.0)
    }

    /// True if this crate knows the version.
    #[must_use]
    pub fn is_known(self) -> bool {
        self.0 <= REDIS_VERSION_MAX || self.0 == VALKEY_VERSION
    }

    /// Word that a file of this version begins with.
    #[must_use]
    pub fn magic(self) -> &'static [u8] {
        if self.0 > *REDIS_VERSIONS.end() { b"VALKEY" } else { b"REDIS" }
    }
}
