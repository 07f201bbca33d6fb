//! A worker as an event loop and as coroutines: the same engine, poller and steps, on one thread;
//! CPU time per operation.
//!
//! `make bench-coroutines`, or `cargo bench -p tidemill-server --bench coroutines -- [rounds]
//! [seconds per run]`. The arms are processes of their own on CPU 0, filled once and measured in
//! turns by tests/bench/native/load.c on CPU 1. Ends with failure when the event loop costs more
//! than coroutines at some pipeline, since it was chosen for costing less.
//!
//! `--serve loop|tasks PORT` is one arm as a plain server on 127.0.0.1 until it is killed: the
//! experiment `workers` measures these (`scripts/workers-server`).

// A bench that cannot go on stops.
#![allow(clippy::unwrap_used)]

mod core;
mod event_loop;
mod poller;
mod tasks;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

use crate::poller::Poller;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PIPELINES: [usize; 3] = [1, 16, 100];
/// Two runs of one program differ by this much here.
const RATIO_MAX: f64 = 1.02;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|text| text != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["--serve", arm, port @ ..] = &words[..] {
        serve(arm, port.first().copied());
        return ExitCode::SUCCESS;
    }
    let number = |index: usize, default: f64| {
        arguments.get(index).map_or(default, |text| text.parse().unwrap())
    };
    compare(number(0, 15.0) as usize, number(1, 2.0))
}

/// An arm's process. Without a port it takes a free one, prints it, and ends with its standard
/// input.
fn serve(arm: &str, port: Option<&str>) {
    let port_wanted: u16 = port.map_or(0, |text| text.parse().unwrap());
    let listener = TcpListener::bind(("127.0.0.1", port_wanted)).unwrap();
    if port.is_none() {
        println!("{}", listener.local_addr().unwrap().port());
        std::thread::spawn(|| {
            // Even if this fails, the parent has ended.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
    }
    match arm {
        "loop" => event_loop::run(Poller::new(listener)),
        "tasks" => tasks::run(Poller::new(listener)),
        _ => panic!("no such arm: {arm}"),
    }
}

struct Arm {
    name: &'static str,
    process: Child,
    port: String,
}

impl Arm {
    fn start(name: &'static str) -> Arm {
        let program = std::env::current_exe().unwrap();
        let mut process = Command::new("taskset")
            .args(["-c", "0"])
            .arg(program)
            .args(["--serve", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Arm { name, process, port: port.trim().to_owned() }
    }

    fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        let ticks: f64 = fields.skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
        ticks / rustix::param::clock_ticks_per_second() as f64
    }

    /// Microseconds of CPU time for each operation of a load.
    fn measure(&self, load: &PathBuf, flags: &[&str]) -> f64 {
        let before = self.cpu_seconds();
        let mut command = Command::new("taskset");
        command.args(["-c", "1"]).arg(load).args(["--port", &self.port, "--connections", "50"]);
        let output = command.args(flags).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "the load on {} failed", self.name);
        let text = String::from_utf8(output.stdout).unwrap();
        let figure = |name: &str| -> f64 {
            let rest = text.split_once(&format!("\"{name}\": ")).unwrap().1;
            rest.split([',', '}']).next().unwrap().parse().unwrap()
        };
        assert!(figure("errors") == 0.0 && figure("misses") == 0.0, "{}: {text}", self.name);
        (self.cpu_seconds() - before) * 1e6 / figure("operations")
    }
}

impl Drop for Arm {
    fn drop(&mut self) {
        // It ends when its standard input does; neither can fail in a way that matters here.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

fn build_load() -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/bench/native/load.c");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("load");
    let status = Command::new("cc").args(["-O3", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(status.success(), "the load does not compile");
    program
}

fn compare(rounds: usize, seconds: f64) -> ExitCode {
    let load = build_load();
    let arms = [Arm::start("loop"), Arm::start("tasks")];
    for arm in &arms {
        arm.measure(&load, &["--fill", "--pipeline", "100"]);
    }
    println!(
        "CPU us per operation, 50 connections, SET:GET 1:10, 32 bytes; {rounds} rounds of \
         {seconds} s"
    );
    println!(
        "{:>9} {:>11} {:>11} {:>24}",
        "pipeline", "event loop", "coroutines", "ratio [quartiles]"
    );
    let mut is_missed = false;
    for pipeline in PIPELINES {
        let flags = ["--pipeline", &pipeline.to_string(), "--seconds", &seconds.to_string()];
        let mut figures = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for turn in 0..arms.len() {
                let index = (round + turn) % arms.len();
                figures[index].push(arms[index].measure(&load, &flags));
            }
        }
        let mut ratios: Vec<f64> =
            figures[0].iter().zip(&figures[1]).map(|(left, right)| left / right).collect();
        let [event_loop, coroutines] = figures.each_mut().map(|values| quantile(values, 0.5));
        let ratio = quantile(&mut ratios, 0.5);
        let is_met = ratio <= RATIO_MAX;
        is_missed |= !is_met;
        println!(
            "{pipeline:>9} {event_loop:>11.3} {coroutines:>11.3} {ratio:>8.3} [{:.3}-{:.3}]  {}",
            quantile(&mut ratios, 0.25),
            quantile(&mut ratios, 0.75),
            if is_met { "met" } else { "MISSED" },
        );
    }
    println!(
        "verdict: the event loop costs at most {RATIO_MAX} of coroutines: {}",
        if is_missed { "no" } else { "yes" }
    );
    if is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}
