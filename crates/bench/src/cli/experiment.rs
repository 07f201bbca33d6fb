//! `tidemill experiment`: init, list, run, ab.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Parser, Subcommand};
use tidemill_host::output::{note, print_line, print_text};

use crate::cli::ab::{self, AbFlags, ChangeFlags};
use crate::cli::outputs;
use crate::cli::{
    EXIT_INTERRUPTED, EXIT_TROUBLE, EXIT_UNREACHABLE, EXIT_USAGE, end_on_signals, refuse,
};
use crate::experiment::analysis::{Analysis, analyse};
use crate::experiment::html::html_document;
use crate::experiment::record::ExperimentOutcome;
use crate::experiment::report::{json_document, write_report};
use crate::experiment::runner::run_experiment;
use crate::experiment::shipped;
use crate::experiment::spec::{AA_ARM, Spec, TEMPLATE};
use crate::limits::BLOCKS_MAX;
use crate::load::Stop;

/// Repeated, interleaved comparisons with a report.
#[derive(Parser, Debug)]
#[command(
    name = "tidemill experiment",
    disable_version_flag = true,
    after_help = "Examples:\n  \
                  tidemill experiment list\n  \
                  tidemill experiment run unix-socket\n  \
                  tidemill experiment init mine.toml && tidemill experiment run mine.toml\n  \
                  tidemill experiment ab --load '-p 6379 -t 1 -c 50 --test-time 8' --apply ./on \
                  --revert ./off\n\n\
                  Exit codes: 0 done; 1 a run failed; 2 a wrong option or file; 3 fewer than two \
                  arms can run here (no verdict); 4 ab: the change was reverted; 130 ended by \
                  Ctrl-C (the same command goes on where it stopped)."
)]
pub(super) struct Flags {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Write a commented experiment file
    Init {
        /// File to write
        #[arg(default_value = "experiment.toml")]
        file: PathBuf,
    },
    /// List the experiments that come with the binary
    List,
    /// Run an experiment, or go on with an interrupted one
    Run {
        /// A name from `list`, or a file
        experiment: String,
        /// Blocks instead of the file's
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=BLOCKS_MAX as i64))]
        blocks: Option<u16>,
        /// Seconds per run instead of the file's (a tenth of it as warm-up)
        #[arg(long)]
        seconds: Option<f64>,
        /// Directory for journal and reports [default: experiments-out/NAME]
        #[arg(long)]
        out: Option<PathBuf>,
        /// Allow arms that change settings of this machine (each is undone after its run)
        #[arg(long = "change-machine")]
        change_machine: bool,
    },
    /// Judge one reversible change by interleaved runs; keep it only when it is better beyond the
    /// noise
    Ab {
        #[command(flatten)]
        change: ChangeFlags,
        #[command(flatten)]
        flags: Box<AbFlags>,
    },
}

pub(super) fn main(args: Vec<OsString>) -> ExitCode {
    let args = std::iter::once(OsString::from("tidemill experiment")).chain(args);
    let flags = match Flags::try_parse_from(args) {
        Ok(flags) => flags,
        Err(error) => return refuse("tidemill experiment", &error),
    };
    let (code, result) = match flags.action {
        Action::Init { file } => (EXIT_USAGE, init(&file)),
        Action::List => (EXIT_TROUBLE, list()),
        Action::Ab { change, flags } => return ab::main(change, &flags),
        Action::Run { experiment, blocks, seconds, out, change_machine } => {
            match load_spec(&experiment, blocks, seconds) {
                Err(error) => (EXIT_USAGE, Err(error)),
                Ok(spec) => {
                    let out = out.unwrap_or_else(|| Path::new("experiments-out").join(&spec.name));
                    match run(&spec, &out, change_machine) {
                        Ok(code) => return code,
                        Err(error) => (EXIT_TROUBLE, Err(error)),
                    }
                }
            }
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(format_args!("tidemill experiment: {error}"));
            ExitCode::from(code)
        }
    }
}

fn list() -> Result<(), String> {
    let names: String = shipped().iter().map(|one| format!("{}\n", one.name)).collect();
    print_text(names).map_err(|error| error.to_string())
}

fn init(file: &Path) -> Result<(), String> {
    let mut options = std::fs::OpenOptions::new();
    let created = options.write(true).create_new(true).open(file);
    created
        .and_then(|mut created| created.write_all(TEMPLATE.as_bytes()))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    print_line(format_args!("{} written; run it: tidemill experiment run {0}", file.display()));
    Ok(())
}

fn load_spec(name: &str, blocks: Option<u16>, seconds: Option<f64>) -> Result<Spec, String> {
    let known = shipped().iter().find(|experiment| experiment.name == name);
    let text = match known {
        Some(experiment) => experiment.text.to_string(),
        None => std::fs::read_to_string(name)
            .map_err(|error| format!("{name}: {error}, and no shipped experiment (see `list`)"))?,
    };
    let mut spec = Spec::parse(&text).map_err(|error| format!("{name}: {error}"))?;
    if let Some(blocks) = blocks {
        spec.blocks = blocks.into();
    }
    if let Some(seconds) = seconds {
        if !(seconds > 0.0 && seconds < 1e6) {
            return Err("--seconds: must be above 0".into());
        }
        let own_flags = spec.arms.iter().all(|arm| arm.program.is_none());
        for load in &mut spec.loads {
            load.seconds = seconds;
            if own_flags {
                load.flags += &format!(" --test-time {seconds} --warmup {}", seconds / 10.0);
            }
        }
    }
    spec.check_flags().map_err(|fault| format!("{name}: with --seconds: {}", fault.text))?;
    Ok(spec)
}

fn run(spec: &Spec, out: &Path, change_machine: bool) -> Result<ExitCode, String> {
    let stop: Stop = Arc::new(AtomicBool::new(false));
    end_on_signals(&stop);
    let outcome = run_experiment(spec, out, change_machine, &stop, |line| note(line))?;
    let ran: Vec<_> = spec
        .arms
        .iter()
        .filter(|arm| arm.name != AA_ARM)
        .filter(|arm| outcome.skipped.iter().all(|skipped| skipped.0 != arm.name))
        .collect();
    if ran.len() < 2 {
        note("tidemill experiment: fewer than two arms can run here: no verdict");
        return Ok(ExitCode::from(EXIT_UNREACHABLE));
    }
    let analysis = analyse(&outcome);
    write_files(&outcome, &analysis, out)
        .and_then(|()| print_report(&outcome, &analysis, out))
        .map_err(|error| error.to_string())?;
    Ok(ExitCode::from(if outcome.interrupted { EXIT_INTERRUPTED } else { 0 }))
}

/// Prints the report and the path of its page.
fn print_report(outcome: &ExperimentOutcome, analysis: &Analysis, out: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    write_report(&mut text, outcome, analysis)?;
    writeln!(text, "\n{}", out.join("report.html").display())?;
    print_text(text)
}

fn write_files(outcome: &ExperimentOutcome, analysis: &Analysis, out: &Path) -> io::Result<()> {
    let document = json_document(outcome, analysis);
    outputs::write(&out.join("report.json"), serde_json::to_string_pretty(&document)? + "\n")?;
    outputs::write(&out.join("report.html"), html_document(outcome, analysis))
}
