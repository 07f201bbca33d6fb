//! Bottleneck of a run: costs of client and server, and doubts about a run.

use std::io::{self, Write};

use crate::hardware::HardwareUsage;
use crate::limits::{CLIENT_CORE_SHARE_WARNING, LITTLES_LAW_TOLERANCE};
use crate::load::settings::{End, Pace};
use crate::load::{RunResult, Settings};
use crate::process::ProcessUsage;

/// Server side of a run.
#[derive(Clone, Debug)]
pub enum ServerUsage {
    /// A process of this machine, difference over the run.
    Local(ProcessUsage),
    /// CPU seconds from `INFO`, user and system.
    Remote(f64, f64),
    /// Unknown usage.
    Unknown,
}

impl ServerUsage {
    /// Usage of two servers together; unknown when one of them is.
    pub fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Local(mut ours), Self::Local(theirs)) => {
                ours.resident_bytes += theirs.resident_bytes;
                ours.peak_bytes += theirs.peak_bytes;
                // Thread ids are unique on a machine.
                ours.threads.extend(theirs.threads);
                Self::Local(ours)
            }
            (Self::Remote(user, system), Self::Remote(their_user, their_system)) => {
                Self::Remote(user + their_user, system + their_system)
            }
            _ => Self::Unknown,
        }
    }

    /// CPU microseconds per operation.
    pub fn cpu_us_per_operation(&self, ops: u64) -> Option<f64> {
        let ops = ops.max(1) as f64;
        match self {
            Self::Local(process) => Some(process.total().busy_ns() as f64 / 1e3 / ops),
            Self::Remote(user, system) => Some((user + system) * 1e6 / ops),
            Self::Unknown => None,
        }
    }
}

/// `operations x latency / (clients x pipeline)`; 1 in a closed loop that was always full.
pub fn littles_law(settings: &Settings, run: &RunResult) -> Option<f64> {
    let steady = settings.pace == Pace::Closed
        && settings.staircase.is_none()
        && settings.scan_cursor.is_none()
        && settings.window == crate::load::settings::Window::Sliding
        && matches!(settings.end, End::Time(_))
        && run.trouble.connections_lost == 0
        && run.trouble.reconnects == 0;
    if !steady || run.ops() == 0 {
        return None;
    }
    let latency_sum_ns: u64 = run.kinds.iter().map(|kind| kind.latency.sum_ns()).sum();
    let occupied = latency_sum_ns as f64 / run.duration.as_nanos() as f64;
    // In a cluster a client has a connection to every master.
    let places = run.connections.len().max(1) as f64 * f64::from(settings.pipeline);
    Some(occupied / places)
}

/// Doubts about a run, one line each.
pub fn warnings(settings: &Settings, run: &RunResult) -> Vec<String> {
    let mut warnings = Vec::new();
    let seconds = run.duration.as_secs_f64().max(1e-9);
    // One without operations had no load.
    let loaded = if run.ops() > 0 { run.client.as_slice() } else { &[] };
    for (index, usage) in loaded.iter().enumerate() {
        let share = usage.busy_ns() as f64 / 1e9 / seconds;
        if share > CLIENT_CORE_SHARE_WARNING {
            warnings.push(format!(
                "load thread {index} used {:.0} % of a core: the client may be the bottleneck",
                share * 100.0
            ));
        }
    }
    if let Some(ratio) = littles_law(settings, run)
        && (ratio - 1.0).abs() > LITTLES_LAW_TOLERANCE
    {
        warnings.push(format!(
            "Little's law: operations x latency is {ratio:.2} of clients x pipeline: do not trust \
             this run"
        ));
    }
    let trouble = &run.trouble;
    let counts = [
        (trouble.connections_lost, "connections were lost"),
        (trouble.requests_lost, "requests were lost with their connection"),
        (
            trouble.unanswered,
            "requests had no reply when the run ended: the tail is longer than shown",
        ),
        (trouble.unsent, "scheduled requests were never sent: the rate was not reached"),
        (trouble.error_replies, "replies were errors"),
        (trouble.redirections, "of them were MOVED or ASK: these requests were not sent again"),
        (trouble.verify_failures, "values were not those written"),
    ];
    for (count, text) in counts {
        if count > 0 {
            warnings.push(format!("{count} {text}"));
        }
    }
    if let Some(first) = &trouble.first {
        warnings.push(format!("first of these: {first}"));
    }
    warnings
}

/// Writes what client and server cost, and the warnings.
///
/// # Errors
/// When the output cannot be written.
pub fn write_bottleneck(
    out: &mut dyn Write,
    settings: &Settings,
    run: &RunResult,
    server: &ServerUsage,
) -> io::Result<()> {
    if run.trouble.reconnects > 0 {
        writeln!(out, "\nReconnected {} times", run.trouble.reconnects)?;
    }
    if settings.verify {
        writeln!(out, "\nCompared {} values with what was written", run.trouble.verified)?;
    }
    let seconds = run.duration.as_secs_f64().max(1e-9);
    let ops = run.ops().max(1) as f64;
    let client_ns = run.client_cpu_ns() as f64;
    let wait_ns: u64 = run.client.iter().map(|usage| usage.run_queue_wait_ns).sum();
    writeln!(
        out,
        "\nClient: {:.3} us CPU per operation, {:.0} % of {} core(s), waited {:.1} % for a CPU",
        client_ns / 1e3 / ops,
        client_ns / 1e7 / seconds / run.client.len().max(1) as f64,
        run.client.len(),
        wait_ns as f64 / 1e7 / seconds / run.client.len().max(1) as f64,
    )?;
    write_hardware(out, run.client_hardware, ops)?;
    write_server(out, run, server, seconds, ops)?;
    write_hardware(out, run.server_hardware, ops)?;
    match settings.pace {
        Pace::Closed => {
            writeln!(out, "Closed loop: latency depends on the load the client offers.")?
        }
        Pace::Open { .. } => {
            writeln!(out, "Open loop: latency is response time, from the intended start.")?;
            write_service(out, run)?;
        }
    }
    for warning in warnings(settings, run) {
        writeln!(out, "WARNING: {warning}")?;
    }
    Ok(())
}

/// A line per side that has counters.
fn write_hardware(out: &mut dyn Write, usage: Option<HardwareUsage>, ops: f64) -> io::Result<()> {
    let Some(usage) = usage else { return Ok(()) };
    writeln!(
        out,
        "  per operation: {:.0} instructions, {:.2} per cycle, {:.2} cache misses{}",
        usage.instructions as f64 / ops,
        usage.instructions as f64 / usage.cycles.max(1) as f64,
        usage.cache_misses as f64 / ops,
        if usage.user_only { " (user mode only)" } else { "" },
    )
}

fn write_service(out: &mut dyn Write, run: &RunResult) -> io::Result<()> {
    let total = run.total();
    let Some(service) = &total.service else { return Ok(()) };
    write!(out, "Service time (from the actual send): average {:.3} ms", service.mean_ns() / 1e6)?;
    for percentile in [50.0, 99.0, 99.9] {
        if service.supports_percentile(percentile) {
            let value_ms = service.percentile_ns(percentile) as f64 / 1e6;
            write!(out, ", p{percentile} {value_ms:.3} ms")?;
        }
    }
    writeln!(out)
}

fn write_server(
    out: &mut dyn Write,
    run: &RunResult,
    server: &ServerUsage,
    seconds: f64,
    ops: f64,
) -> io::Result<()> {
    let Some(per_operation) = server.cpu_us_per_operation(run.ops()) else {
        return writeln!(out, "Server: cost unknown (not on this machine, and INFO does not tell)");
    };
    let ServerUsage::Local(process) = server else {
        return writeln!(out, "Server: {per_operation:.3} us CPU per operation (from INFO)");
    };
    let total = process.total();
    writeln!(
        out,
        "Server: {per_operation:.3} us CPU per operation, {:.0} % of a core, {} pid {}, RSS {:.1} \
         MiB",
        total.busy_ns() as f64 / 1e7 / seconds,
        process.name,
        process.pid,
        process.resident_bytes as f64 / 1048576.0,
    )?;
    writeln!(
        out,
        "  {:<16} {:>8} {:>10} {:>12} {:>14} {:>11}",
        "thread", "% core", "waited %", "voluntary/s", "involuntary/s", "migrations"
    )?;
    for (name, usage) in process.threads.values() {
        // Threads that did nothing in this run are left out.
        if (usage.busy_ns() as f64) < ops * 0.1 && usage.busy_ns() < 1_000_000 {
            continue;
        }
        writeln!(
            out,
            "  {name:<16} {:>8.1} {:>10.1} {:>12.1} {:>14.1} {:>11}",
            usage.busy_ns() as f64 / 1e7 / seconds,
            usage.run_queue_wait_ns as f64 / 1e7 / seconds,
            usage.voluntary_switches as f64 / seconds,
            usage.involuntary_switches as f64 / seconds,
            usage.migrations.map_or("---".into(), |count| count.to_string()),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::KindResult;
    use crate::load::settings::Target;
    use crate::process::ThreadUsage;
    use std::time::Duration;

    const SECOND_NS: u64 = 1_000_000_000;

    fn settings(pace: Pace) -> Settings {
        let target = Target::tcp("127.0.0.1", 1);
        Settings { connections: 2, pipeline: 4, pace, ..Settings::plain(target) }
    }

    /// A second of two connections with four requests each on their way, with this number of
    /// replies of 1 ms, and a load thread that was busy for a share of it.
    fn run(replies: u64, busy: f64) -> RunResult {
        let mut kind = KindResult::default();
        kind.latency.record_n(1_000_000, replies);
        kind.total.ops = replies;
        RunResult {
            kinds: vec![kind],
            slots: Vec::new(),
            duration: Duration::from_nanos(SECOND_NS),
            started_ms: 0,
            trouble: Default::default(),
            client: vec![ThreadUsage {
                cpu_ns: (busy * SECOND_NS as f64) as u64,
                ..ThreadUsage::default()
            }],
            connections: vec![Default::default(); 2],
            client_hardware: None,
            server_hardware: None,
            server: ServerUsage::Unknown,
            interrupted: false,
        }
    }

    #[test]
    fn a_run_without_operations_has_no_busy_client() {
        let busy = run(8_000, 0.99);
        assert!(warnings(&settings(Pace::Closed), &busy)[0].contains("used 99 % of a core"));
        let idle = RunResult { duration: Duration::ZERO, ..run(0, 0.99) };
        assert_eq!(warnings(&settings(Pace::Closed), &idle), [""; 0]);
    }

    #[test]
    fn a_closed_loop_that_breaks_littles_law_is_doubted() {
        // 8 places: 8,000 replies of 1 ms in a second.
        assert_eq!(littles_law(&settings(Pace::Closed), &run(8_000, 0.0)), Some(1.0));
        assert_eq!(warnings(&settings(Pace::Closed), &run(8_000, 0.0)), [""; 0]);
        for (replies, ratio) in [(6_000, "0.75"), (10_000, "1.25")] {
            let found = warnings(&settings(Pace::Closed), &run(replies, 0.0));
            assert!(
                found.len() == 1
                    && found[0].contains(&format!("Little's law: operations x latency is {ratio}")),
                "{found:?}"
            );
        }
        // In an open loop places may be empty.
        let steps = vec![(0.0, 6_000.0)];
        let open = Pace::Open { arrivals: crate::load::settings::Arrivals::Even, steps };
        assert_eq!(littles_law(&settings(open), &run(6_000, 0.0)), None);
    }

    #[test]
    fn a_load_thread_above_four_fifths_of_a_core_is_doubted() {
        assert_eq!(warnings(&settings(Pace::Closed), &run(8_000, 0.79)), [""; 0]);
        let found = warnings(&settings(Pace::Closed), &run(8_000, 0.85));
        assert_eq!(found, ["load thread 0 used 85 % of a core: the client may be the bottleneck"]);
    }

    #[test]
    fn lost_connections_are_counted_with_their_first_reason() {
        let mut run = run(8_000, 0.0);
        run.trouble.connections_lost = 2;
        run.trouble.unanswered = 3;
        run.trouble.first = Some("the server closed the connection".into());
        let found = warnings(&settings(Pace::Closed), &run);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].starts_with("2 connections were lost")
                && found[1].starts_with("3 requests had no reply")
        );
        assert_eq!(found[2], "first of these: the server closed the connection");
    }
}
