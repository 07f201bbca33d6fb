//! Reads and writes per second beside liburcu: same machine, same work, same reclamation,
//! interleaved.
//!
//! A reader opens a section, follows one pointer and checks one field; every 1,024 sections it
//! announces a quiescent state. A writer allocates an object, swaps it in, and frees the old one
//! after a grace period: one period per write (`batch 1`), or one per 1,024 writes, by the thread
//! that wrote. Each measurement is a process of its own, for both sides; a round runs ours and
//! liburcu's one after the other, in alternating order, and a ratio is the median of the rounds'
//! ratios. Both sides use the C library's allocator.
//!
//! `cargo bench -p tidemill-rcu -- [--readers 1,2] [--writers 1] [--batch 1,1024] [--flavours
//! qsbr,memb] [--rounds 3] [--judged-rounds 21] [--milliseconds 200]`, by default four minutes.
//! Configurations of at most two threads are judged and get more rounds; it ends with failure when
//! one is below 0.95 in reads or writes, or has no liburcu beside it. The rates of all rounds go to
//! `target/tmp/rcu.tsv`. liburcu is compiled against when the bench runs, so that no build needs
//! it.

mod ours;

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// One measurement.
pub struct Work {
    readers: usize,
    writers: usize,
    /// Old objects per grace period.
    batch: usize,
    milliseconds: u64,
}

impl Work {
    fn is_judged(&self) -> bool {
        self.readers + self.writers <= THREADS_JUDGED_MAX
    }
}

/// Counts of a measurement, over all threads.
pub struct Counts {
    reads: u64,
    writes: u64,
    elapsed: Duration,
}

struct Options {
    flavours: Vec<String>,
    readers: Vec<usize>,
    writers: Vec<usize>,
    batches: Vec<usize>,
    rounds: usize,
    /// Rounds of the configurations that are judged.
    judged_rounds: usize,
    milliseconds: u64,
}

/// Operations per second of one side in one round.
#[derive(Clone, Copy)]
struct Rates {
    reads: f64,
    writes: f64,
}

struct Row {
    flavour: String,
    work: Work,
    ours: Vec<Rates>,
    theirs: Vec<Rates>,
}

const THREADS_JUDGED_MAX: usize = 2;
const RATIO_MIN: f64 = 0.95;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).filter(|text| text != "--bench").collect();
    if arguments.first().is_some_and(|first| first == "--run") {
        run_one(&arguments[1..]);
        return ExitCode::SUCCESS;
    }
    compare(&Options::parse(&arguments))
}

/// A measurement of ours in a process of its own; prints what `liburcu.c` prints.
fn run_one(arguments: &[String]) {
    let number = |index: usize| arguments[index].parse().expect("a number");
    let work = Work {
        readers: number(1),
        writers: number(2),
        batch: number(3),
        milliseconds: arguments[4].parse().expect("a number"),
    };
    let counts = ours::run_flavour(&arguments[0], &work);
    println!("{} {} {}", counts.reads, counts.writes, counts.elapsed.as_nanos());
}

impl Options {
    fn parse(arguments: &[String]) -> Options {
        let given: HashMap<&str, &str> =
            arguments.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        let list = |name: &str, default: &'static str| -> Vec<String> {
            given.get(name).unwrap_or(&default).split(',').map(String::from).collect()
        };
        let numbers = |name: &str, default: &'static str| -> Vec<usize> {
            list(name, default).iter().map(|text| text.parse().expect("a number")).collect()
        };
        Options {
            flavours: list("--flavours", "qsbr,memb,mb,bp,signal"),
            readers: numbers("--readers", "1,2,3,4,5,6"),
            writers: numbers("--writers", "1,2"),
            batches: numbers("--batch", "1,1024"),
            rounds: numbers("--rounds", "3")[0],
            judged_rounds: numbers("--judged-rounds", "21")[0],
            milliseconds: numbers("--milliseconds", "200")[0] as u64,
        }
    }
}

fn compare(options: &Options) -> ExitCode {
    print_machine();
    let liburcu = Liburcu::build(&options.flavours);
    println!("rates are medians with half their span; r readers, w writers");
    let (mut judged, mut misses) = (0, 0);
    let mut lines = String::new();
    for &batch in &options.batches {
        for flavour in &options.flavours {
            println!("\n{flavour}, {batch} writes per grace period");
            let side = format!("{:>14} {:>14} {:>6}", "ours", "liburcu", "ratio");
            println!("{:>3} {:>3} | {side} reads/s | {side} writes/s", "r", "w");
            for &writers in &options.writers {
                for &readers in &options.readers {
                    let work = Work { readers, writers, batch, milliseconds: options.milliseconds };
                    let rounds =
                        if work.is_judged() { options.judged_rounds } else { options.rounds };
                    let row = Row::measure(flavour, work, rounds, &liburcu);
                    row.print();
                    lines.push_str(&row.machine_readable());
                    judged += usize::from(row.work.is_judged());
                    misses += usize::from(row.is_miss());
                }
            }
        }
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rcu.tsv");
    match std::fs::write(&path, lines) {
        Ok(()) => println!("\nall rounds: {}", path.display()),
        Err(error) => println!("\n{}: {error}", path.display()),
    }
    println!(
        "verdict: {} of {judged} configurations of at most two threads reach {RATIO_MIN} x liburcu \
         in reads and writes",
        judged - misses
    );
    if misses > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn print_machine() {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name\t: "));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("machine: {}, {cores} cores, Linux {}", model.unwrap_or("unknown"), kernel.trim());
    println!("load before: {}", load.trim());
    println!("build: tidemill-rcu {}, bench profile", env!("CARGO_PKG_VERSION"));
    println!("command: {}", env::args().skip(1).collect::<Vec<_>>().join(" "));
    println!("ours: {}", ours::descriptions().join("; "));
}

/// The compiled programs, by flavour; empty where liburcu or the compiler is missing.
struct Liburcu {
    programs: HashMap<String, PathBuf>,
}

impl Liburcu {
    fn build(flavours: &[String]) -> Liburcu {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("liburcu");
        std::fs::create_dir_all(&folder).expect("the target folder is writable");
        let mut programs = HashMap::new();
        for flavour in flavours {
            match compile(flavour, &folder) {
                Ok(program) => _ = programs.insert(flavour.clone(), program),
                Err(reason) => println!("liburcu: no {flavour}, ours is reported alone: {reason}"),
            }
        }
        let version = Command::new("pkg-config").args(["--modversion", "liburcu"]).output();
        let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let version = version.ok().filter(|text| !text.is_empty());
        println!(
            "liburcu: {}, cc -O3, read side inlined",
            version.as_deref().map_or("version unknown", str::trim)
        );
        Liburcu { programs }
    }

    fn run(&self, flavour: &str, work: &Work) -> Option<Rates> {
        self.programs.get(flavour).map(|program| rates(Command::new(program), work))
    }
}

fn compile(flavour: &str, folder: &Path) -> Result<PathBuf, String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/beside_liburcu/liburcu.c");
    let program = folder.join(flavour);
    let output = Command::new("cc")
        .args(["-O3", &format!("-DFLAVOUR_{}", flavour.to_uppercase()), source, "-o"])
        .arg(&program)
        .args([&format!("-lurcu-{flavour}"), "-lpthread"])
        .output()
        .map_err(|error| format!("cc: {error}"))?;
    if output.status.success() {
        return Ok(program);
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(message.lines().next().unwrap_or("cc failed").to_string())
}

fn rates(mut command: Command, work: &Work) -> Rates {
    let numbers = [work.readers, work.writers, work.batch, work.milliseconds as usize];
    let output = command.args(numbers.map(|number| number.to_string())).output();
    let output = output.expect("the program was built");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let counts: Vec<f64> =
        text.split_whitespace().map(|word| word.parse().expect("three numbers")).collect();
    let seconds = counts[2] / 1e9;
    Rates { reads: counts[0] / seconds, writes: counts[1] / seconds }
}

impl Row {
    fn measure(flavour: &str, work: Work, rounds: usize, liburcu: &Liburcu) -> Row {
        let ours = || {
            let mut command = Command::new(env::current_exe().expect("we run from a file"));
            command.args(["--run", flavour]);
            rates(command, &work)
        };
        let (mut our_rates, mut their_rates) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            if round % 2 == 0 {
                our_rates.push(ours());
                their_rates.extend(liburcu.run(flavour, &work));
            } else {
                their_rates.extend(liburcu.run(flavour, &work));
                our_rates.push(ours());
            }
        }
        Row { flavour: flavour.into(), work, ours: our_rates, theirs: their_rates }
    }

    fn ratio(&self, of: fn(&Rates) -> f64) -> Option<f64> {
        let pairs = self.ours.iter().zip(&self.theirs);
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| of(ours) / of(theirs).max(1.0)).collect();
        (!ratios.is_empty()).then(|| median(&ratios))
    }

    /// A judged row that is too slow, or that has nothing beside it.
    fn is_miss(&self) -> bool {
        let is_low = |of| self.ratio(of).is_none_or(|ratio| ratio < RATIO_MIN);
        self.work.is_judged() && (is_low(|rates| rates.reads) || is_low(|rates| rates.writes))
    }

    fn print(&self) {
        let Work { readers, writers, .. } = self.work;
        let verdict = match (self.work.is_judged(), self.is_miss()) {
            (false, _) => "",
            (true, false) => "  ok",
            (true, true) => "  MISS",
        };
        println!(
            "{readers:>3} {writers:>3} | {} reads/s | {} writes/s{verdict}",
            self.side_by_side(|rates| rates.reads),
            self.side_by_side(|rates| rates.writes),
        );
    }

    fn side_by_side(&self, of: fn(&Rates) -> f64) -> String {
        let describe = |side: &[Rates]| {
            let values: Vec<f64> = side.iter().map(of).collect();
            if values.is_empty() {
                return String::from("-");
            }
            format!("{} ±{:.0}%", thousands(median(&values)), spread_percent(&values))
        };
        let ratio = self.ratio(of).map_or_else(|| String::from("-"), |ratio| format!("{ratio:.2}"));
        format!("{:>14} {:>14} {ratio:>6}", describe(&self.ours), describe(&self.theirs))
    }

    fn machine_readable(&self) -> String {
        let Work { readers, writers, batch, milliseconds } = self.work;
        let values = |side: &[Rates], of: fn(&Rates) -> f64| -> String {
            side.iter().map(|rates| format!("{:.0}", of(rates))).collect::<Vec<_>>().join(",")
        };
        let (reads, writes) = (|rates: &Rates| rates.reads, |rates: &Rates| rates.writes);
        format!(
            "flavour={}\treaders={readers}\twriters={writers}\tbatch={batch}\t\
             milliseconds={milliseconds}\tours_reads={}\ttheirs_reads={}\t\
             ours_writes={}\ttheirs_writes={}\n",
            self.flavour,
            values(&self.ours, reads),
            values(&self.theirs, reads),
            values(&self.ours, writes),
            values(&self.theirs, writes),
        )
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// Half the distance between the lowest and the highest, in percent of the median.
fn spread_percent(values: &[f64]) -> f64 {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(0.0, f64::max);
    (highest - lowest) / 2.0 / median(values).max(1.0) * 100.0
}

fn thousands(value: f64) -> String {
    if value >= 1e6 { format!("{:.1} M", value / 1e6) } else { format!("{:.1} k", value / 1e3) }
}
