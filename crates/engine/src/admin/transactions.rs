//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.

mod declarations;

use std::sync::Arc;

use crate::access::handler::Handler;
use crate::access::outcome::{Outcome, Stop};
use crate::access::session_context::SessionCx;
use crate::access::unwatch::unwatch;
use crate::command::Command;
use crate::slots::parking::WaitTarget;
use crate::slots::waiter::REGISTRATION_BYTES;
use crate::worker::session::{Transaction, Watch, WatchedKey};

use declarations::*;

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&MULTI, Handler::Session(multi)),
    (&EXEC, Handler::Session(exec_outside)),
    (&DISCARD, Handler::Session(discard)),
    (&WATCH, Handler::Session(watch)),
    (&UNWATCH, Handler::Session(unwatch_all)),
];

fn multi(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if cx.session.transaction.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    let database = cx.session.database;
    cx.session.transaction = Some(Box::new(Transaction { database, ..Transaction::default() }));
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
    // A key is watched from its registration under its slot's lock on; keys need not be registered
    // together.
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
    if watch.flag.is_set() {
        // `EXEC` refuses already.
        return Ok(());
    }
    let watched = WatchedKey { database, key: key.into() };
    if watch.keys.contains(&watched) {
        return Ok(());
    }
    let key_hash = cx.shared.keyspace.key_hash(key);
    let mut lock = crate::access::locks::spin(|| cx.shared.keyspace.try_lock(key_hash.slot))
        .ok_or_else(|| Stop::wait(WaitTarget::Slot(key_hash.slot)))?;
    let clock = cx.worker.locked_expiry_clock(cx.shared);
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
