//! `HOTKEYS`, with the syntax and replies of Redis 8.6.

use tidemill_resp::encode::ReplyBuffer;
use tidemill_store::limits::SLOT_COUNT;

use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::error::CommandError;
use crate::limits::HOT_KEYS_MAX;
use crate::shared::{ProcessorTime, Shared};
use crate::telemetry::hot_keys::{Heaviest, HotKeysPlan, HotKeysReport};

/// Keys that are told by default.
const COUNT: usize = 10;
const DURATION_S_MAX: i64 = 1_000_000;
const METRICS: i64 = 2;

/// An argument within a range; `wrong` is the error of any other.
fn within(argument: &[u8], most: i64, wrong: &'static str) -> Result<i64, CommandError> {
    let value = integer(argument).ok().filter(|value| (1..=most).contains(value));
    value.ok_or(CommandError::from(wrong))
}

/// User and system time of the process, ms.
fn cpu_ms(shared: &Shared) -> (u64, u64) {
    let ProcessorTime { user_s, system_s } = shared.host.processor_time();
    ((user_s * 1000.0) as u64, (system_s * 1000.0) as u64)
}

/// The metrics behind their number, and the index behind them.
fn metrics(cx: &SessionCx<'_, '_>) -> Result<(bool, bool, usize), CommandError> {
    if cx.args.len() < 4 || !is(cx.arg(2), "METRICS") {
        return Err("ERR METRICS parameter is required".into());
    }
    let count = within(cx.arg(3), METRICS, "ERR METRICS count must be > 0 and <= 2")? as usize;
    if cx.args.len() < 4 + count {
        return Err("ERR METRICS count does not match number of metric types provided".into());
    }
    let (mut by_time, mut by_bytes) = (false, false);
    for name in (4..4 + count).map(|index| cx.arg(index)) {
        if is(name, "CPU") {
            if std::mem::replace(&mut by_time, true) {
                return Err("ERR METRICS CPU defined more than once!".into());
            }
        } else if is(name, "NET") && std::mem::replace(&mut by_bytes, true) {
            return Err("ERR METRICS NET defined more than once!".into());
        }
    }
    if !by_time && !by_bytes {
        return Err("ERR METRICS no valid metrics passed. Supported: CPU|NET".into());
    }
    Ok((by_time, by_bytes, 4 + count))
}

fn plan(cx: &SessionCx<'_, '_>) -> Result<HotKeysPlan, CommandError> {
    let (by_time, by_bytes, mut index) = metrics(cx)?;
    let mut plan = HotKeysPlan {
        by_time,
        by_bytes,
        count: COUNT,
        duration_ms: 0,
        sample_ratio: 1,
        started_ms: cx.worker.now_ms(),
        cpu_ms: cpu_ms(cx.shared),
    };
    while index < cx.args.len() {
        let option = cx.arg(index);
        if index + 1 == cx.args.len() {
            return Err(CommandError::Syntax);
        }
        let value = cx.arg(index + 1);
        if is(option, "COUNT") {
            let most = HOT_KEYS_MAX as i64;
            plan.count = within(value, most, "ERR COUNT must be between 1 and 64")? as usize;
        } else if is(option, "DURATION") {
            let wrong = "ERR DURATION must be between 1 and 1000000";
            plan.duration_ms = 1000 * within(value, DURATION_S_MAX, wrong)? as u64;
        } else if is(option, "SAMPLE") {
            let wrong = "ERR SAMPLE ratio must be positive";
            plan.sample_ratio = within(value, i32::MAX.into(), wrong)? as u64;
        } else if is(option, "SLOTS") {
            return Err("ERR SLOTS parameter cannot be used in non-cluster mode".into());
        } else {
            return Err(CommandError::Syntax);
        }
        index += 2;
    }
    Ok(plan)
}

pub(super) fn start(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let running = "ERR hotkey tracking session already in progress";
    if cx.shared.hot_keys.report(cx.worker.now_ms()).is_some_and(|report| report.is_active) {
        return Err(CommandError::from(running).into());
    }
    let plan = plan(cx)?;
    if !cx.shared.hot_keys.start(plan) {
        return Err(CommandError::from(running).into());
    }
    cx.reply.ok();
    Ok(())
}

pub(super) fn stop(cx: &mut SessionCx<'_, '_>) -> Outcome {
    match cx.shared.hot_keys.stop(cx.worker.now_ms()) {
        true => cx.reply.ok(),
        false => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn reset(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if !cx.shared.hot_keys.reset(cx.worker.now_ms()) {
        let running = "ERR hotkey tracking session in progress, stop tracking first";
        return Err(CommandError::from(running).into());
    }
    cx.reply.ok();
    Ok(())
}

fn reply_number(reply: &mut ReplyBuffer, name: &str, value: u64) {
    reply.bulk(name);
    reply.integer(value as i64);
}

fn reply_keys(reply: &mut ReplyBuffer, name: &str, keys: &Heaviest, unit: u64) {
    reply.bulk(name);
    reply.array(2 * keys.len());
    for (key, weight) in keys {
        reply.bulk(key);
        // A key that was noted took something.
        reply.integer(weight.div_ceil(unit) as i64);
    }
}

pub(super) fn get(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let Some(report) = cx.shared.hot_keys.report(cx.worker.now_ms()) else {
        cx.reply.null();
        return Ok(());
    };
    let cpu_ms = cpu_ms(cx.shared);
    let HotKeysReport { plan, by_time, by_bytes, .. } = &report;
    let reply = &mut *cx.reply;
    // An array of one, which proxies of several servers make longer.
    reply.array(1);
    reply.map(8 + if plan.by_time { 3 } else { 0 } + if plan.by_bytes { 2 } else { 0 });
    reply_number(reply, "tracking-active", report.is_active.into());
    reply_number(reply, "sample-ratio", plan.sample_ratio);
    reply.bulk("selected-slots");
    reply.array(1);
    reply.array(2);
    reply.integer(0);
    reply.integer(SLOT_COUNT as i64 - 1);
    reply_number(reply, "all-commands-all-slots-us", report.ns / 1000);
    reply_number(reply, "net-bytes-all-commands-all-slots", report.bytes);
    reply_number(reply, "collection-start-time-unix-ms", plan.started_ms);
    reply_number(reply, "collection-duration-ms", report.elapsed_ms);
    if plan.by_time {
        let (user, system) = plan.cpu_ms;
        reply_number(reply, "total-cpu-time-user-ms", cpu_ms.0.saturating_sub(user));
        reply_number(reply, "total-cpu-time-sys-ms", cpu_ms.1.saturating_sub(system));
    }
    if plan.by_bytes {
        reply_number(reply, "total-net-bytes", report.bytes);
    }
    if plan.by_time {
        reply_keys(reply, "by-cpu-time-us", by_time, 1000);
    }
    if plan.by_bytes {
        reply_keys(reply, "by-net-bytes", by_bytes, 1);
    }
    // Not in Redis, where nobody waits for a slot.
    reply.bulk("parks-by-slot");
    reply.array(2 * report.parks.len());
    for (slot, count) in report.parks {
        reply.integer(slot as i64);
        reply.integer(count as i64);
    }
    Ok(())
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "HOTKEYS",
        &[
            ("GET", "The hottest keys so far, by the metrics of the measurement."),
            ("RESET", "Forgets a measurement that is over."),
            (
                "START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] \
                 [SAMPLE <ratio>]",
                "Begins to measure the time and bytes that keys take; tells 10 keys by default.",
            ),
            ("STOP", "Ends the measurement. Its result stays."),
        ],
    );
    Ok(())
}
