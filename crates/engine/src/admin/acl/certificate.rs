//! Clients whose TLS certificate names their user.

use super::denied::note_certificate;
use crate::shared::Shared;
use crate::worker::Worker;
use crate::worker::session::Session;

/// Makes a session that has just connected act in the name of the first user of `names` who is
/// enabled. Without one it stays with the default user, and `ACL LOG` notes the last name, as in
/// Valkey.
pub fn authenticate(shared: &Shared, worker: &Worker, session: &mut Session, names: &[Vec<u8>]) {
    let enabled = names
        .iter()
        .filter_map(|name| shared.users.find(name).filter(|account| account.user().is_on()));
    for account in enabled {
        if session.authenticate(&shared.users, account) {
            return;
        }
    }
    if let Some(last) = names.last() {
        note_certificate(shared, worker, &session.client, last);
    }
}
