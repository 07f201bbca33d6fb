//! Metrics of a run: their names and titles, and their values from the counts of a load.

use std::collections::BTreeMap;

use crate::load::command::Role;
use crate::load::{KindResult, RunResult, Settings};
use crate::report::ServerUsage;
use crate::stats::Direction;

/// A metric of a run.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name in files.
    pub name: &'static str,
    /// Name in reports, with the unit.
    pub title: &'static str,
    /// Way that is good.
    pub direction: Direction,
}

const fn up(name: &'static str, title: &'static str) -> Metric {
    Metric { name, title, direction: Direction::HigherIsBetter }
}

const fn down(name: &'static str, title: &'static str) -> Metric {
    Metric { name, title, direction: Direction::LowerIsBetter }
}

/// All metrics, in the order of the report.
pub const METRICS: &[Metric] = &[
    up("ops_per_second", "ops/s"),
    up("set_ops_per_second", "SET ops/s"),
    down("set_average_ms", "SET average, ms"),
    down("set_p50_ms", "SET p50, ms"),
    down("set_p99_ms", "SET p99, ms"),
    down("set_p999_ms", "SET p99.9, ms"),
    up("get_ops_per_second", "GET ops/s"),
    down("get_average_ms", "GET average, ms"),
    down("get_p50_ms", "GET p50, ms"),
    down("get_p99_ms", "GET p99, ms"),
    down("get_p999_ms", "GET p99.9, ms"),
    down("average_ms", "average, ms"),
    down("p50_ms", "p50, ms"),
    down("p99_ms", "p99, ms"),
    down("p999_ms", "p99.9, ms"),
    down("server_cpu_us", "server CPU per operation, us"),
    down("server_instructions", "server instructions per operation"),
    down("server_switches", "server context switches per second"),
    down("client_cpu_us", "client CPU per operation, us"),
    up("get_hit_percent", "GET hits, %"),
    down("server_peak_mb", "peak resident memory of the server, MB"),
    down("snapshot_copy_mb", "memory that the last save took, MB"),
    up("delivered_mb_per_second", "received by subscribers, MB/s"),
    up("reads_per_second", "reads/s"),
    up("writes_per_second", "writes/s"),
];

/// The metrics of a run; those without enough samples are left out.
pub(super) fn metrics_of(settings: &Settings, run: &RunResult) -> BTreeMap<String, f64> {
    let seconds = run.duration.as_secs_f64().max(1e-9);
    let mut metrics = BTreeMap::new();
    let mut put = |name: String, value: f64| metrics.insert(name, value);
    let latencies = |prefix: &str, kind: &KindResult, put: &mut dyn FnMut(String, f64)| {
        put(format!("{prefix}ops_per_second"), kind.total.ops as f64 / seconds);
        put(format!("{prefix}average_ms"), kind.latency.mean_ns() / 1e6);
        for (percentile, name) in [(50.0, "p50"), (99.0, "p99"), (99.9, "p999")] {
            if kind.latency.supports_percentile(percentile) {
                let value_ms = kind.latency.percentile_ns(percentile) as f64 / 1e6;
                put(format!("{prefix}{name}_ms"), value_ms);
            }
        }
    };
    let mut put = |name: String, value: f64| {
        put(name, value);
    };
    for (command, kind) in settings.commands.iter().zip(&run.kinds) {
        match command.role {
            Role::Set => latencies("set_", kind, &mut put),
            Role::Get => {
                latencies("get_", kind, &mut put);
                let answered = kind.total.hits + kind.total.misses;
                if answered > 0 {
                    let percent = kind.total.hits as f64 * 100.0 / answered as f64;
                    put("get_hit_percent".into(), percent);
                }
            }
            Role::Other => {}
        }
    }
    latencies("", &run.total(), &mut put);
    let ops = run.ops();
    if let Some(cpu_us) = run.server.cpu_us_per_operation(ops) {
        put("server_cpu_us".into(), cpu_us);
    }
    if let Some(hardware) = run.server_hardware {
        put("server_instructions".into(), hardware.instructions as f64 / ops.max(1) as f64);
    }
    if let ServerUsage::Local(process) = &run.server {
        let total = process.total();
        let switches = total.voluntary_switches + total.involuntary_switches;
        put("server_switches".into(), switches as f64 / seconds);
        put("server_peak_mb".into(), process.peak_bytes as f64 / 1e6);
    }
    put("client_cpu_us".into(), run.client_cpu_ns() as f64 / 1e3 / ops.max(1) as f64);
    metrics
}

/// The title of a metric.
pub fn title(name: &str) -> &str {
    METRICS.iter().find(|metric| metric.name == name).map_or(name, |metric| metric.title)
}
