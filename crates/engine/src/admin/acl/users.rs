//! Changes of users.

use std::collections::HashSet;
use std::sync::Arc;

use crate::access::options::integer;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::acl::{
    Account, ChannelsOfNewUsers, DEFAULT_NAME, Replaced, Rules, UnclosedSelector, generate,
    has_spaces,
};
use crate::error::CommandError;
use crate::slots::mailbox::Message;

/// Bits of a password that `ACL GENPASS` makes unasked, and the most that it makes.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

pub(super) fn setuser(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let name = cx.arg(2);
    if has_spaces(name) {
        return Err("ERR Usernames can't contain spaces or null characters".into());
    }
    let words: Vec<&[u8]> = cx.args.iter().skip(3).collect();
    let rules = Rules::of(&words).map_err(|UnclosedSelector(index)| {
        let before = "ERR Unmatched parenthesis in acl selector starting at '";
        CommandError::quoting(before, words[index], "'.")
    })?;
    let channels = ChannelsOfNewUsers::of(&cx.worker.settings);
    let revoked = cx.shared.users.set(name, channels, &rules).map_err(|(rule, reason)| {
        let after = format!("': {}", reason.text());
        CommandError::quoting("ERR Error in ACL SETUSER modifier '", rule, &after)
    })?;
    // Requests behind this one in the same turn are judged by the new rules.
    cx.session.refresh_user(&cx.shared.users);
    let revoked = revoked.into_iter().collect();
    close_clients(cx, &Replaced { revoked, ..Replaced::default() });
    cx.reply.ok();
    Ok(())
}

pub(super) fn deluser(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let names = || cx.args.iter().skip(2);
    if names().any(|name| name == DEFAULT_NAME) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    let deleted: Vec<Arc<Account>> =
        names().filter_map(|name| cx.shared.users.delete(name)).collect();
    let count = deleted.len();
    close_clients(cx, &Replaced { deleted, ..Replaced::default() });
    cx.reply.integer(count as i64);
    Ok(())
}

/// Ends the clients of deleted accounts, and those that are subscribed to channels which their user
/// lost: they execute nothing and get nothing any more once this returns, but the caller's own
/// connection is closed behind the reply.
pub(super) fn close_clients(cx: &mut SessionCx<'_, '_>, replaced: &Replaced) {
    let Replaced { deleted, revoked } = replaced;
    if deleted.is_empty() && revoked.is_empty() {
        return;
    }
    let addresses =
        |all: &[Arc<Account>]| all.iter().map(Arc::as_ptr).collect::<HashSet<*const Account>>();
    let (deleted, revoked) = (addresses(deleted), addresses(revoked));
    for client in cx.shared.clients.all() {
        let account = client.account();
        let account = account.as_ref().unwrap_or(cx.shared.users.default_account());
        let is_among = |all: &HashSet<_>| all.contains(&Arc::as_ptr(account));
        let is_revoked = || is_among(&revoked) && !client.may_stay_subscribed(&account.user());
        if !is_among(&deleted) && !is_revoked() {
            continue;
        }
        if client.id == cx.session.id() {
            cx.session.close_after_reply = true;
            continue;
        }
        cx.shared.end_client(&client, Message::Kill { session: client.id });
    }
}

pub(super) fn genpass(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let bits = match cx.args.len() {
        2 => PASSWORD_BITS,
        3 => integer(cx.arg(2))?,
        _ => return Err(CommandError::subcommand_syntax("ACL", cx.arg(1)).into()),
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(
            "ERR ACL GENPASS argument must be the number of bits for the output password, \
                    a positive number up to 4096"
                .into(),
        );
    }
    let password = generate(bits as usize).ok_or("ERR the system has no random numbers")?;
    cx.reply.bulk(password);
    Ok(())
}
