//! The file of users. Both commands wait for the disk: an administrator asked for it.

use super::inspect::check_room;
use super::users::close_clients;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::acl::{self, ChannelsOfNewUsers};
use crate::error::CommandError;

/// Path of the file of users.
fn path(cx: &SessionCx<'_, '_>) -> Result<String, CommandError> {
    let path = cx.worker.settings.users_file.as_ref().ok_or(
        "ERR This instance is not configured to use an ACL file. You may want to specify users via \
         the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a \
         configuration file set) in order to store users in the configuration.",
    )?;
    Ok(path.clone())
}

pub(super) fn load(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let path = path(cx)?;
    let users = &cx.shared.users;
    let channels = ChannelsOfNewUsers::of(&cx.worker.settings);
    let made = acl::load(users, &path, channels, |path| cx.shared.host.read_users(path))
        .map_err(|errors| CommandError::Bytes([&b"ERR "[..], &errors.concat()].concat()))?;
    let replaced = users.replace(made);
    cx.session.refresh_user(users);
    close_clients(cx, &replaced);
    cx.reply.ok();
    Ok(())
}

pub(super) fn save(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let path = path(cx)?;
    let mut contents = Vec::new();
    for user in cx.shared.users.all() {
        check_room(cx.shared, &user)?;
        let rules = user.describe();
        contents
            .try_reserve(2 * rules.len())
            .map_err(|_| CommandError::NoMemory(2 * rules.len() as u64))?;
        contents.extend_from_slice(b"user ");
        contents.extend_from_slice(&rules);
        contents.push(b'\n');
    }
    cx.shared.host.write_users(&path, &contents).map_err(|_| {
        CommandError::from(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more \
             information",
        )
    })?;
    cx.reply.ok();
    Ok(())
}
