//! `CONFIG`.

use crate::access::options::is;
use crate::access::outcome::{Outcome, Stop};
use crate::access::session_context::SessionCx;
use crate::config::Configuration;
use crate::error::CommandError;
use crate::memory::Room;
use crate::slots::parking::WaitTarget;
use crate::worker::session::Begun;

pub(super) fn get(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let patterns: Vec<&[u8]> = cx.args.iter().skip(2).collect();
    let configuration = cx.shared.configuration();
    let found = configuration.matching(&patterns);
    cx.reply.map(found.len());
    for (name, value) in found {
        cx.reply.bulk(name);
        cx.reply.bulk(value);
    }
    Ok(())
}

/// Directives that are not changed while data are loaded, which come from where they say.
const FIXED_WHILE_LOADING: [&str; 2] = ["appendonly", "dir"];

pub(super) fn set(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if cx.session.take_begun() == Some(Begun::LogClosing) {
        return await_closed_log(cx);
    }
    if !cx.args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax.into());
    }
    let changes: Vec<(&[u8], &[u8])> =
        (2..cx.args.len()).step_by(2).map(|index| (cx.arg(index), cx.arg(index + 1))).collect();
    let is_fixed = |name: &[u8]| FIXED_WHILE_LOADING.iter().any(|fixed| is(name, fixed));
    if cx.shared.loading.is_running() && changes.iter().any(|(name, _)| is_fixed(name)) {
        return Err(CommandError::Loading.into());
    }
    let may_change_protected = cx.session.client.is_among(cx.worker.settings.protected_configs);
    let before_bytes = cx.shared.configuration().client_memory_bytes_max();
    cx.shared
        .configure(&changes, may_change_protected)
        .map_err(|error| CommandError::Bytes(error.wire()))?;
    // Requests behind this one in the same turn run under the new settings.
    cx.worker.refresh_settings(cx.shared);
    cx.session.refresh_user(&cx.shared.users);
    let limit_bytes = cx.shared.configuration().client_memory_bytes_max();
    if limit_bytes > 0 && (before_bytes == 0 || limit_bytes < before_bytes) {
        cx.shared.evict_clients(limit_bytes, Some(cx.session.id()));
    }
    let is_switch_off = |(name, value): &(&[u8], &[u8])| is(name, "appendonly") && is(value, "no");
    if changes.iter().any(is_switch_off) {
        return await_closed_log(cx);
    }
    cx.reply.ok();
    Ok(())
}

/// Answers once a log that was switched off has everything durably and gets nothing more, without
/// keeping the worker from others. Nothing is set a second time: another client may have switched
/// the log on meanwhile. What follows in a transaction is executed at once, so the worker waits
/// there.
fn await_closed_log(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let saving = cx.shared.host.saving();
    if saving.is_log_closing() {
        if !cx.in_transaction {
            cx.session.note_begun(Begun::LogClosing);
            return Err(Stop::wait(WaitTarget::Gate));
        }
        saving.close_log();
    }
    cx.reply.ok();
    Ok(())
}

pub(super) fn resetstat(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.shared.reset_stats();
    cx.reply.ok();
    Ok(())
}

pub(super) fn rewrite(cx: &mut SessionCx<'_, '_>) -> Outcome {
    rewrite_file(cx, Configuration::rewrite)
}

/// `CONFIG REWRITE` with a line of every directive, for `DEBUG`.
pub(super) fn rewrite_whole(cx: &mut SessionCx<'_, '_>) -> Outcome {
    rewrite_file(cx, Configuration::rewrite_whole)
}

fn rewrite_file(
    cx: &mut SessionCx<'_, '_>,
    rewrite: impl Fn(&Configuration, &[u8], &[Vec<u8>]) -> Vec<u8>,
) -> Outcome {
    let configuration = cx.shared.configuration();
    let users = match &cx.worker.settings.users_file {
        Some(_) => Vec::new(),
        None => cx.shared.users.all(),
    };
    let text_bytes: usize = users.iter().map(|user| user.text_bytes()).sum();
    // The lines of the users, put together from their parts, and a file of them.
    Room::of(cx.shared).check(8 * text_bytes as u64)?;
    let users: Vec<Vec<u8>> = users.iter().map(|user| user.describe()).collect();
    cx.shared
        .host
        .rewrite_configuration(&|old| rewrite(&configuration, old, &users))
        .map_err(|text| CommandError::Text(text.into()))?;
    cx.reply.ok();
    Ok(())
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "CONFIG",
        &[
            ("GET <pattern> ...", "Directives that match, and their values."),
            ("SET <directive> <value> ...", "Changes directives, all or none."),
            ("RESETSTAT", "Resets the statistics."),
            ("REWRITE", "Writes the configuration back into its file."),
        ],
    );
    Ok(())
}
