//! Small commands about the server.

use std::thread;
use std::time::Duration;

use tidemill_resp::number::parse_double;

use crate::command::Outcome;
use crate::commands::options::{integer, is};
use crate::context::{Cx, SessionCx};
use crate::error::CommandError;

pub(super) fn time(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let now_us = cx.shared.clock.unix_us();
    cx.reply.array(2);
    cx.reply.bulk((now_us / 1_000_000).to_string());
    cx.reply.bulk((now_us % 1_000_000).to_string());
    Ok(())
}

/// `DEBUG SLEEP`: holds up its worker, as a command that takes long does.
pub(super) fn debug(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if !cx.worker.settings.enable_debug_command {
        return Err("ERR DEBUG command not allowed. If the enable-debug-command option is set to \
                    \"local\", you can run it from a local connection, otherwise you need to set \
                    this option in the configuration file, and then restart the server."
            .into());
    }
    if is(cx.arg(1), "SLEEP") && cx.args.len() == 3 {
        let seconds = parse_double(cx.arg(2)).filter(|seconds| *seconds >= 0.0);
        let seconds = seconds.ok_or(CommandError::NotAFloat)?;
        thread::sleep(Duration::try_from_secs_f64(seconds).map_err(|_| CommandError::NotAFloat)?);
        cx.reply.ok();
        return Ok(());
    }
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(cx.arg(1));
    text.extend_from_slice(b"'. Try DEBUG HELP.");
    Err(CommandError::Bytes(text).into())
}

pub(super) fn lolwut(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let picture = format!(
        "       .-.\n  _.--'   `--._      .-.\n-'             `--..-'   `-.._\n\nTidemill ver. {}\n",
        env!("CARGO_PKG_VERSION")
    );
    cx.reply.verbatim(*b"txt", picture);
    Ok(())
}

pub(super) fn shutdown(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let options: Vec<&[u8]> = cx.args.iter().skip(1).collect();
    let says = |word| options.iter().any(|option| is(option, word));
    let is_known = options.iter().all(|option| {
        ["NOSAVE", "SAVE", "NOW", "FORCE", "ABORT"].iter().any(|word| is(option, word))
    });
    if !is_known || (says("SAVE") && says("NOSAVE")) || (says("ABORT") && options.len() > 1) {
        return Err(CommandError::Syntax.into());
    }
    if says("ABORT") {
        return Err("ERR No shutdown in progress.".into());
    }
    if says("SAVE") {
        return Err("ERR Errors trying to SHUTDOWN. Check logs.".into());
    }
    cx.shared.host.shut_down();
    cx.session.close_after_reply = true;
    Ok(())
}

pub(super) fn memory_usage(cx: &mut Cx<'_, '_>) -> Outcome {
    let mut index = 3;
    while index < cx.args.len() {
        if !is(cx.arg(index), "SAMPLES") || index + 1 == cx.args.len() {
            return Err(CommandError::Syntax.into());
        }
        if integer(cx.arg(index + 1))? < 0 {
            return Err(CommandError::Syntax.into());
        }
        index += 2;
    }
    match cx.peek(cx.arg(2)) {
        Some(entry) => cx.reply.integer(entry.total_bytes() as i64),
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn memory_help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::commands::help::reply(
        cx.reply,
        "MEMORY",
        &[("USAGE <key> [SAMPLES <count>]", "The bytes that a key and its value take.")],
    );
    Ok(())
}
