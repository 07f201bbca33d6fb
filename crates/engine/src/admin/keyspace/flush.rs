//! Changes of whole databases, with all other workers stopped.

use std::cell::Cell;
use std::ops::Range;

use tidemill_resp::number::parse_integer;
use tidemill_store::Detached;
use tidemill_store::gate::ClosedGate;

use crate::access::expiry::SlotJudge;
use crate::access::options::is;
use crate::access::outcome::{Outcome, Stop};
use crate::access::session_context::SessionCx;
use crate::access::unit::Unit;
use crate::admin::alone::alone;
use crate::error::CommandError;
use crate::limits::{
    LAZY_FLUSH_ROUNDS_MAX, LAZY_FLUSH_US_MAX, SYNC_FLUSH_ROUNDS_MAX, SYNC_FLUSH_US_MAX,
};
use crate::shared::Shared;
use crate::slots::parking::WaitTarget;
use crate::slots::registry::{Replaced, SlotRegistry};
use crate::worker::session::Begun;

fn is_lazy(cx: &SessionCx<'_, '_>) -> Result<bool, CommandError> {
    match cx.args.len() {
        1 => Ok(cx.worker.settings.lazy_user_flush),
        2 if is(cx.arg(1), "ASYNC") => Ok(true),
        2 if is(cx.arg(1), "SYNC") => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}

pub(super) fn flushdb(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let database = cx.session.database;
    flush(cx, |_| database..database + 1, |_, _| {})?;
    cx.reply.ok();
    Ok(())
}

pub(super) fn flushall(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let awaited = match cx.session.take_begun() {
        Some(Begun::EmptyFile(number)) => Some(number),
        _ => {
            let is_loading = cx.shared.loading.is_running();
            let may_wait = cx.alone.is_none() && !cx.in_transaction && !is_loading;
            let number = Cell::new(None);
            // The file may be newer than a flush that is replayed; Valkey empties it then.
            let replays = cx.session.replays;
            let save = |shared: &Shared, changes| {
                if !replays {
                    number.set(save_nothing(shared, changes, may_wait));
                }
            };
            flush(cx, |shared| 0..shared.keyspace.databases_end(), save)?;
            number.get()
        }
    };
    if let Some(number) = awaited.filter(|&number| !cx.shared.snapshots.has_ended_empty(number)) {
        cx.session.note_begun(Begun::EmptyFile(number));
        return Err(Stop::wait(WaitTarget::Gate));
    }
    cx.reply.ok();
    Ok(())
}

/// Flushed keys must not come back: a save that is under way is given up, and where there are
/// save points the file has nothing from now on. A file that cannot be written is no reason not to
/// flush, as in Valkey. With `may_wait` it may be written beside the workers: returns its number
/// then, which the reply has to wait for, so that keys that were said to be gone stay so.
fn save_nothing(shared: &Shared, own_changes: u64, may_wait: bool) -> Option<u32> {
    shared.snapshots.cancel();
    if shared.settings().save_points.is_empty() {
        return None;
    }
    let number = shared.begin_empty_file(own_changes);
    let saving = shared.host.saving();
    if may_wait && saving.save_nothing_beside(shared).is_ok() {
        return Some(number);
    }
    saving.save_nothing(shared, number);
    None
}

/// Empties databases, which are asked for when all others are stopped.
/// `behind` is done before they go on, given the changes of this command, which are counted later.
fn flush(
    cx: &mut SessionCx<'_, '_>,
    databases: impl Fn(&Shared) -> Range<usize>,
    behind: impl Fn(&Shared, u64),
) -> Outcome {
    let is_lazy = is_lazy(cx)?;
    let detached: Vec<Detached> = alone(cx, |cx, gate, unit| {
        let databases = databases(cx.shared);
        let changes: Vec<_> = databases.clone().map(|database| (database, None)).collect();
        touch_watched(cx, gate, unit, &changes);
        forget_tracked(cx, gate, unit);
        let flushed = databases.clone();
        let (shared, heap) = (cx.shared, &cx.worker.heap);
        let keyspace = &shared.keyspace;
        let detached: Vec<Detached> =
            databases.filter_map(|database| keyspace.detach(database, gate, heap)).collect();
        shared.note_detached(&detached);
        let keys: u64 = detached.iter().map(|detached| detached.key_count).sum();
        unit.note_changes(keys);
        // Consumers of groups that are gone wait in vain.
        note_ready(cx, gate, unit, |database| flushed.contains(&database));
        behind(shared, unit.changes());
        detached
    })?;
    if !detached.is_empty() && cx.alone.is_none() {
        free(cx, is_lazy);
    }
    Ok(())
}

/// Frees flushed data, or has much of it freed on another thread if that is wanted lazily. Its
/// grace period is over in a moment: the others announce at their next boundary. A reader that
/// takes longer, or a long reply, leaves it to the next tick.
fn free(cx: &mut SessionCx<'_, '_>, is_lazy: bool) {
    let shared = cx.shared;
    let (wait_us, rounds_max) = match is_lazy {
        true => (LAZY_FLUSH_US_MAX, LAZY_FLUSH_ROUNDS_MAX),
        false => (SYNC_FLUSH_US_MAX, SYNC_FLUSH_ROUNDS_MAX),
    };
    let deadline_us = shared.clock.monotonic_us() + wait_us;
    // By rounds too: a clock may stand still.
    for _ in 0..rounds_max {
        cx.reader.reclaim(&cx.worker.heap);
        let is_handed_on = if is_lazy {
            shared.free_unreachable_in_background()
        } else {
            shared.free_unreachable();
            false
        };
        if is_handed_on
            || shared.lazily_freed().bytes == 0
            || shared.keyspace.has_pinned_unreachable()
            || shared.clock.monotonic_us() >= deadline_us
        {
            return;
        }
        if is_lazy {
            // A thread that is yielded to may keep the processor for milliseconds.
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

/// Reaches the sides of all slots, those that the unit has locked included.
fn for_each_side(
    shared: &Shared,
    gate: &ClosedGate<'_>,
    unit: &mut Unit<'_>,
    visit: &mut dyn FnMut(&mut SlotRegistry),
) {
    let locked = shared.keyspace.for_each_side(gate, |_, side| visit(side));
    for slot in locked {
        let own = unit.lock(slot).expect("with all others stopped only this unit has locks");
        own.side_if_any().into_iter().for_each(&mut *visit);
    }
}

/// Tells who watches a key of databases that are emptied or exchanged, given as the old and the new
/// of each, what becomes of it. The others are stopped.
pub(in crate::admin) fn touch_watched(
    cx: &mut SessionCx<'_, '_>,
    gate: &ClosedGate<'_>,
    unit: &mut Unit<'_>,
    changes: &[(usize, Option<usize>)],
) {
    let shared = cx.shared;
    let judge = SlotJudge::locked(shared, cx.worker);
    let reader = &mut *cx.reader;
    reader.section(&mut |section| {
        let find = |database, key: &[u8]| {
            shared.keyspace.find(database, shared.keyspace.key_hash(key), key, section)
        };
        for_each_side(shared, gate, unit, &mut |side| {
            side.replace_watched(|database, key| {
                let Some(&(_, new)) = changes.iter().find(|(old, _)| *old == database) else {
                    return Replaced::Unaffected;
                };
                let existed = find(database, key).is_some();
                let Some(found) = new.and_then(|new| find(new, key)) else {
                    return if existed { Replaced::Gone } else { Replaced::Unaffected };
                };
                match (judge.is_over(found), existed) {
                    (false, _) => Replaced::Changed,
                    (true, true) => Replaced::Expired,
                    (true, false) => Replaced::NewExpired,
                }
            });
        });
    });
}

/// Tells all who keep copies of keys that nothing is as it was. The others are stopped.
pub(in crate::admin) fn forget_tracked(
    cx: &mut SessionCx<'_, '_>,
    gate: &ClosedGate<'_>,
    unit: &mut Unit<'_>,
) {
    let shared = cx.shared;
    // There may be keys of clients that have ended.
    if shared.tracking.totals.keys() > 0 {
        for_each_side(shared, gate, unit, &mut |side| side.tracked.clear(&shared.tracking.totals));
    }
    cx.worker.invalidate_all(shared);
}

fn index(argument: &[u8], which: &str) -> Result<i64, CommandError> {
    parse_integer(argument)
        .filter(|&index| i32::try_from(index).is_ok())
        .ok_or_else(|| CommandError::err(format_args!("invalid {which} DB index")))
}

pub(super) fn swapdb(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let first = index(cx.arg(1), "first")?;
    let second = index(cx.arg(2), "second")?;
    let count = cx.shared.keyspace.database_count();
    let in_range = |index: i64| usize::try_from(index).ok().filter(|&index| index < count);
    let (Some(first), Some(second)) = (in_range(first), in_range(second)) else {
        return Err("ERR DB index is out of range".into());
    };
    alone(cx, |cx, gate, unit| {
        if first != second {
            touch_watched(cx, gate, unit, &[(first, Some(second)), (second, Some(first))]);
            forget_tracked(cx, gate, unit);
            cx.shared.keyspace.swap_databases(first, second, gate);
            note_ready(cx, gate, unit, |database| [first, second].contains(&database));
        }
        unit.note_changes(1);
    })?;
    cx.reply.ok();
    Ok(())
}

/// Keys that somebody waits for may have come with an exchange, or have gone: they are looked at as
/// soon as the others run again.
fn note_ready(
    cx: &mut SessionCx<'_, '_>,
    gate: &ClosedGate<'_>,
    unit: &mut Unit<'_>,
    concerns: impl Fn(usize) -> bool,
) {
    let (shared, worker) = (cx.shared, &mut *cx.worker);
    for_each_side(shared, gate, unit, &mut |side| {
        for (database, key) in side.waited_for() {
            if concerns(database) {
                worker.postpone(database, key, shared.keyspace.key_hash(key));
            }
        }
    });
}
