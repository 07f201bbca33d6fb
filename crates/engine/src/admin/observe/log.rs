//! `SLOWLOG` and `COMMANDLOG`.

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::number::parse_integer;

use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::error::{CommandError, until_nul};
use crate::telemetry::command_log::{LogEntry, LogKind};

/// Entries that `SLOWLOG GET` answers when it is not told how many.
const DEFAULT_COUNT: usize = 10;

fn kind(name: &[u8]) -> Result<LogKind, CommandError> {
    LogKind::parse(name).ok_or(CommandError::from(
        "ERR type should be one of the following: slow, large-request, large-reply",
    ))
}

/// Number of entries that are asked for; -1 is all.
fn count(argument: &[u8]) -> Result<usize, CommandError> {
    match parse_integer(argument) {
        Some(-1) => Ok(usize::MAX),
        Some(count @ 0..) => Ok(count as usize),
        _ => Err("ERR count should be greater than or equal to -1".into()),
    }
}

fn reply_entry(reply: &mut ReplyBuffer, entry: &LogEntry) {
    reply.array(6);
    reply.integer(entry.id as i64);
    reply.integer(entry.unix_s as i64);
    reply.integer(entry.value as i64);
    reply.array(entry.arguments.len());
    entry.arguments.iter().for_each(|argument| reply.bulk(argument));
    reply.bulk(&entry.client_address);
    // A C string in Valkey.
    reply.bulk(until_nul(&entry.client_name));
}

fn reply_newest(cx: &mut SessionCx<'_, '_>, kind: LogKind, count: usize) -> Outcome {
    let entries = cx.shared.command_logs.newest(kind, count);
    cx.reply.array(entries.len());
    entries.iter().for_each(|entry| reply_entry(cx.reply, entry));
    Ok(())
}

fn reply_len(cx: &mut SessionCx<'_, '_>, kind: LogKind) -> Outcome {
    cx.reply.integer(cx.shared.command_logs.len(kind) as i64);
    Ok(())
}

fn reply_reset(cx: &mut SessionCx<'_, '_>, kind: LogKind) -> Outcome {
    cx.shared.command_logs.reset(kind);
    cx.reply.ok();
    Ok(())
}

pub(super) fn slow_get(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let count = match cx.args.len() {
        2 => DEFAULT_COUNT,
        3 => count(cx.arg(2))?,
        _ => return Err(CommandError::subcommand_syntax("SLOWLOG", cx.arg(1)).into()),
    };
    reply_newest(cx, LogKind::Slow, count)
}

pub(super) fn slow_len(cx: &mut SessionCx<'_, '_>) -> Outcome {
    reply_len(cx, LogKind::Slow)
}

pub(super) fn slow_reset(cx: &mut SessionCx<'_, '_>) -> Outcome {
    reply_reset(cx, LogKind::Slow)
}

pub(super) fn slow_help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "SLOWLOG",
        &[
            (
                "GET [<count>]",
                "The newest slow commands (10; -1 is all): id, Unix time, microseconds, arguments, \
                 address and name of the client.",
            ),
            ("LEN", "How many are remembered."),
            ("RESET", "Forgets them."),
        ],
    );
    Ok(())
}

pub(super) fn get(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let count = count(cx.arg(2))?;
    let kind = kind(cx.arg(3))?;
    reply_newest(cx, kind, count)
}

pub(super) fn len(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let kind = kind(cx.arg(2))?;
    reply_len(cx, kind)
}

pub(super) fn reset(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let kind = kind(cx.arg(2))?;
    reply_reset(cx, kind)
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "COMMANDLOG",
        &[
            (
                "GET <count> <type>",
                "The newest entries (-1 is all): id, Unix time, microseconds (slow) or bytes \
                 (large-request, large-reply), arguments, address and name of the client.",
            ),
            ("LEN <type>", "How many are remembered."),
            ("RESET <type>", "Forgets them."),
        ],
    );
    Ok(())
}
