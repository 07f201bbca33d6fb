//! Arms that measure by themselves: a program that prints its metrics as one JSON object.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::experiment::metrics::METRICS;
use crate::load::Stop;

const STOP_POLL: Duration = Duration::from_millis(20);

/// Runs the words to their end (or to `stop`) and reads the last line of their output. Blocks.
///
/// # Errors
/// When the program fails, or its last line is no object of known metrics with positive numbers.
pub(super) fn run_program(words: &[String], stop: &Stop) -> Result<BTreeMap<String, f64>, String> {
    let name = words.first().ok_or("an empty program")?;
    let mut child = Command::new(name)
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("{name}: {error}"))?;
    let mut output = child.stdout.take().ok_or("no output to read")?;
    let read = move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    };
    let reader = match std::thread::Builder::new().spawn(read) {
        Ok(reader) => reader,
        Err(error) => {
            kill_group(&child);
            let _ = child.wait();
            return Err(format!("a thread cannot be started: {error}"));
        }
    };
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            kill_group(&child);
        }
        std::thread::sleep(STOP_POLL);
    };
    let text = reader.join().map_err(|_| "the output could not be read")?;
    let text = text.map_err(|error| format!("{name}: {error}"))?;
    if !status.success() {
        return Err(format!("{name}: {status}"));
    }
    parse_metrics(&text).map_err(|error| format!("{name}: {error}"))
}

/// Kills the group of a child that is not reaped yet, so that the group is still its own.
fn kill_group(child: &Child) {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn parse_metrics(text: &str) -> Result<BTreeMap<String, f64>, String> {
    let line = text.lines().last().unwrap_or_default();
    let metrics: BTreeMap<String, f64> =
        serde_json::from_str(line).map_err(|error| format!("{line:?} is no report: {error}"))?;
    for (name, value) in &metrics {
        if !METRICS.iter().any(|metric| metric.name == name) || !value.is_finite() {
            return Err(format!("{line:?} is no report: {name}"));
        }
    }
    if metrics.is_empty() { Err("an empty report".into()) } else { Ok(metrics) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_report_and_anything_else_an_error() {
        let words = |line: &str| ["sh", "-c", line].map(String::from);
        let run = |line| run_program(&words(line), &Stop::default());
        let metrics = run("echo building; echo '{\"ops_per_second\": 12.5}'").unwrap();
        assert_eq!(metrics["ops_per_second"], 12.5);
        for line in ["true", "echo '{}'", "echo '{\"speed\": 1}'", "echo '{\"p99_ms\": 1}'; exit 3"]
        {
            assert!(run(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_stop_ends_the_program_and_its_children() {
        let stop = Stop::default();
        stop.store(true, Ordering::Relaxed);
        let words = ["sh", "-c", "sleep 60 | cat"].map(String::from);
        let start = std::time::Instant::now();
        assert!(run_program(&words, &stop).is_err());
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
