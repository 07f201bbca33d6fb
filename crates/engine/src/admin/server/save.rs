//! Saves of all data, and what is told of them.

use tidemill_store::Cut;
use tidemill_store::gate::ClosedGate;

use crate::access::options::is;
use crate::access::outcome::{Outcome, Stop};
use crate::access::session_context::SessionCx;
use crate::access::unit::Unit;
use crate::admin::alone::alone;
use crate::admin::keyspace::flush::{forget_tracked, touch_watched};
use crate::commit::ActiveSinks;
use crate::error::CommandError;
use crate::limits::EMPTY_FILE_WAITS_MAX;
use crate::saving::{LoadSource, Present};
use crate::shared::loading::Reload;
use crate::shared::{AlreadySaving, Shared};
use crate::slots::parking::WaitTarget;
use crate::worker::session::Begun;

const REWRITING: &str = "ERR Another child process is active (AOF?): can't BGSAVE right now. Use \
                         BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible.";

const REWRITE_IN_PROGRESS: &str = "ERR Background append only file rewriting already in progress";
const DIRECTORY_CHANGES: &str =
    "ERR The working directory is being changed by CONFIG SET, try again";

const IN_PROGRESS: &str = "ERR Background save already in progress";

const LOAD_FAILED: &str = "ERR Error trying to load the RDB dump, check server logs.";

const LOG_LOAD_FAILED: &str = "ERR Error trying to load the AOF files, check server logs.";

/// Valkey's error without a text.
const FAILED: CommandError = CommandError::Text(std::borrow::Cow::Borrowed("ERR"));

pub(super) fn lastsave(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.integer(last_save_s(cx.shared) as i64);
    Ok(())
}

/// Time of the last save, Unix time in seconds of the wall clock as it goes now.
pub(super) fn last_save_s(shared: &Shared) -> u64 {
    let figures = shared.snapshots.figures(0, 0);
    figures.last_save_s.saturating_sub(shared.clock.ahead_ms() / 1000)
}

/// Begins a save of what there is now.
pub(super) fn begin(
    cx: &mut SessionCx<'_, '_>,
    gate: &ClosedGate<'_>,
    is_background: bool,
) -> Result<Cut, CommandError> {
    finish_empty_files(cx.shared);
    let (shared, mut begun) = (cx.shared, Err(AlreadySaving));
    cx.reader.section(&mut |section| begun = shared.begin_save(gate, section, is_background));
    begun.map_err(|AlreadySaving| IN_PROGRESS.into())
}

/// Writes the files of flushes that are not there yet: a save comes behind them. Blocks on the disk
/// for two files at most; with all others stopped no client asks for another one.
pub(super) fn finish_empty_files(shared: &Shared) {
    if let Some(number) = shared.snapshots.latest_awaited_empty() {
        shared.host.saving().save_nothing(shared, number);
    }
}

/// True if the file of a flush is to be waited for before a save, without keeping the worker from
/// others; not for ever, since clients may go on flushing.
fn gives_way_to_empty_file(cx: &SessionCx<'_, '_>) -> bool {
    !cx.in_transaction
        && cx.session.gate_attempts() < EMPTY_FILE_WAITS_MAX
        && cx.shared.snapshots.latest_awaited_empty().is_some()
}

/// Only one cut of the data is written at a time: a rewrite of the log is begun anew later.
pub(super) fn give_way_to_save(cx: &SessionCx<'_, '_>) -> Outcome {
    let snapshots = &cx.shared.snapshots;
    if snapshots.is_running() {
        return wait_or(snapshots.is_cancelled() && !cx.in_transaction, IN_PROGRESS);
    }
    if gives_way_to_empty_file(cx) {
        return Err(Stop::wait(WaitTarget::Gate));
    }
    match cx.shared.rewrites.put_off() && !cx.in_transaction {
        // Its thread notices soon.
        true => Err(Stop::wait(WaitTarget::Gate)),
        false => Ok(()),
    }
}

/// Waits for the end of what was cancelled, whose thread notices soon; answers an error otherwise.
fn wait_or(waits: bool, error: &'static str) -> Outcome {
    match waits {
        true => Err(Stop::wait(WaitTarget::Gate)),
        false => Err(error.into()),
    }
}

pub(super) fn save(cx: &mut SessionCx<'_, '_>) -> Outcome {
    give_way_to_save(cx)?;
    let saved = alone(cx, |cx, gate, _| {
        let cut = begin(cx, gate, false)?;
        let saving = cx.shared.host.saving();
        saving.save(cx.shared, cut, cx.reader, &cx.worker.heap).map_err(|_| FAILED)
    })?;
    saved?;
    cx.reply.ok();
    Ok(())
}

pub(super) fn bgsave(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let snapshots = &cx.shared.snapshots;
    match cx.args.len() {
        1 => {}
        2 if is(cx.arg(1), "SCHEDULE") => {}
        2 if is(cx.arg(1), "CANCEL") => {
            let answer = if snapshots.cancel() {
                "Background saving cancelled"
            } else if snapshots.unschedule() {
                "Scheduled background saving cancelled"
            } else {
                let none = "ERR Background saving is currently not in progress or scheduled";
                return Err(none.into());
            };
            cx.reply.simple_string(answer);
            return Ok(());
        }
        _ => return Err(CommandError::Syntax.into()),
    }
    if snapshots.is_running() {
        return wait_or(snapshots.is_cancelled() && !cx.in_transaction, IN_PROGRESS);
    }
    if gives_way_to_empty_file(cx) {
        return Err(Stop::wait(WaitTarget::Gate));
    }
    let is_rewriting = cx.shared.rewrites.is_running();
    if is_rewriting && !cx.in_transaction && cx.args.len() == 1 {
        return Err(REWRITING.into());
    }
    if is_rewriting || cx.in_transaction {
        snapshots.schedule();
        cx.reply.simple_string("Background saving scheduled");
        return Ok(());
    }
    let begun = alone(cx, |cx, gate, _| {
        let cut = begin(cx, gate, true)?;
        cx.shared.host.saving().save_in_background(cx.shared, cut).map_err(|_| FAILED)
    })?;
    begun?;
    cx.reply.simple_string("Background saving started");
    Ok(())
}

pub(super) fn bgrewriteaof(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let shared = cx.shared;
    if shared.rewrites.is_running() {
        let is_cancelled = shared.rewrites.is_cancelled();
        return wait_or(is_cancelled && !cx.in_transaction, REWRITE_IN_PROGRESS);
    }
    if shared.snapshots.is_running() || cx.in_transaction {
        shared.rewrites.forget_failures();
        shared.rewrites.schedule();
        cx.reply.simple_string("Background append only file rewriting scheduled");
        return Ok(());
    }
    if !shared.rewrites.begin(shared.clock.unix_us()) {
        let is_running = shared.rewrites.is_running();
        return Err(if is_running { REWRITE_IN_PROGRESS } else { DIRECTORY_CHANGES }.into());
    }
    shared.host.saving().rewrite_log(shared).map_err(|_| {
        CommandError::from(
            "ERR Can't execute an AOF background rewriting. Please check the server logs for more \
             information.",
        )
    })?;
    cx.reply.simple_string("Background append only file rewriting started");
    Ok(())
}

/// `DEBUG LOADAOF`: all data from the append-only file, in the way of [`reload`].
pub(super) fn load_log(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if cx.in_transaction {
        return Err("ERR DEBUG LOADAOF is not supported in a transaction".into());
    }
    if let Some(outcome) = reload_outcome(cx, LOG_LOAD_FAILED) {
        return outcome;
    }
    give_way_to_save(cx)?;
    alone(cx, |cx, gate, unit| {
        // Records that are replayed are in the log.
        cx.shared.sinks.switch(ActiveSinks::empty(), gate);
        begin_load(cx, (gate, unit), LoadSource::Log);
    })?;
    Err(Stop::wait(WaitTarget::Reload))
}

/// Outcome of the loading that the session has begun before, if it has.
fn reload_outcome(cx: &mut SessionCx<'_, '_>, failed: &'static str) -> Option<Outcome> {
    match cx.shared.loading.take_reload(cx.session.id()) {
        Reload::Absent if cx.shared.loading.is_running() => Some(Err(CommandError::Loading.into())),
        Reload::Absent => None,
        Reload::Running => Some(Err(Stop::wait(WaitTarget::Reload))),
        Reload::Ended(true) => {
            cx.reply.ok();
            Some(Ok(()))
        }
        Reload::Ended(false) => Some(Err(failed.into())),
    }
}

/// Options of `DEBUG RELOAD`.
#[derive(Clone, Copy)]
struct ReloadOptions {
    saves: bool,
    present: Present,
}

impl ReloadOptions {
    fn parse(cx: &SessionCx<'_, '_>) -> Result<ReloadOptions, CommandError> {
        let (mut saves, mut flushes, mut merges) = (true, true, false);
        for option in cx.args.iter().skip(2) {
            match () {
                () if is(option, "NOSAVE") => saves = false,
                () if is(option, "NOFLUSH") => flushes = false,
                () if is(option, "MERGE") => merges = true,
                () => {
                    let text =
                        "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
                    return Err(text.into());
                }
            }
        }
        let present = match (flushes, merges) {
            (true, _) => Present::Removed,
            (false, false) => Present::Kept,
            (false, true) => Present::Replaced,
        };
        Ok(ReloadOptions { saves, present })
    }
}

/// `DEBUG RELOAD`: all data through the file and back. The session waits while another thread
/// loads; others are answered that data is being loaded.
pub(super) fn reload(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let options = ReloadOptions::parse(cx)?;
    if cx.in_transaction {
        return Err("ERR DEBUG RELOAD is not supported in a transaction".into());
    }
    if let Some(outcome) = reload_outcome(cx, LOAD_FAILED) {
        return outcome;
    }
    give_way_to_save(cx)?;
    alone(cx, |cx, gate, unit| begin_reload(cx, (gate, unit), options))??;
    Err(Stop::wait(WaitTarget::Reload))
}

/// Saves, empties the keyspace, and leaves the loading to another thread, as the options say.
/// Nothing is lost when the file is not even of a known version.
fn begin_reload(
    cx: &mut SessionCx<'_, '_>,
    (gate, unit): (&ClosedGate<'_>, &mut Unit<'_>),
    options: ReloadOptions,
) -> Result<(), CommandError> {
    let shared = cx.shared;
    let saving = shared.host.saving();
    finish_empty_files(shared);
    if options.saves {
        let cut = begin(cx, gate, false)?;
        saving.save(shared, cut, cx.reader, &cx.worker.heap).map_err(|_| FAILED)?;
    }
    saving.check_loadable(shared).map_err(|_| CommandError::from(LOAD_FAILED))?;
    begin_load(cx, (gate, unit), LoadSource::Snapshot(options.present));
    Ok(())
}

/// Empties the keyspace, unless keys are to be kept, and leaves the loading to another thread.
fn begin_load(
    cx: &mut SessionCx<'_, '_>,
    (gate, unit): (&ClosedGate<'_>, &mut Unit<'_>),
    source: LoadSource,
) {
    let shared = cx.shared;
    let databases = 0..shared.keyspace.databases_end();
    // As a flush does: that the same keys come back is not known yet, nor which are replaced.
    let emptied: Vec<_> = databases.clone().map(|database| (database, None)).collect();
    touch_watched(cx, gate, unit, &emptied);
    forget_tracked(cx, gate, unit);
    let keeps_keys = matches!(source, LoadSource::Snapshot(Present::Kept | Present::Replaced));
    if !keeps_keys {
        let (keyspace, heap) = (&shared.keyspace, &cx.worker.heap);
        let detached: Vec<_> =
            databases.filter_map(|database| keyspace.detach(database, gate, heap)).collect();
        shared.note_detached(&detached);
    }
    shared.loading.begin_reload(cx.session.id(), shared.clock.unix_us() / 1_000_000);
    cx.session.note_begun(Begun::Reload);
    cx.worker.refresh_loading(shared);
    if shared.host.saving().load_in_background(source).is_err() {
        shared.loading.end_reload(false);
    }
}
