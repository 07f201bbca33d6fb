//! `SHUTDOWN`.

use crate::access::options::is;
use crate::access::outcome::{Outcome, Stop};
use crate::access::session_context::SessionCx;
use crate::admin::alone::alone;
use crate::error::CommandError;
use crate::shared::log_level;
use crate::slots::parking::WaitTarget;

use super::save::{begin, finish_empty_files};

const FAILED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

/// Options of the command.
#[derive(Clone, Copy)]
struct Options {
    /// True if all data are saved, false if not; by the save points if nothing is said.
    saves: Option<bool>,
    /// A save that fails is no obstacle.
    is_forced: bool,
    /// The end that a signal asked for is called off; nothing else is said then.
    calls_off: bool,
}

impl Options {
    /// `NOW` and `SAFE` change nothing: there is no replica to wait for, and there are no slots.
    fn parse(cx: &SessionCx<'_, '_>) -> Result<Options, CommandError> {
        let options: Vec<&[u8]> = cx.args.iter().skip(1).collect();
        let says = |word| options.iter().any(|option| is(option, word));
        let is_known = options.iter().all(|option| {
            ["NOSAVE", "SAVE", "NOW", "FORCE", "SAFE", "FAILOVER", "ABORT"]
                .iter()
                .any(|word| is(option, word))
        });
        let aborts_only = options.iter().all(|option| is(option, "ABORT"));
        if !is_known || (says("SAVE") && says("NOSAVE")) || (says("ABORT") && !aborts_only) {
            return Err(CommandError::Syntax);
        }
        if says("FAILOVER") {
            return Err("ERR SHUTDOWN FAILOVER is only supported in cluster mode.".into());
        }
        let saves = match (says("SAVE"), says("NOSAVE")) {
            (false, false) => None,
            (saves, _) => Some(saves),
        };
        Ok(Options { saves, is_forced: says("FORCE"), calls_off: says("ABORT") })
    }
}

/// The client as the log names it: without what its user chose, which may be a secret or a line
/// end.
fn origin(cx: &SessionCx<'_, '_>) -> String {
    let client = &cx.session.client;
    format!(
        "id={} addr={} laddr={} fd={}",
        client.id, client.address, client.local_address, client.descriptor
    )
}

/// `SHUTDOWN ABORT`: the end by a signal is called off while it waits. `SHUTDOWN` of a client ends
/// the server in one step, and is never in progress.
fn call_off(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if !cx.shared.signalled_end.call_off() {
        return Err("ERR No shutdown in progress.".into());
    }
    cx.shared.host.forget_signals();
    cx.shared.host.log(log_level::NOTICE, b"Shutdown manually aborted.");
    cx.reply.ok();
    Ok(())
}

/// Saves, and stops the server before anybody can write again.
pub(super) fn shutdown(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let options = Options::parse(cx)?;
    if options.calls_off {
        return call_off(cx);
    }
    let shared = cx.shared;
    if shared.snapshots.cancel() {
        // Its thread notices soon; the file as of now is another one.
        return Err(Stop::wait(WaitTarget::Gate));
    }
    let awaits_first_base = || {
        let facts = shared.host.append_only();
        facts.is_some_and(|facts| facts.awaits_first_base)
    };
    if shared.rewrites.is_running() && awaits_first_base() && !options.is_forced {
        shared.host.log(log_level::WARNING, b"Writing initial AOF, can't exit.");
        return Err(FAILED.into());
    }
    if shared.rewrites.cancel() {
        return Err(Stop::wait(WaitTarget::Gate));
    }
    let saves = options.saves.unwrap_or(!cx.worker.settings.save_points.is_empty());
    // A part of the data must not take the place of all.
    if saves && !shared.loading.is_running() {
        let saved = alone(cx, |cx, gate, _| {
            if shared.snapshots.is_running() {
                // Begun by another worker before it was stopped.
                return None;
            }
            let saving = shared.host.saving();
            let saved = match begin(cx, gate, false) {
                Ok(cut) => saving.save(shared, cut, cx.reader, &cx.worker.heap).is_ok(),
                Err(_) => false,
            };
            if saved || options.is_forced {
                shared.host.shut_down(&origin(cx));
                shared.clients.kill_all();
            }
            Some(saved || options.is_forced)
        })?;
        match saved {
            Some(true) => {}
            Some(false) => return Err(FAILED.into()),
            None => return Err(Stop::wait(WaitTarget::Gate)),
        }
    } else {
        // Keys that were flushed must not come back.
        finish_empty_files(shared);
        shared.host.shut_down(&origin(cx));
    }
    cx.session.close_after_reply = true;
    Ok(())
}
