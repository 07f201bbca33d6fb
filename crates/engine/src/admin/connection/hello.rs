//! The beginning and the end of connections.

use std::sync::Arc;

use std::sync::atomic::Ordering;

use tidemill_resp::encode::Protocol;
use tidemill_resp::number::parse_integer;

use super::client::{change_name, check_printable, set_import_source};
use crate::REDIS_VERSION;
use crate::access::options::{database, is};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::access::unwatch::unwatch;
use crate::acl::{Context, DEFAULT_NAME};
use crate::admin::acl::note_authentication;
use crate::error::CommandError;
use crate::worker::session::ReplyMode;
use crate::worker::subscriptions::unsubscribe_all;

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(super) fn ping(cx: &mut SessionCx<'_, '_>) -> Outcome {
    match cx.args.len() {
        1 | 2 if cx.session.is_subscriber && cx.reply.protocol() == Protocol::Resp2 => {
            cx.reply.array(2);
            cx.reply.bulk("pong");
            cx.reply.bulk(cx.args.iter().nth(1).unwrap_or_default());
        }
        1 => cx.reply.pong(),
        2 => cx.reply.bulk(cx.arg(1)),
        _ => return Err(CommandError::Arity("ping".into()).into()),
    }
    Ok(())
}

pub(super) fn echo(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.bulk(cx.arg(1));
    Ok(())
}

pub(super) fn select(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let index = database(cx.arg(1), cx.shared.keyspace.database_count())?;
    cx.session.select(index);
    cx.reply.ok();
    Ok(())
}

/// Makes the session act in the name of a user.
fn authenticate(
    cx: &mut SessionCx<'_, '_>,
    user: &[u8],
    password: &[u8],
) -> Result<(), CommandError> {
    let users = &cx.shared.users;
    let account = users.authenticate(user, password);
    if account.is_some_and(|account| cx.session.authenticate(users, account)) {
        return Ok(());
    }
    let context = if cx.in_transaction { Context::Multi } else { Context::TopLevel };
    let (client, object) = (&cx.session.client, cx.args.get(0));
    note_authentication((cx.shared, cx.worker), client, cx.command, context, (object, user));
    Err(WRONG_PASSWORD.into())
}

pub(super) fn auth(cx: &mut SessionCx<'_, '_>) -> Outcome {
    match cx.args.len() {
        2 => {
            if cx.shared.users.default_account().user().needs_no_password() {
                return Err("ERR AUTH <password> called without any password configured for the \
                            default user. Are you sure your configuration is correct?"
                    .into());
            }
            authenticate(cx, DEFAULT_NAME, cx.args.get(1))?;
        }
        3 => authenticate(cx, cx.args.get(1), cx.args.get(2))?,
        _ => return Err(CommandError::Syntax.into()),
    }
    cx.reply.ok();
    Ok(())
}

pub(super) fn hello(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let mut protocol = cx.reply.protocol();
    let mut name = None;
    if cx.args.len() > 1 {
        let version = parse_integer(cx.arg(1))
            .ok_or("ERR Protocol version is not an integer or out of range")?;
        protocol = match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err("NOPROTO unsupported protocol version".into()),
        };
    }
    let mut credentials = None;
    let mut index = 2;
    while index < cx.args.len() {
        let option = cx.arg(index);
        let left = cx.args.len() - index - 1;
        if is(option, "AUTH") && left >= 2 {
            credentials = Some((cx.arg(index + 1), cx.arg(index + 2)));
            index += 3;
        } else if is(option, "SETNAME") && left >= 1 {
            check_printable(
                cx.arg(index + 1),
                "ERR Client names cannot contain spaces, newlines or special characters.",
            )?;
            name = Some(cx.arg(index + 1));
            index += 2;
        } else {
            let before = "ERR Syntax error in HELLO option '";
            return Err(CommandError::quoting(before, option, "'").into());
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(cx, user, password)?;
    }
    if !cx.session.is_authenticated {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                    the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the \
                    client and select the RESP protocol version at the same time"
                .into(),
        );
    }
    if let Some(name) = name {
        change_name(cx, name);
    }
    set_protocol(cx, protocol);
    let settings = Arc::clone(&cx.worker.settings);
    let zone = Some(&*settings.availability_zone).filter(|zone| !zone.is_empty());
    cx.reply.map(7 + usize::from(zone.is_some()));
    cx.reply.bulk("server");
    cx.reply.bulk("redis");
    cx.reply.bulk("version");
    cx.reply.bulk(REDIS_VERSION);
    cx.reply.bulk("proto");
    cx.reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    cx.reply.bulk("id");
    cx.reply.integer(cx.session.id() as i64);
    cx.reply.bulk("mode");
    cx.reply.bulk("standalone");
    cx.reply.bulk("role");
    cx.reply.bulk("master");
    cx.reply.bulk("modules");
    cx.reply.array(0);
    if let Some(zone) = zone {
        cx.reply.bulk("availability_zone");
        cx.reply.bulk(zone);
    }
    Ok(())
}

fn set_protocol(cx: &mut SessionCx<'_, '_>, protocol: Protocol) {
    cx.reply.set_protocol(protocol);
    cx.worker.receivers.set_protocol(cx.session.id(), protocol);
    let version = if protocol == Protocol::Resp3 { 3 } else { 2 };
    // Relaxed: for others' information only.
    cx.session.client.protocol.store(version, Ordering::Relaxed);
}

pub(super) fn quit(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.session.close_after_reply = true;
    cx.session.client.leave();
    // The answer comes behind all of that: other workers then find nothing of the client.
    unwatch(cx.shared, cx.worker, cx.session, None);
    cx.worker.end_tracking(cx.shared, cx.session);
    unsubscribe_all(cx.shared, cx.worker, cx.session);
    cx.reply.ok();
    Ok(())
}

pub(super) fn reset(cx: &mut SessionCx<'_, '_>) -> Outcome {
    // One that never used MULTI goes on to be shown as such.
    if cx.session.transaction.take().is_some() {
        cx.session.show_transaction();
    }
    unwatch(cx.shared, cx.worker, cx.session, None);
    cx.session.select(0);
    // RESET undoes OFF before it answers; SKIP still takes its answer.
    if cx.session.reply_mode == ReplyMode::Off {
        cx.session.reply_mode = ReplyMode::On;
    }
    cx.session.no_touch = false;
    cx.worker.end_tracking(cx.shared, cx.session);
    if std::mem::take(&mut cx.session.is_monitor) {
        cx.shared.monitors.remove(cx.session.id());
        cx.session.client.is_monitor.store(false, Ordering::Relaxed);
        // Lines that were taken for it come before the answer.
        cx.worker.drain_lane(cx.shared);
        cx.worker.receivers.take_inbox(cx.session.id(), cx.reply);
    }
    unsubscribe_all(cx.shared, cx.worker, cx.session);
    cx.session.client.no_touch.store(false, Ordering::Relaxed);
    cx.session.client.no_evict.store(false, Ordering::Relaxed);
    cx.session.client.is_readonly.store(false, Ordering::Relaxed);
    set_import_source(cx, false);
    cx.session.forget_user(&cx.shared.users);
    change_name(cx, b"");
    set_protocol(cx, Protocol::Resp2);
    cx.reply.simple_string("RESET");
    Ok(())
}
