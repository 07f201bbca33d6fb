//! Changes of whole databases, with all other workers stopped.

use tidemill_resp::number::parse_integer;
use tidemill_store::Detached;
use tidemill_store::gate::ClosedGate;

use crate::command::{Outcome, Stop};
use crate::commands::options::is;
use crate::context::SessionCx;
use crate::error::CommandError;
use crate::execute::keyed;
use crate::expiry::SlotJudge;
use crate::locks::LockSet;
use crate::parking::Place;
use crate::side::Replaced;

/// Runs `work` with all other workers stopped: by the transaction at hand, or now. Its effect is journaled before they
/// go on.
fn alone<T>(
    cx: &mut SessionCx<'_, '_>,
    work: impl FnOnce(&mut SessionCx<'_, '_>, &ClosedGate<'_>) -> T,
) -> Result<T, Box<Stop>> {
    if let Some(gate) = cx.alone {
        return Ok(work(cx, gate));
    }
    let shared = cx.shared;
    let _token = shared.token.try_take(&shared.parking).ok_or_else(|| Stop::wait(Place::Token))?;
    let gate = shared.close_gate(cx.worker.index).ok_or_else(|| Stop::wait(Place::Pause))?;
    let result = work(cx, &gate);
    let (worker, args, database) = (&mut *cx.worker, cx.args, cx.session.database);
    cx.reader.section(&mut |section| {
        keyed::finish(shared, worker, database, &args, LockSet::default(), section);
    });
    Ok(result)
}

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
    flush(cx, database..database + 1)
}

pub(super) fn flushall(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let count = cx.shared.keyspace.database_count();
    flush(cx, 0..count)
}

fn flush(cx: &mut SessionCx<'_, '_>, databases: std::ops::Range<usize>) -> Outcome {
    let is_lazy = is_lazy(cx)?;
    let detached: Vec<Detached> = alone(cx, |cx, gate| {
        let changes: Vec<_> = databases.clone().map(|database| (database, None)).collect();
        touch_watched(cx, gate, &changes);
        let detached: Vec<Detached> =
            databases.filter_map(|database| cx.shared.keyspace.detach(database, gate)).collect();
        cx.worker.changes += detached.iter().map(Detached::key_count).sum::<u64>().max(1);
        detached
    })?;
    if is_lazy {
        cx.shared.free_in_background(detached);
    } else {
        cx.shared.free_detached(detached);
    }
    cx.reply.ok();
    Ok(())
}

/// Tells who watches a key of databases that are emptied or exchanged, given as the old and the new of each, what becomes
/// of it. The others are stopped.
fn touch_watched(
    cx: &mut SessionCx<'_, '_>,
    gate: &ClosedGate<'_>,
    changes: &[(usize, Option<usize>)],
) {
    let shared = cx.shared;
    let judge = SlotJudge::locked(shared, cx.worker);
    cx.reader.section(&mut |section| {
        let find = |database, key: &[u8]| {
            shared.keyspace.find(database, shared.keyspace.key_hash(key), key, section)
        };
        shared.keyspace.for_each_side(gate, |_, side| {
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
    if first != second {
        alone(cx, |cx, gate| {
            touch_watched(cx, gate, &[(first, Some(second)), (second, Some(first))]);
            cx.shared.keyspace.swap_databases(first, second, gate);
            note_ready(cx, gate, &[first, second]);
            cx.worker.changes += 1;
        })?;
    }
    cx.reply.ok();
    Ok(())
}

/// Keys that somebody waits for may have come with the exchange: they are looked at as soon as the others run again.
fn note_ready(cx: &mut SessionCx<'_, '_>, gate: &ClosedGate<'_>, databases: &[usize]) {
    let (shared, worker) = (cx.shared, &mut *cx.worker);
    shared.keyspace.for_each_side(gate, |_, side| {
        for (database, key) in side.waited_for() {
            if databases.contains(&database) {
                worker.postpone(database, key, shared.keyspace.key_hash(key));
            }
        }
    });
}
