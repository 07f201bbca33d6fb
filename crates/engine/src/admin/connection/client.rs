//! `CLIENT`.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::number::parse_integer;

use super::filter::Filter;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::command::{Command, CommandId};
use crate::error::{CommandError, NO_MEMORY_FOR_REPLY, until_nul};
use crate::memory::Room;
use crate::shared::clients::Client;
use crate::shared::{PauseMode, Shared};
use crate::slots::mailbox::Message;
use crate::slots::waiter::WaitEnd;
use crate::worker::session::ReplyMode;

/// Fails with `error` when a name has a byte that a listing could not show.
pub(super) fn check_printable(name: &[u8], error: &'static str) -> Result<(), CommandError> {
    if is_printable(name) { Ok(()) } else { Err(error.into()) }
}

fn is_printable(text: &[u8]) -> bool {
    until_nul(text).iter().all(|byte| (b'!'..=b'~').contains(byte))
}

pub(super) fn change_name(cx: &mut SessionCx<'_, '_>, name: &[u8]) {
    cx.session.client.change_texts(|texts| texts.name = name.into());
}

pub(super) fn getname(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let texts = cx.session.client.texts();
    if texts.name.is_empty() {
        cx.reply.null();
    } else {
        cx.reply.bulk(texts.name);
    }
    Ok(())
}

pub(super) fn setname(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let name = cx.arg(2);
    check_printable(
        name,
        "ERR Client names cannot contain spaces, newlines or special characters.",
    )?;
    change_name(cx, name);
    cx.reply.ok();
    Ok(())
}

pub(super) fn setinfo(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (option, value) = (cx.arg(2), cx.arg(3));
    let is_name = is(option, "LIB-NAME");
    if is_name || is(option, "LIB-VER") {
        if !is_printable(value) {
            let after = " cannot contain spaces, newlines or special characters.";
            return Err(CommandError::quoting("ERR ", option, after).into());
        }
        cx.session.client.change_texts(|texts| {
            let place = if is_name { &mut texts.library_name } else { &mut texts.library_version };
            *place = value.into();
        });
    } else {
        return Err(CommandError::quoting("ERR Unrecognized option '", option, "'").into());
    }
    cx.reply.ok();
    Ok(())
}

pub(super) fn id(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.integer(cx.session.id() as i64);
    Ok(())
}

/// The letters of a client's `flags=`, in Valkey's order. Relaxed loads, as for [`describe`].
pub(super) fn flags(client: &Client) -> String {
    let mut flags = String::new();
    if client.is_monitor.load(Ordering::Relaxed) {
        flags.push('O');
    }
    if client.is_subscriber() {
        flags.push('P');
    }
    if client.is_in_transaction.load(Ordering::Relaxed) {
        flags.push('x');
    }
    if client.is_blocked.load(Ordering::Relaxed) || client.is_postponed.load(Ordering::Relaxed) {
        flags.push('b');
    }
    flags.extend(client.tracking_letters());
    if client.is_watch_broken() {
        flags.push('d');
    }
    if client.is_killed() {
        flags.push('A');
    }
    if client.address.parse::<SocketAddr>().is_err() {
        flags.push('U');
    }
    if client.is_readonly.load(Ordering::Relaxed) {
        flags.push('r');
    }
    if client.no_evict.load(Ordering::Relaxed) {
        flags.push('e');
    }
    if client.no_touch.load(Ordering::Relaxed) {
        flags.push('T');
    }
    if client.is_import_source.load(Ordering::Relaxed) {
        flags.push('I');
    }
    if flags.is_empty() {
        flags.push('N');
    }
    flags
}

/// A client as one line. Relaxed loads: a listing is a snapshot of things that go on changing.
///
/// # Errors
///
/// [`CommandError::NoMemory`] when there is none for its texts.
pub(in crate::admin) fn describe(
    shared: &Shared,
    client: &Client,
    now_ms: u64,
) -> Result<String, CommandError> {
    let (texts, user_name) = (client.texts(), client.user_name());
    // Each is copied once, and the line that they make grows to twice its size at most.
    Room::of(shared).check(4 * (texts.bytes() + user_name.len() as u64))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(until_nul(bytes)).into_owned();
    let age_s = now_ms.saturating_sub(client.connected_ms) / 1000;
    let idle_s = now_ms.saturating_sub(client.last_command_ms.load(Ordering::Relaxed)) / 1000;
    let queued = client.queued.load(Ordering::Relaxed);
    let command = match client.last_command.load(Ordering::Relaxed) {
        0 => "NULL",
        number => shared
            .commands
            .iter()
            .find(|(id, _)| id.index() + 1 == number as usize)
            .map_or("NULL", |(_, command)| command.name),
    };
    let pending_bytes = client.pending_bytes.load(Ordering::Relaxed);
    let room_bytes =
        client.pending_memory_bytes.load(Ordering::Relaxed).saturating_sub(pending_bytes);
    let parsed_bytes = client.parsed_memory_bytes.load(Ordering::Relaxed);
    let unsent_bytes = client.unsent_bytes.load(Ordering::Relaxed);
    let subscriptions = client.subscriptions.each_ref().map(|count| count.load(Ordering::Relaxed));
    let mut line = String::new();
    // Writing into a string cannot fail.
    let _ = write!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={age_s} idle={idle_s} flags={} capa={} db={} \
         sub={} psub={} ssub={} multi={} watch={} qbuf={pending_bytes} qbuf-free={room_bytes} \
         argv-mem={parsed_bytes} multi-mem={} \
         rbs=0 rbp=0 obl=0 oll={} omem={unsent_bytes} tot-mem={} events={} cmd={command} \
         user={} redir={} resp={} \
         lib-name={} lib-ver={} tot-net-in={} tot-net-out={} tot-cmds={}",
        client.id,
        client.address,
        client.local_address,
        client.descriptor,
        text(&texts.name),
        flags(client),
        client.capabilities(),
        client.database.load(Ordering::Relaxed),
        subscriptions[0],
        subscriptions[1],
        subscriptions[2],
        if queued == u64::MAX { -1 } else { queued as i64 },
        client.watched_keys(),
        client.queued_bytes.load(Ordering::Relaxed),
        client.unsent_parts.load(Ordering::Relaxed),
        client.memory_bytes(),
        if unsent_bytes > 0 { "rw" } else { "r" },
        text(&user_name),
        client.redirect().map_or(-1, u64::cast_signed),
        client.protocol.load(Ordering::Relaxed),
        text(&texts.library_name),
        text(&texts.library_version),
        client.input_bytes.value(),
        client.output_bytes.value(),
        client.commands.value(),
    );
    Ok(line)
}

/// Notes the command at hand as the caller's last one, which otherwise happens once its batch is
/// done.
fn note_command(cx: &SessionCx<'_, '_>) {
    let client = &cx.session.client;
    let is_it = |(_, command): &(CommandId, &Command)| std::ptr::eq(*command, cx.command);
    let number = cx.shared.commands.iter().find(is_it).map_or(0, |(id, _)| id.index() as u32 + 1);
    // Relaxed: for others' information only.
    client.last_command.store(number, Ordering::Relaxed);
    client.last_command_ms.store(cx.worker.now_ms(), Ordering::Relaxed);
}

pub(super) fn info(cx: &mut SessionCx<'_, '_>) -> Outcome {
    note_command(cx);
    let mut line = describe(cx.shared, &cx.session.client, cx.worker.now_ms())?;
    line.push('\n');
    cx.reply.verbatim(*b"txt", line);
    Ok(())
}

pub(super) fn list(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let filter = Filter::parse(cx)?;
    note_command(cx);
    let now_ms = cx.worker.now_ms();
    let mut lines = String::new();
    for client in cx.shared.clients.all() {
        if filter.accepts(&client, cx.session.id(), now_ms) {
            let line = describe(cx.shared, &client, now_ms)?;
            lines.try_reserve(line.len() + 1).map_err(|_| NO_MEMORY_FOR_REPLY)?;
            lines.push_str(&line);
            lines.push('\n');
        }
    }
    cx.reply.verbatim(*b"txt", lines);
    Ok(())
}

pub(super) fn kill(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let is_old_form = cx.args.len() == 3;
    let filter = if is_old_form {
        Filter::of_address(cx.arg(2))
    } else {
        // Unlike the old form, the new one spares the caller by default.
        Filter::parse(cx)?.with_default_skipme(true)
    };
    let own_id = cx.session.id();
    let now_ms = cx.worker.now_ms();
    let mut count = 0;
    for client in cx.shared.clients.all() {
        if !filter.accepts(&client, own_id, now_ms) {
            continue;
        }
        count += 1;
        if client.id == own_id {
            cx.session.close_after_reply = true;
        } else {
            cx.shared.end_client(&client, Message::Kill { session: client.id });
        }
    }
    match (is_old_form, count) {
        (true, 0) => return Err("ERR No such client".into()),
        (true, _) => cx.reply.ok(),
        (false, count) => cx.reply.integer(count),
    }
    Ok(())
}

pub(super) fn reply_mode(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let mode = cx.arg(2);
    if is(mode, "ON") {
        if cx.session.is_monitor && cx.session.reply_mode == ReplyMode::Off {
            cx.shared.monitors.add(&cx.session.client);
        }
        cx.session.reply_mode = ReplyMode::On;
        cx.reply.ok();
    } else if is(mode, "OFF") {
        // Lines are silenced as replies are.
        if cx.session.is_monitor {
            cx.shared.monitors.remove(cx.session.id());
        }
        cx.session.reply_mode = ReplyMode::Off;
    } else if is(mode, "SKIP") {
        if cx.session.reply_mode != ReplyMode::Off {
            cx.session.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(CommandError::Syntax.into());
    }
    Ok(())
}

fn on_or_off(argument: &[u8]) -> Result<bool, CommandError> {
    match () {
        () if is(argument, "ON") => Ok(true),
        () if is(argument, "OFF") => Ok(false),
        () => Err(CommandError::Syntax),
    }
}

pub(super) fn no_evict(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let is_on = on_or_off(cx.arg(2))?;
    // Relaxed: a search for clients to close sees it soon.
    cx.session.client.no_evict.store(is_on, Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

pub(super) fn no_touch(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.session.no_touch = on_or_off(cx.arg(2))?;
    // Relaxed: for others' information only.
    cx.session.client.no_touch.store(cx.session.no_touch, Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

/// Error for a client whose wait another one ended.
const UNBLOCKED: &[u8] = b"UNBLOCKED client unblocked via CLIENT UNBLOCK";

pub(super) fn unblock(cx: &mut SessionCx<'_, '_>) -> Outcome {
    // With more arguments than a reason Valkey looks at none of them.
    let with_error = match cx.args.len() {
        4 if is(cx.arg(3), "TIMEOUT") => false,
        4 if is(cx.arg(3), "ERROR") => true,
        4 => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
        _ => false,
    };
    let id = integer(cx.arg(2))?;
    let waiter = u64::try_from(id).ok().and_then(|id| cx.shared.clients.find(id)?.waiter());
    let is_unblocked = waiter.as_ref().is_some_and(|waiter| waiter.end());
    if let (true, Some(waiter)) = (is_unblocked, waiter) {
        let mut reply = ReplyBuffer::new(waiter.protocol);
        let end = if with_error {
            cx.worker.stats(cx.shared).error_replies.add(1);
            cx.shared.count_error(UNBLOCKED);
            reply.error(UNBLOCKED);
            WaitEnd::Refused
        } else {
            waiter.block.on_timeout.write(&mut reply, cx.shared.durable_record());
            WaitEnd::TimedOut
        };
        // Before the reply, as in Valkey: the client's worker may go on much later.
        cx.worker.count_wait(cx.shared, &waiter, end);
        let worker = waiter.worker;
        let (session, waiter, changed) = (waiter.session, waiter.id, Vec::new());
        let message = Message::Unblocked { session, waiter, end: None, reply, changed };
        cx.shared.mailboxes.post(worker, message);
    }
    cx.reply.integer(i64::from(is_unblocked));
    Ok(())
}

/// The one thing that a client can say of itself, that it follows redirections of a failover, is
/// shown in listings; nobody redirects without replicas.
pub(super) fn capa(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if cx.args.iter().skip(2).any(|capability| is(capability, "redirect")) {
        // Relaxed: for others' information only.
        cx.session.client.follows_redirects.store(true, Ordering::Relaxed);
    }
    cx.reply.ok();
    Ok(())
}

pub(super) fn import_source(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let is_off = is(cx.arg(2), "OFF");
    if !is_off && !cx.worker.settings.import_mode {
        return Err("ERR Server is not in import mode".into());
    }
    if !is_off && !is(cx.arg(2), "ON") {
        return Err(CommandError::Syntax.into());
    }
    set_import_source(cx, !is_off);
    cx.reply.ok();
    Ok(())
}

/// Makes the client a source of an import or an ordinary one, from its next command on.
pub(super) fn set_import_source(cx: &mut SessionCx<'_, '_>, is_source: bool) {
    // Relaxed: written by this thread, and for others' information.
    cx.session.client.is_import_source.store(is_source, Ordering::Relaxed);
    cx.worker.serves_import = is_source;
}

pub(super) fn pause(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let mode = match cx.args.len() {
        4 if is(cx.arg(3), "ALL") => PauseMode::All,
        4 if is(cx.arg(3), "WRITE") => PauseMode::Write,
        4 => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        // As for UNBLOCK.
        _ => PauseMode::All,
    };
    let timeout_ms =
        parse_integer(cx.arg(2)).ok_or("ERR timeout is not an integer or out of range")?;
    let timeout_ms =
        u64::try_from(timeout_ms).map_err(|_| CommandError::from("ERR timeout is negative"))?;
    if timeout_ms > i64::MAX as u64 - cx.worker.now_ms() {
        return Err("ERR timeout is out of range".into());
    }
    cx.shared.pause(mode, timeout_ms);
    cx.reply.ok();
    Ok(())
}

pub(super) fn unpause(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.shared.unpause();
    cx.reply.ok();
    Ok(())
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "CLIENT",
        &[
            ("CACHING (YES|NO)", "Whether keys of the next command are tracked."),
            ("GETNAME", "The name of this connection."),
            ("GETREDIR", "The connection that is told of keys in this one's place."),
            ("ID", "The number of this connection."),
            ("INFO", "A description of this connection."),
            ("KILL <address> | <filter> <value> ...", "Closes connections."),
            ("LIST [<filter> <value> ...]", "Describes open connections."),
            ("NO-EVICT (ON|OFF)", "Keeps this connection from being closed for its memory."),
            ("NO-TOUCH (ON|OFF)", "Lets reads not count as uses of keys."),
            ("PAUSE <ms> [WRITE|ALL]", "Stops commands for a time."),
            ("REPLY (ON|OFF|SKIP)", "Which replies this connection wants."),
            ("SETINFO <option> <value>", "Tells about the client library."),
            ("SETNAME <name>", "Names this connection."),
            ("TRACKING (ON|OFF) [<option> ...]", "Tells when keys change that were read here."),
            ("TRACKINGINFO", "How this connection tracks keys."),
            ("UNBLOCK <id> [TIMEOUT|ERROR]", "Ends the wait of a connection."),
            ("UNPAUSE", "Lets stopped commands go on."),
        ],
    );
    Ok(())
}
