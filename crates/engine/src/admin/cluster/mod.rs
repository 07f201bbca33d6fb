//! Commands of a cluster, on a server that belongs to none: they are refused as Valkey refuses
//! them, apart from those that need no cluster.

mod declarations;

use std::sync::atomic::Ordering;

use crate::access::handler::Handler;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::command::Command;
use crate::error::CommandError;
use tidemill_store::SlotNumber;

use declarations::*;

/// Commands that have subcommands only.
pub(crate) const CONTAINERS: &[&Command] = &[&CLUSTER];

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&ASKING_ONCE, Handler::Session(refused)),
    (&CLUSTER_ADDSLOTS, Handler::Session(refused)),
    (&CLUSTER_ADDSLOTSRANGE, Handler::Session(refused)),
    (&CLUSTER_BUMPEPOCH, Handler::Session(refused)),
    (&CLUSTER_CANCELSLOTMIGRATIONS, Handler::Session(refused)),
    (&CLUSTER_COUNTKEYSINSLOT, Handler::Session(refused)),
    (&CLUSTER_COUNT_FAILURE_REPORTS, Handler::Session(refused)),
    (&CLUSTER_DELSLOTS, Handler::Session(refused)),
    (&CLUSTER_DELSLOTSRANGE, Handler::Session(refused)),
    (&CLUSTER_FAILOVER, Handler::Session(refused)),
    (&CLUSTER_FLUSHSLOT, Handler::Session(refused)),
    (&CLUSTER_FLUSHSLOTS, Handler::Session(refused)),
    (&CLUSTER_FORGET, Handler::Session(refused)),
    (&CLUSTER_GETKEYSINSLOT, Handler::Session(refused)),
    (&CLUSTER_GETSLOTMIGRATIONS, Handler::Session(refused)),
    (&CLUSTER_HELP, Handler::Session(help)),
    (&CLUSTER_INFO, Handler::Session(refused)),
    (&CLUSTER_KEYSLOT, Handler::Session(key_slot)),
    (&CLUSTER_LINKS, Handler::Session(refused)),
    (&CLUSTER_MEET, Handler::Session(refused)),
    (&CLUSTER_MIGRATESLOTS, Handler::Session(refused)),
    (&CLUSTER_MYID, Handler::Session(refused)),
    (&CLUSTER_MYSHARDID, Handler::Session(refused)),
    (&CLUSTER_NODES, Handler::Session(refused)),
    (&CLUSTER_REPLICAS, Handler::Session(refused)),
    (&CLUSTER_REPLICATE, Handler::Session(refused)),
    (&CLUSTER_RESET, Handler::Session(refused)),
    (&CLUSTER_SAVECONFIG, Handler::Session(refused)),
    (&CLUSTER_SETSLOT, Handler::Session(refused)),
    (&CLUSTER_SET_CONFIG_EPOCH, Handler::Session(refused)),
    (&CLUSTER_SHARDS, Handler::Session(refused)),
    (&CLUSTER_SLAVES, Handler::Session(refused)),
    (&CLUSTER_SLOTS, Handler::Session(refused)),
    (&CLUSTER_SLOT_STATS, Handler::Session(refused)),
    (&CLUSTER_SYNCSLOTS, Handler::Session(refused)),
    (&READONLY_CONNECTION, Handler::Session(read_only)),
    (&READWRITE_CONNECTION, Handler::Session(read_write)),
];

fn refused(_: &mut SessionCx<'_, '_>) -> Outcome {
    Err(CommandError::err("This instance has cluster support disabled").into())
}

fn read_only(cx: &mut SessionCx<'_, '_>) -> Outcome {
    note_readonly(cx, true)
}

fn read_write(cx: &mut SessionCx<'_, '_>) -> Outcome {
    note_readonly(cx, false)
}

/// Shows the mode in `CLIENT LIST`. Any connection may read and write here: without a cluster the
/// mode says nothing else in Valkey either.
fn note_readonly(cx: &mut SessionCx<'_, '_>, is_readonly: bool) -> Outcome {
    // Relaxed: for others' information only.
    cx.session.client.is_readonly.store(is_readonly, Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

fn key_slot(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let slot = SlotNumber::of_key(cx.arg(2));
    cx.reply.integer(slot.index() as i64);
    Ok(())
}

fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let subcommands = [("KEYSLOT <key>", "Slot of a key. The others need a cluster.")];
    crate::access::help::reply(cx.reply, "CLUSTER", &subcommands);
    Ok(())
}
