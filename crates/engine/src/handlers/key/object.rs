//! `OBJECT`: what is inside of keys.

use tidemill_store::EntryRef;

use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::use_stamp::UseStamp;

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
    let Some(entry) = entry(cx) else {
        cx.reply.null();
        return Ok(());
    };
    if !cx.settings().counts_uses() {
        return Err("ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
                    Please note that when switching between policies at runtime LRU and LFU data \
                    will take some time to adjust."
            .into());
    }
    let stamp = UseStamp::of_field(entry.recency());
    let frequency = stamp.frequency(cx.use_s(), cx.settings().frequency_scale);
    cx.reply.integer(i64::from(frequency));
    Ok(())
}

pub(super) fn idletime(cx: &mut Cx<'_, '_>) -> Outcome {
    let Some(entry) = entry(cx) else {
        cx.reply.null();
        return Ok(());
    };
    if cx.settings().counts_uses() {
        return Err("ERR An LFU maxmemory policy is selected, idle time not tracked. Please note \
                    that when switching between policies at runtime LRU and LFU data will take \
                    some time to adjust."
            .into());
    }
    let idle_s = UseStamp::of_field(entry.recency()).idle_s(cx.use_s());
    cx.reply.integer(i64::from(idle_s));
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
