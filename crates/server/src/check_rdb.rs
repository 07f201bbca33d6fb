//! `tidemill check-rdb FILE`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use tidemill_engine::system_error::reason;
use tidemill_persist::check::{Statistics, StatisticsFormat, report};
use tidemill_persist::disk::FileSystem;

const USAGE: &str = "\
Usage: tidemill check-rdb FILE [--stats] [--format table|info|csv] [--output REPORT]

Reads a snapshot to its end, and tells what it has and whether it is whole. Changes nothing.
Called as valkey-check-rdb or redis-check-rdb, tidemill does the same.

Options:
  --stats                  tells of each database and type how many keys there are, and how large
  --format table|info|csv  form of that; table by default
  --output REPORT          file for that, which is replaced; the standard output by default
  -h, --help               print this

Examples:
  tidemill check-rdb dump.rdb
  tidemill check-rdb dump.rdb --stats --format csv --output keys.csv
";

#[derive(Debug, Default)]
struct Options {
    path: PathBuf,
    has_statistics: bool,
    format: StatisticsFormat,
    output: Option<PathBuf>,
}

fn parse(arguments: &[OsString]) -> Option<Options> {
    let (path, words) = arguments.split_first()?;
    let mut options = Options { path: path.into(), ..Options::default() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.to_str()? {
            "--stats" => options.has_statistics = true,
            "--format" => options.format = StatisticsFormat::named(words.next()?.to_str()?)?,
            "--output" => options.output = Some(words.next()?.into()),
            _ => return None,
        }
    }
    Some(options)
}

/// Checks the file that the arguments name. Exit status 0 for a whole one, 1 for a damaged one, 2
/// when the arguments are wrong.
pub fn run(arguments: &[OsString]) -> ExitCode {
    if arguments.iter().any(|word| word == "-h" || word == "--help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(options) = parse(arguments) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match check(&options) {
        Ok(true) => ExitCode::SUCCESS,
        // A reader that is gone needs no report.
        Ok(false) | Err(_) => ExitCode::from(1),
    }
}

fn check(options: &Options) -> io::Result<bool> {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut statistics =
        options.has_statistics.then(|| Statistics::new(elapsed.as_millis() as u64));
    let out = &mut io::stdout().lock();
    let is_whole = report(&FileSystem, &options.path, statistics.as_mut(), out)?;
    let Some(statistics) = statistics.filter(|_| is_whole) else { return Ok(is_whole) };
    match &options.output {
        None => statistics.print(options.format, out)?,
        Some(path) => write_report(&statistics, options.format, path)?,
    }
    Ok(true)
}

fn write_report(statistics: &Statistics, format: StatisticsFormat, path: &Path) -> io::Result<()> {
    let written = File::create(path).and_then(|file| {
        let mut out = io::BufWriter::new(file);
        statistics.print(format, &mut out)?;
        out.flush()
    });
    written.inspect_err(|error| {
        eprintln!("Cannot write the report {}: {}", path.display(), reason(error));
    })
}
