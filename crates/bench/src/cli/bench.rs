//! `tidemill bench`: one load, reported.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{CommandFactory, FromArgMatches};
use tidemill_host::output::{note, print_line, print_text};

use crate::cli::flags::Flags;
use crate::cli::outputs;
use crate::cli::settings;
use crate::cli::{
    EXIT_INTERRUPTED, EXIT_TROUBLE, EXIT_UNREACHABLE, EXIT_USAGE, handle_signals, refuse,
};
use crate::load::preload::{foreign_keys_warning, remove_all_keys, write_all_keys};
use crate::load::settings::Target;
use crate::load::{LoadError, Progress, RunResult, Settings, Stop, run};
use crate::null_server::NullServer;
use crate::report::{Table, hdr, json_report, write_bottleneck, write_table};

pub(super) fn main(args: Vec<OsString>) -> ExitCode {
    let (flags, mut settings) = match parse(args) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let null_server = match flags.calibrate || flags.serve_nothing {
        true => match NullServer::start(settings.threads) {
            Ok(server) => Some(server),
            Err(error) => {
                note(format_args!("tidemill bench: the do-nothing server cannot start: {error}"));
                return ExitCode::from(EXIT_UNREACHABLE);
            }
        },
        false => None,
    };
    if let Some(server) = &null_server {
        settings.target = Target::tcp("127.0.0.1", server.address().port());
        if flags.serve_nothing {
            return serve_until_input_ends(server);
        }
    }
    let stop: Stop = Arc::new(AtomicBool::new(false));
    handle_signals(&stop);
    if flags.show_config {
        print_line(format_args!("{settings:#?}"));
    }
    if let Some(warning) = foreign_keys_warning(&settings) {
        note(format_args!("tidemill bench: {warning}"));
    }
    if flags.preload
        && let Err(error) = write_all_keys(&settings, &stop)
    {
        note(format_args!("tidemill bench: {error}"));
        return ExitCode::from(EXIT_UNREACHABLE);
    }
    let (results, failure) = all_runs(&flags, &settings, &stop);
    if let Some(error) = &failure {
        note(format_args!("tidemill bench: {error}"));
    }
    let mut is_complete = true;
    if flags.cleanup
        && let Err(error) = remove_all_keys(&settings)
    {
        note(format_args!("tidemill bench: {error}"));
        is_complete = false;
    }
    if !results.is_empty() {
        is_complete &= report(&flags, &settings, &results);
    } else if failure.is_none() {
        note("tidemill bench: stopped before the load began: there is no report");
    }
    match failure {
        Some(_) => ExitCode::from(EXIT_UNREACHABLE),
        None if is_complete => exit_code(&results),
        None => ExitCode::from(EXIT_TROUBLE),
    }
}

/// The runs that were made, and why there are no more. None at all when `stop` was set before.
fn all_runs(
    flags: &Flags,
    settings: &Settings,
    stop: &Stop,
) -> (Vec<RunResult>, Option<LoadError>) {
    let mut results = Vec::new();
    for number in 1..=flags.run_count {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match one_run(settings, flags.server_pid, stop, number) {
            Ok(result) => results.push(result),
            Err(error) => return (results, Some(error)),
        }
    }
    (results, None)
}

/// Prints the port and serves until standard input ends, so that a script that dies takes it along.
fn serve_until_input_ends(server: &NullServer) -> ExitCode {
    print_line(server.address().port());
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    ExitCode::SUCCESS
}

fn parse(args: Vec<OsString>) -> Result<(Flags, Settings), ExitCode> {
    let args = std::iter::once(OsString::from("tidemill bench")).chain(args);
    let parsed = Flags::command()
        .try_get_matches_from(args)
        .and_then(|matches| Ok((Flags::from_arg_matches(&matches)?, matches)));
    let (flags, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return Err(refuse("tidemill bench", &error)),
    };
    let settings = settings::from_flags(&flags, &matches).and_then(|settings| {
        check_outputs(&flags).map_err(|error| format!("cannot write the report: {error}"))?;
        Ok(settings)
    });
    match settings {
        Ok(settings) => Ok((flags, settings)),
        Err(error) => {
            note(format_args!("tidemill bench: {error}"));
            Err(ExitCode::from(EXIT_USAGE))
        }
    }
}

fn one_run(
    settings: &Settings,
    server_pid: Option<u32>,
    stop: &Stop,
    number: u32,
) -> Result<RunResult, LoadError> {
    let live = io::stderr().is_terminal();
    let result = run(settings, server_pid, stop, |progress| {
        if live {
            show(progress, number);
        }
    });
    if live {
        note("");
    }
    result
}

fn show(progress: &Progress, number: u32) {
    let seconds = progress.elapsed.as_secs_f64().max(1e-9);
    let phase = if progress.measuring { "" } else { " warm-up" };
    let _ = write!(
        io::stderr(),
        "\r[RUN #{number}{phase} {seconds:.0} secs] {} conns: {} ops, {:.0} ops/sec, {:.2} MB/sec, \
         {:.3} msec latency\x1b[K",
        progress.connections,
        progress.ops,
        progress.ops as f64 / seconds,
        progress.bytes as f64 / seconds / 1e6,
        progress.latency_sum_ns as f64 / progress.ops.max(1) as f64 / 1e6,
    );
    let _ = io::stderr().flush();
}

/// Writes all reports, also behind one that cannot be written; false then.
fn report(flags: &Flags, settings: &Settings, results: &[RunResult]) -> bool {
    let written = [
        text_report(flags, settings, results),
        flags
            .client_stats
            .as_ref()
            .map_or(Ok(()), |path| outputs::write(path, client_stats(results))),
        flags
            .hdr_file_prefix
            .as_ref()
            .map_or(Ok(()), |prefix| hdr_files(prefix, flags, settings, results)),
        flags.json_out_file.as_ref().map_or(Ok(()), |path| {
            let by_run = titled(flags, results);
            let value = json_report(flags, settings, &by_run, by_line(flags));
            outputs::write(path, serde_json::to_string_pretty(&value)? + "\n")
        }),
    ];
    for error in written.iter().filter_map(|result| result.as_ref().err()) {
        note(format_args!("tidemill bench: cannot write the report: {error}"));
    }
    written.iter().all(Result::is_ok)
}

fn by_line(flags: &Flags) -> bool {
    flags.command_stats_breakdown == "line"
}

fn text_report(flags: &Flags, settings: &Settings, results: &[RunResult]) -> io::Result<()> {
    let mut out = Vec::new();
    writeln!(out, "{:<9} Threads", settings.threads)?;
    writeln!(out, "{:<9} Connections per thread", settings.connections)?;
    match settings.end {
        crate::load::settings::End::Requests(requests) => {
            writeln!(out, "{requests:<9} Requests per client")?
        }
        crate::load::settings::End::Time(time) => {
            writeln!(out, "{:<9} Seconds", time.as_secs_f64())?
        }
    }
    for (title, result) in titled(flags, results) {
        let table = Table::new(settings, result, &flags.print_percentiles, by_line(flags));
        write_table(&mut out, &title, &table, !flags.hide_histogram && !flags.native)?;
        write_bottleneck(&mut out, settings, result, &result.server)?;
    }
    match &flags.out_file {
        Some(path) => outputs::write(path, out),
        None => print_text(out),
    }
}

fn hdr_files(
    prefix: &str,
    flags: &Flags,
    settings: &Settings,
    results: &[RunResult],
) -> io::Result<()> {
    for (number, result) in (1..).zip(results) {
        let table = Table::new(settings, result, &flags.print_percentiles, by_line(flags));
        for row in &table.rows {
            let whole = row.label == "Totals";
            let name = if whole { "FULL".into() } else { row.name.replace('/', "_") };
            let path = hdr_path(prefix, &name, number);
            outputs::write(&path, hdr::distribution(&row.result.latency))?;
        }
    }
    Ok(())
}

fn hdr_path(prefix: &str, name: &str, run: u32) -> PathBuf {
    format!("{prefix}_{name}_RUN_{run}.txt").into()
}

/// An error, if a report could not be written.
fn check_outputs(flags: &Flags) -> io::Result<()> {
    let hdr = flags.hdr_file_prefix.as_deref().map(|prefix| hdr_path(prefix, "FULL", 1));
    let files = [&flags.out_file, &flags.json_out_file, &flags.client_stats, &hdr];
    files.into_iter().flatten().try_for_each(|path| outputs::check(path))
}

/// A line per run and connection.
fn client_stats(results: &[RunResult]) -> String {
    let mut csv = String::from("run,connection,requests,replies\n");
    for (run, result) in results.iter().enumerate() {
        for (number, one) in result.connections.iter().enumerate() {
            csv += &format!("{},{number},{},{}\n", run + 1, one.issued, one.completed);
        }
    }
    csv
}

/// The runs that are reported: one, or all under their names, or the best and the worst, as
/// memtier does.
fn titled<'a>(flags: &Flags, results: &'a [RunResult]) -> Vec<(String, &'a RunResult)> {
    if results.len() == 1 {
        return vec![("ALL STATS".into(), &results[0])];
    }
    if flags.print_all_runs {
        return results
            .iter()
            .enumerate()
            .map(|(index, result)| (format!("RUN #{} RESULTS", index + 1), result))
            .collect();
    }
    let by_rate =
        |a: &&RunResult, b: &&RunResult| a.ops_per_second().total_cmp(&b.ops_per_second());
    let best = results.iter().max_by(by_rate);
    let worst = results.iter().min_by(by_rate);
    let mut titled = Vec::new();
    titled.extend(best.map(|result| ("BEST RUN RESULTS".to_string(), result)));
    titled.extend(worst.map(|result| ("WORST RUN RESULTS".to_string(), result)));
    titled
}

/// Exit status behind runs without a failure; no run at all was stopped before it.
fn exit_code(results: &[RunResult]) -> ExitCode {
    if results.is_empty() || results.iter().any(|result| result.interrupted) {
        return ExitCode::from(EXIT_INTERRUPTED);
    }
    let troubled = results.iter().any(|result| {
        let trouble = &result.trouble;
        trouble.connections_lost + trouble.unanswered + trouble.unsent + trouble.verify_failures > 0
    });
    ExitCode::from(if troubled { EXIT_TROUBLE } else { 0 })
}
