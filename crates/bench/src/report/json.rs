//! memtier's JSON report. Its readers depend on the names: they stay as memtier 2.x writes them;
//! our own entries are under `"tidemill"`.

use serde_json::{Map, Value, json};

use crate::cli::flags::Flags;
use crate::histogram::Histogram;
use crate::load::settings::{End, Endpoint};
use crate::load::{RunResult, SecondResult, Settings};
use crate::report::table::{Row, Table, distribution};

/// The whole document.
pub(crate) fn json_report(
    flags: &Flags,
    settings: &Settings,
    runs: &[(String, &RunResult)],
    by_line: bool,
) -> Value {
    let mut document = Map::new();
    document.insert("configuration".into(), configuration(flags, settings));
    document.insert(
        "run information".into(),
        json!({
            "Threads": settings.threads,
            "Connections per thread": settings.connections,
            "Requests per client": requests(settings),
            "Format version": 2,
        }),
    );
    for (title, run) in runs {
        let table = Table::new(settings, run, &flags.print_percentiles, by_line);
        document.insert(title.clone(), run_stats(&table));
    }
    Value::Object(document)
}

fn requests(settings: &Settings) -> u64 {
    match settings.end {
        End::Requests(requests) => requests,
        End::Time(_) => 0,
    }
}

fn text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// Everything but secrets.
fn configuration(flags: &Flags, settings: &Settings) -> Value {
    let test_time = match settings.end {
        End::Time(time) => time.as_secs_f64(),
        End::Requests(_) => 0.0,
    };
    let path = |path: &Option<std::path::PathBuf>| {
        path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    };
    // An address that was given as a URI too.
    let (server, port, socket) = match &settings.target.endpoint {
        Endpoint::Tcp(host, port) => (host.clone(), *port, String::new()),
        Endpoint::Unix(path) => (flags.host.clone(), flags.port, path.display().to_string()),
    };
    json!({
        "server": server,
        "port": port,
        "unix socket": socket,
        "address family": if flags.ipv4 { "ipv4" } else if flags.ipv6 { "ipv6" } else { "unspec" },
        "protocol": flags.protocol,
        "out_file": path(&flags.out_file),
        "client_stats": path(&flags.client_stats),
        "run_count": flags.run_count,
        "debug": 0,
        "requests": requests(settings),
        "rate_limit": flags.rate_limiting.unwrap_or(0.0),
        "clients": settings.connections,
        "threads": settings.threads,
        "test_time": test_time,
        "ratio": flags.ratio,
        "pipeline": settings.pipeline,
        "data_size": flags.data_size,
        "data_offset": flags.data_offset,
        "random_data": text(flags.random_data),
        "data_size_range": flags.data_size_range.clone().unwrap_or_else(|| "0:0".into()),
        "data_size_list": flags.data_size_list.clone().unwrap_or_default(),
        "data_size_pattern": flags.data_size_pattern,
        "expiry_range": flags.expiry_range.clone().unwrap_or_else(|| "0:0".into()),
        "key_prefix": flags.key_prefix,
        "key_minimum": flags.key_minimum,
        "key_maximum": flags.key_maximum,
        "key_pattern": flags.key_pattern,
        "key_stddev": settings.keys.standard_deviation,
        "key_median": settings.keys.median,
        "key_zipf_exp": settings.keys.zipf_exponent,
        "reconnect_interval": flags.reconnect_interval,
        "multi_key_get": flags.multi_key_get,
        "authenticate": if settings.target.password.is_some() { "(secret)" } else { "" },
        "select-db": settings.target.database,
        "distinct_client_seed": text(settings.seeds.distinct),
        "seed": settings.seeds.run,
        "print_percentiles": flags.print_percentiles,
    })
}

fn run_stats(table: &Table<'_>) -> Value {
    let run = table.run;
    let mut stats = Map::new();
    let duration_ms = run.duration.as_millis() as u64;
    stats.insert(
        "Runtime".into(),
        json!({
            "Start time": run.started_ms,
            "Finish time": run.started_ms + duration_ms,
            "Total duration": duration_ms,
            "Time unit": "MILLISECONDS",
            "Interrupted": text(run.interrupted),
        }),
    );
    for row in &table.rows {
        stats.insert(row.label.clone(), row_stats(row, table));
        if row.label == "Gets" {
            stats.insert("Waits".into(), waits());
        }
    }
    for row in &table.rows[..table.rows.len() - 1] {
        let lines = distribution(&row.result.latency);
        let lines = lines.iter().map(|(ms, percent)| json!({"<=msec": ms, "percent": percent}));
        stats.insert(row.name.clone(), lines.collect());
    }
    Value::Object(stats)
}

fn waits() -> Value {
    json!({"Count": 0, "Ops/sec": 0.0, "Hits/sec": 0.0, "Misses/sec": 0.0, "Latency": 0.0})
}

fn rounded(value: f64, digits: i32) -> Value {
    let scale = 10f64.powi(digits);
    json!((value * scale).round() / scale)
}

fn row_stats(row: &Row, table: &Table<'_>) -> Value {
    let seconds = table.run.duration.as_secs_f64().max(1e-9);
    let total = &row.result.total;
    let latency = &row.result.latency;
    let rate = |count: u64| rounded(count as f64 / seconds, 2);
    let kilobytes = |bytes: u64| rounded(bytes as f64 / 1024.0 / seconds, 2);
    let milliseconds = |value_ns: f64| rounded(value_ns / 1e6, 5);
    let both = total.bytes_received + total.bytes_sent;
    let mut stats = json!({
        "Count": total.ops,
        "Ops/sec": rate(total.ops),
        "Hits/sec": rate(total.hits),
        "Misses/sec": rate(total.misses),
        "Connection Errors/sec": rate(table.run.trouble.connections_lost),
        "Connection Errors": table.run.trouble.connections_lost,
        "Latency": milliseconds(latency.mean_ns()),
        "Average Latency": milliseconds(latency.mean_ns()),
        "Accumulated Latency": latency.sum_ns() / 1_000_000,
        "Min Latency": milliseconds(latency.min_ns() as f64),
        "Max Latency": milliseconds(latency.max_ns() as f64),
        "KB/sec": kilobytes(both),
        "KB/sec RX/TX": kilobytes(both),
        "KB/sec RX": kilobytes(total.bytes_received),
        "KB/sec TX": kilobytes(total.bytes_sent),
    });
    let mut series = Map::new();
    for (number, second) in row.result.seconds.iter().enumerate() {
        series.insert(number.to_string(), second_stats(second, &table.percentiles));
    }
    stats["Time-Serie"] = Value::Object(series);
    let mut percentiles = percentile_stats(latency, &table.percentiles);
    percentiles.insert(
        "Histogram log format".into(),
        json!({"Compressed Histogram": super::hdr::compressed(latency)}),
    );
    stats["Percentile Latencies"] = Value::Object(percentiles);
    stats
}

fn second_stats(second: &SecondResult, percentiles: &[f64]) -> Value {
    let latency = second.latency.to_histogram();
    let mut stats = Map::new();
    stats.insert("Bytes RX".into(), json!(second.bytes_received));
    stats.insert("Bytes TX".into(), json!(second.bytes_sent));
    stats.insert("Count".into(), json!(second.ops));
    if second.ops > 0 {
        let milliseconds = |value_ns: f64| rounded(value_ns / 1e6, 5);
        stats.insert("Average Latency".into(), milliseconds(latency.mean_ns()));
        stats.insert("Accumulated Latency".into(), json!(latency.sum_ns() / 1_000_000));
        stats.insert("Min Latency".into(), milliseconds(latency.min_ns() as f64));
        stats.insert("Max Latency".into(), milliseconds(latency.max_ns() as f64));
        stats.extend(percentile_stats(&latency, percentiles));
    }
    Value::Object(stats)
}

/// Percentiles under memtier's keys. One without enough samples beyond it is `null`.
fn percentile_stats(latency: &Histogram, percentiles: &[f64]) -> Map<String, Value> {
    let value = |percentile: f64| match latency.supports_percentile(percentile) {
        true => rounded(latency.percentile_ns(percentile) as f64 / 1e6, 5),
        false => Value::Null,
    };
    percentiles.iter().map(|&percentile| (percentile_key(percentile), value(percentile))).collect()
}

/// `p99.90`, as memtier writes it; more digits only where two do not suffice.
pub(crate) fn percentile_key(percentile: f64) -> String {
    let short = format!("{percentile:.2}");
    if short.parse() == Ok(percentile) { format!("p{short}") } else { format!("p{percentile}") }
}
