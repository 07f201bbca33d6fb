//! `OBJECT`: what is inside of keys.

use tidemill_store::EntryRef;

use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;

fn entry<'g>(cx: &mut Cx<'_, 'g>) -> Option<EntryRef<'g>> {
    cx.inspect(cx.arg(2))
}

pub(super) fn encoding(cx: &mut Cx<'_, '_>) -> Outcome {
    match entry(cx) {
        Some(entry) => cx.reply.bulk(entry.encoding().name()),
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn freq(cx: &mut Cx<'_, '_>) -> Outcome {
    if entry(cx).is_none() {
        cx.reply.null();
        return Ok(());
    }
    Err("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
         that when switching between policies at runtime LRU and LFU data will take some time to \
         adjust."
        .into())
}

pub(super) fn idletime(cx: &mut Cx<'_, '_>) -> Outcome {
    match entry(cx) {
        Some(entry) => {
            let idle_s = cx.recency().wrapping_sub(entry.recency());
            cx.reply.integer(i64::from(idle_s));
        }
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn refcount(cx: &mut Cx<'_, '_>) -> Outcome {
    match entry(cx) {
        Some(_) => cx.reply.integer(1),
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "OBJECT",
        &[
            ("ENCODING <key>", "How the value is encoded."),
            ("FREQ <key>", "How often the key is used, under an LFU policy."),
            ("IDLETIME <key>", "For how many seconds the key was not used."),
            ("REFCOUNT <key>", "How many references the value has."),
        ],
    );
    Ok(())
}
