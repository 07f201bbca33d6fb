//! `LATENCY`.

use tidemill_resp::encode::ReplyBuffer;

use super::{doctor, graph};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::command::Command;
use crate::error::CommandError;
use crate::memory;
use crate::telemetry::histogram::Times;

fn now_s(cx: &SessionCx<'_, '_>) -> u64 {
    cx.shared.clock.wall_us() / 1_000_000
}

pub(super) fn latest(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let events = cx.shared.latency.all();
    cx.reply.array(events.len());
    for (name, series) in events {
        let last = series.samples.back().expect("an event that happened has a sample");
        cx.reply.array(6);
        cx.reply.bulk(name);
        for number in [last.unix_s, last.ms, series.max_ms, series.sum_ms, series.count] {
            cx.reply.integer(number as i64);
        }
    }
    Ok(())
}

pub(super) fn history(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let samples = cx.shared.latency.find(cx.arg(2)).unwrap_or_default().samples;
    cx.reply.array(samples.len());
    for sample in samples {
        cx.reply.array(2);
        cx.reply.integer(sample.unix_s as i64);
        cx.reply.integer(sample.ms as i64);
    }
    Ok(())
}

pub(super) fn reset(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let events: Vec<&[u8]> = cx.args.iter().skip(2).collect();
    cx.reply.integer(cx.shared.latency.reset(&events) as i64);
    Ok(())
}

pub(super) fn graph(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let event = cx.arg(2);
    let Some(series) = cx.shared.latency.find(event) else {
        let before = "ERR No samples available for event '";
        return Err(CommandError::quoting(before, event, "'").into());
    };
    let samples: Vec<_> = series.samples.iter().copied().collect();
    let all_ms = || samples.iter().map(|sample| sample.ms);
    let text = format!(
        "{} - high {} ms, low {} ms (all time high {} ms)\n{}\n{}",
        String::from_utf8_lossy(event),
        all_ms().max().unwrap_or(0),
        all_ms().min().unwrap_or(0),
        series.max_ms,
        "-".repeat(80),
        graph::draw(&samples, now_s(cx)),
    );
    cx.reply.verbatim(*b"txt", text);
    Ok(())
}

pub(super) fn doctor(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let is_on = cx.worker.settings.latency_ns_min != u64::MAX;
    let report = doctor::report(&cx.shared.latency.all(), is_on, now_s(cx));
    cx.reply.verbatim(*b"txt", report);
    Ok(())
}

/// True if `meant`, a command that `LATENCY HISTOGRAM` was given, is this one or its container.
fn is_meant(command: &Command, meant: &Command) -> bool {
    let container = command.name.split('|').next().unwrap_or(command.name);
    meant.name == command.name || meant.name == container
}

fn reply_times(reply: &mut ReplyBuffer, name: &str, times: &Times) {
    reply.bulk(name);
    reply.map(2);
    reply.bulk("calls");
    reply.integer(times.calls as i64);
    reply.bulk("histogram_usec");
    let points = times.by_doublings();
    reply.map(points.len());
    for (us, calls) in points {
        reply.integer(us as i64);
        reply.integer(calls as i64);
    }
}

pub(super) fn histogram(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let shared = cx.shared;
    let all = shared.commands.callable().map(|(id, command)| (command, shared.command_times(id)));
    let called: Vec<(&Command, Times)> = all.filter(|(_, times)| times.calls > 0).collect();
    let found = if cx.args.len() == 2 {
        called.iter().collect()
    } else {
        // In the order of the arguments, as in Valkey: clients of RESP2 may go by the places.
        let named = cx.args.iter().skip(2).filter_map(|name| shared.commands.called_in_full(name));
        memory::collect(named.flat_map(|id| {
            let meant = shared.commands.command(id);
            called.iter().filter(|(command, _)| is_meant(command, meant))
        }))?
    };
    cx.reply.map(found.len());
    found.iter().for_each(|(command, times)| reply_times(cx.reply, command.name, times));
    Ok(())
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "LATENCY",
        &[
            ("DOCTOR", "A report on latency, with advice."),
            ("GRAPH <event>", "A drawing of the history of an event."),
            ("HISTORY <event>", "Unix times and the worst milliseconds of those seconds."),
            ("LATEST", "All events: the latest second, the worst, the sum and the count."),
            ("RESET [<event> ...]", "Forgets events, by default all."),
            ("HISTOGRAM [<command> ...]", "How many calls took how many microseconds at most."),
        ],
    );
    Ok(())
}
