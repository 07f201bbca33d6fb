//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.

use std::sync::Arc;

use crate::blocking::REGISTRATION_BYTES;
use crate::command::{
    Argument, ArgumentKind, Categories, Command, Flags, Group, Handler, KeyFlags, KeySpec, Outcome,
    Stop,
};
use crate::context::SessionCx;
use crate::execute::transaction::unwatch;
use crate::parking::Place;
use crate::session::{Transaction, Watch, WatchedKey};

/// The family.
pub const COMMANDS: &[&Command] = &[&MULTI, &EXEC, &DISCARD, &WATCH, &UNWATCH];

const FLAGS: Flags = Flags::NOSCRIPT
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::FAST)
    .union(Flags::ALLOW_BUSY);

const MULTI: Command = Command {
    name: "multi",
    summary: "Opens a transaction: the commands that follow are queued until EXEC.",
    since: "1.2.0",
    group: Group::Transactions,
    arity: 1,
    flags: FLAGS.union(Flags::NO_MULTI),
    categories: Categories::TRANSACTION,
    handler: Handler::Session(multi),
    ..Command::BASE
};

const EXEC: Command = Command {
    name: "exec",
    summary: "Runs all queued commands as one.",
    since: "1.2.0",
    complexity: "Depends on commands in the transaction",
    group: Group::Transactions,
    arity: 1,
    flags: Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::SKIP_SLOWLOG),
    categories: Categories::TRANSACTION,
    handler: Handler::Session(exec_outside),
    ..Command::BASE
};

const DISCARD: Command = Command {
    name: "discard",
    summary: "Closes a transaction and forgets its commands.",
    since: "2.0.0",
    complexity: "O(N), when N is the number of queued commands",
    group: Group::Transactions,
    arity: 1,
    flags: FLAGS,
    categories: Categories::TRANSACTION,
    handler: Handler::Session(discard),
    ..Command::BASE
};

const WATCH: Command = Command {
    name: "watch",
    summary: "Makes the next EXEC depend on keys staying as they are.",
    since: "2.2.0",
    complexity: "O(1) for every key.",
    group: Group::Transactions,
    arity: -2,
    flags: FLAGS.union(Flags::NO_MULTI),
    categories: Categories::TRANSACTION,
    keys: &[KeySpec::range(1, -1, 1, KeyFlags::RO)],
    arguments: &[Argument::new("key", ArgumentKind::Key(0)).multiple()],
    handler: Handler::Session(watch),
    ..Command::BASE
};

const UNWATCH: Command = Command {
    name: "unwatch",
    summary: "Forgets all watched keys.",
    since: "2.2.0",
    group: Group::Transactions,
    arity: 1,
    flags: FLAGS,
    categories: Categories::TRANSACTION,
    handler: Handler::Session(unwatch_all),
    ..Command::BASE
};

fn multi(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if cx.session.transaction.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    cx.session.transaction = Some(Box::<Transaction>::default());
    cx.session.show_transaction();
    cx.reply.ok();
    Ok(())
}

/// `EXEC` itself is run by the executor; this is what is left without an open transaction.
fn exec_outside(_cx: &mut SessionCx<'_, '_>) -> Outcome {
    Err("ERR EXEC without MULTI".into())
}

fn discard(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if cx.session.transaction.take().is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    cx.session.show_transaction();
    unwatch(cx.shared, cx.worker, cx.session, None);
    cx.reply.ok();
    Ok(())
}

fn unwatch_all(cx: &mut SessionCx<'_, '_>) -> Outcome {
    unwatch(cx.shared, cx.worker, cx.session, None);
    cx.reply.ok();
    Ok(())
}

fn watch(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if cx.session.transaction.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    // A key is watched from its registration under its slot's lock on; keys need not be registered together.
    for key in cx.args.iter().skip(1) {
        watch_key(cx, key)?;
    }
    cx.session.show_transaction();
    cx.reply.ok();
    Ok(())
}

fn watch_key(cx: &mut SessionCx<'_, '_>, key: &[u8]) -> Outcome {
    let database = cx.session.database;
    let client = &cx.session.client;
    let watch = cx.session.watch.get_or_insert_with(|| {
        let watch = Box::<Watch>::default();
        client.set_watch(Some(Arc::clone(&watch.flag)));
        watch
    });
    let watched = WatchedKey { database, key: key.into() };
    if watch.keys.contains(&watched) {
        return Ok(());
    }
    let key_hash = cx.shared.keyspace.key_hash(key);
    let mut lock = crate::locks::spin(|| cx.shared.keyspace.try_lock(key_hash.slot))
        .ok_or_else(|| Stop::wait(Place::Slot(key_hash.slot)))?;
    let clock = cx.shared.locked_expiry_clock(cx.worker);
    let mut was_expired = false;
    cx.reader.section(&mut |section| {
        let found = lock.find(database, key_hash, key, section);
        let expires_at_ms = found.and_then(|found| found.entry.expires_at_ms());
        if let Some(at_ms) = expires_at_ms.filter(|&at_ms| clock.has_passed(at_ms)) {
            cx.shared.saw_expired(at_ms);
            was_expired = true;
        }
    });
    let side = lock.side();
    cx.worker.ended.settle(key_hash.slot, side);
    side.watch(database, key, &watch.flag, was_expired);
    watch.keys.insert(watched);
    watch.bytes += 2 * key.len() + size_of::<WatchedKey>() + REGISTRATION_BYTES;
    cx.session.client.note_watched(watch.keys.len(), watch.bytes);
    Ok(())
}
