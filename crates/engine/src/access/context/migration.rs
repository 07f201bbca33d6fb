//! Migrations: the session waits for another server, not the worker.

use std::sync::Arc;

use super::cx::Cx;
use crate::access::outcome::Stop;
use crate::migration::{Migration, MigrationRequest, Sent};
use crate::slots::mailbox::Message;
use crate::slots::parking::WaitTarget;

impl Cx<'_, '_> {
    /// Begins a migration, of which the session is told when it has ended.
    pub(crate) fn begin_migration(&self, request: MigrationRequest, sent: Sent) -> Migration {
        let mailboxes = Arc::clone(&self.shared.mailboxes);
        let (worker, session) = (self.worker.index, self.worker.migrations.session);
        let is_awaited = self.may_park_for_migration();
        let wake = move || {
            if is_awaited {
                mailboxes.post(worker, Message::Wake { session });
            }
        };
        Migration::begin(sent, wake, |done| self.shared.host.migrate(request, done))
    }

    /// True if the command may run again when a migration has ended. Otherwise, within a
    /// transaction or a script, the worker waits, as Valkey does.
    fn may_park_for_migration(&self) -> bool {
        self.may_release
    }

    /// The migration that the command has begun before it ran again.
    pub(crate) fn take_migration(&mut self) -> Option<Migration> {
        if self.may_park_for_migration() { self.worker.migrations.take() } else { None }
    }

    /// Waits for the end of a migration: blocks the worker unless the session may park.
    ///
    /// # Errors
    ///
    /// [`Stop::Wait`]: the command runs again then. It must not have changed anything.
    pub(crate) fn await_migration(
        &mut self,
        migration: Migration,
        may_park: bool,
    ) -> Result<Migration, Box<Stop>> {
        if may_park && self.may_park_for_migration() {
            self.worker.migrations.leave(migration);
            return Err(Stop::wait(WaitTarget::Migration));
        }
        migration.wait();
        Ok(migration)
    }
}
