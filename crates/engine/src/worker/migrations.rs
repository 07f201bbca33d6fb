//! Migrations that sessions of a worker wait for.

use std::collections::HashMap;

use crate::migration::Migration;

/// Migrations that sessions of a worker wait for.
#[derive(Debug, Default)]
pub(crate) struct Migrations {
    /// Session whose turn it is.
    pub(crate) session: u64,
    under_way: HashMap<u64, Migration>,
}

impl Migrations {
    /// Leaves the migration of the session whose turn it is until that goes on.
    pub(crate) fn leave(&mut self, migration: Migration) {
        self.under_way.insert(self.session, migration);
    }

    /// Takes out the migration of the session whose turn it is.
    pub(crate) fn take(&mut self) -> Option<Migration> {
        if self.under_way.is_empty() { None } else { self.under_way.remove(&self.session) }
    }

    /// Forgets the migration of a session whose command or connection has ended: what was sent
    /// stays sent, and here nothing is deleted.
    pub(crate) fn forget(&mut self, session: u64) {
        if !self.under_way.is_empty() {
            self.under_way.remove(&session);
        }
    }
}
