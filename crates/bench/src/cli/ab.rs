//! `tidemill experiment ab`: is one reversible change worth keeping?

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use serde_json::json;
use tidemill_host::output::{note, print_text};

use crate::cli::outputs;
use crate::cli::{EXIT_INTERRUPTED, EXIT_REVERTED, EXIT_TROUBLE, EXIT_USAGE, end_on_signals};
use crate::experiment::ab::{Change, Judgement, Plan, ab};
use crate::experiment::measure::{RunPlan, foreign_keys, measure_once};
use crate::experiment::metrics::{METRICS, Metric};
use crate::experiment::report::short;
use crate::experiment::shell_change::ShellChange;
use crate::experiment::spec::{Arm, Load};
use crate::load::Stop;
use crate::load::keys::drawn_seed;
use crate::load::settings::Endpoint;
use crate::secrets::hide_in_flags;
use crate::stats::Summary;

/// Judged change and the way of judging. Public, so that the tuner judges its own changes the same
/// way.
#[derive(Args, Clone, Debug)]
pub struct AbFlags {
    /// Server that runs already [default: the one that --load names]
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "server")]
    pub address: Option<String>,
    /// Command that starts a server, fresh for every run; {port} and {socket} are filled in
    #[arg(long)]
    pub server: Option<String>,
    /// Flags of `tidemill bench` for each run
    #[arg(
        long,
        default_value = "-t 1 -c 50 --test-time 8 --warmup 2 --preload --key-maximum 100000 \
                         --distinct-client-seed",
        allow_hyphen_values = true
    )]
    pub load: String,
    /// The metric that decides
    #[arg(long, default_value = "ops_per_second")]
    pub metric: String,
    /// Blocks of three runs; fewer than 6 give no verdict
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub blocks: u16,
    /// Smallest gain worth keeping, as a fraction; the noise between identical runs if larger
    #[arg(long, default_value_t = 0.02)]
    pub threshold: f64,
    /// Seed of the order [default: drawn]
    #[arg(long)]
    pub seed: Option<u64>,
    /// JSON report
    #[arg(long = "json")]
    pub json: Option<PathBuf>,
}

/// The change itself, as commands.
#[derive(Args, Debug)]
pub(super) struct ChangeFlags {
    /// Shell command that makes the change
    #[arg(long)]
    pub apply: String,
    /// Shell command that undoes it, also when it was made only half way
    #[arg(long)]
    pub revert: String,
}

pub(super) fn main(change: ChangeFlags, flags: &AbFlags) -> ExitCode {
    note(format_args!("If this process is killed, undo the change with: {}", change.revert));
    judge_change(&mut ShellChange { apply: change.apply, revert: change.revert }, flags)
}

/// Judges a change by interleaved runs, prints what came of it, and leaves the change in force only
/// when it is better beyond the noise. SIGINT, SIGTERM and SIGHUP end it and revert the change.
/// Blocks for all runs. The status is that of `tidemill experiment ab`: 0 kept, 4 reverted, 1 a run
/// failed, 2 a wrong flag (the change was not made), 130 stopped.
pub fn judge_change(change: &mut dyn Change, flags: &AbFlags) -> ExitCode {
    let (metric, arm, load) = match check(flags) {
        Ok(checked) => checked,
        Err(error) => {
            note(format_args!("tidemill ab: {error}"));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let stop: Stop = Arc::new(AtomicBool::new(false));
    end_on_signals(&stop);
    let plan = Plan {
        blocks: flags.blocks.into(),
        threshold: flags.threshold,
        direction: metric.direction,
        seed: flags.seed.unwrap_or_else(drawn_seed),
    };
    match judge(change, plan, metric, &arm, &load, &stop) {
        Ok(judgement) => {
            // The status tells whether the change is in force, also when a report cannot be
            // written.
            let written = [
                table(&judgement, metric, plan).and_then(print_text),
                json_report(&judgement, plan, flags),
            ];
            for error in written.iter().filter_map(|result| result.as_ref().err()) {
                note(format_args!("tidemill ab: cannot write the report: {error}"));
            }
            ExitCode::from(if judgement.kept { 0 } else { EXIT_REVERTED })
        }
        Err(_) if stop.load(Ordering::Relaxed) => {
            note("tidemill ab: stopped, and reverted unless a line above says otherwise");
            ExitCode::from(EXIT_INTERRUPTED)
        }
        Err(error) => {
            note(format_args!("tidemill ab: {error}"));
            ExitCode::from(EXIT_TROUBLE)
        }
    }
}

fn json_report(judgement: &Judgement, plan: Plan, flags: &AbFlags) -> io::Result<()> {
    let Some(path) = &flags.json else { return Ok(()) };
    let document = document(judgement, flags, plan.seed);
    outputs::write(path, serde_json::to_string_pretty(&document)? + "\n")
}

fn judge(
    change: &mut dyn Change,
    plan: Plan,
    metric: &Metric,
    arm: &Arm,
    load: &Load,
    stop: &Stop,
) -> io::Result<Judgement> {
    if let Some(warning) = foreign_keys(arm, load) {
        note(format_args!("tidemill ab: {warning}"));
    }
    let directory = Scratch::create()?;
    let mut run = 0;
    ab(change, plan, || {
        let run_plan = RunPlan { block: run / 3, directory: &directory.0, marks: false };
        let record = measure_once(arm, load, run_plan, stop);
        let record = record.map_err(io::Error::other)?;
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        run += 1;
        let value = record.metrics.get(metric.name).copied().ok_or_else(|| {
            io::Error::other(format!(
                "the runs give no {}: too short, or no such commands",
                metric.name
            ))
        })?;
        let all = 3 * plan.blocks;
        note(format_args!("run {run}/{all}  {} {}", short(value), metric.title));
        Ok(value)
    })
}

fn check(flags: &AbFlags) -> Result<(&'static Metric, Arm, Load), String> {
    let metric = METRICS.iter().find(|metric| metric.name == flags.metric).ok_or_else(|| {
        let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        format!("--metric: {:?} is none of {}", flags.metric, names.join(", "))
    })?;
    if !(0.0..1.0).contains(&flags.threshold) {
        return Err("--threshold: a fraction, 0.02 for 2 %".into());
    }
    if let Some(path) = &flags.json {
        outputs::check(path).map_err(|error| format!("--json: {error}"))?;
    }
    let (settings, _) = super::settings::settings_from_words(&flags.load)
        .map_err(|error| format!("--load: {error}"))?;
    let address = flags.server.is_none().then(|| {
        flags.address.clone().unwrap_or(match settings.target.endpoint {
            Endpoint::Tcp(host, port) => format!("{host}:{port}"),
            // The socket is in the load's own flags, and wins there.
            Endpoint::Unix(_) => "127.0.0.1:0".to_owned(),
        })
    });
    let arm = Arm { name: "ab".into(), server: flags.server.clone(), address, ..Arm::default() };
    arm.check().map_err(|(key, text)| format!("--{}: {text}", key.unwrap_or("server")))?;
    Ok((metric, arm, Load { name: "ab".into(), flags: flags.load.clone(), ..Load::default() }))
}

fn table(judgement: &Judgement, metric: &Metric, plan: Plan) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    writeln!(out, "{}, {} blocks, seed {}", metric.title, plan.blocks, plan.seed)?;
    for (name, values) in ["without", "without again", "with"].iter().zip(&judgement.values) {
        let Some(summary) = Summary::of(values) else { continue };
        let interval = summary.mean_interval.map_or("---".into(), |interval| {
            format!("{} to {}", short(interval.lower), short(interval.upper))
        });
        writeln!(out, "  {name:<14} mean {:>10}  95 % CI {interval}", short(summary.mean))?;
    }
    if let Some(found) = &judgement.comparison {
        writeln!(
            out,
            "  with/without {:.3} [{:.3}, {:.3}]  p {:.4}  needed beyond {:.1} %  {}",
            found.ratio,
            found.interval.lower,
            found.interval.upper,
            found.p,
            found.threshold * 100.0,
            found.verdict
        )?;
    }
    writeln!(out, "{}", if judgement.kept { "kept" } else { "reverted" })?;
    Ok(out)
}

fn document(judgement: &Judgement, flags: &AbFlags, seed: u64) -> serde_json::Value {
    let [without, again, with] = &judgement.values;
    json!({
        "version": 1,
        "metric": flags.metric,
        "load": hide_in_flags(&flags.load),
        "seed": seed,
        "without": without,
        "without_again": again,
        "with": with,
        "comparison": judgement.comparison,
        "kept": judgement.kept,
    })
}

/// Directory in which servers of the runs keep their files; removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn create() -> io::Result<Self> {
        let name = format!("tidemill-ab-{}-{}", std::process::id(), drawn_seed());
        let path = std::env::temp_dir().join(Path::new(&name));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
