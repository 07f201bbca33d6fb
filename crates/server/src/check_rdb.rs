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

use crate::cli::print;

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
        return print(USAGE);
    }
    let Some(options) = parse(arguments) else {
        let _ = io::stderr().write_all(USAGE.as_bytes());
        return ExitCode::from(2);
    };
    let (text, status) = check(&options);
    // The status tells of the file, also when no reader wants the text.
    match print(text) {
        ExitCode::SUCCESS => status,
        failed => failed,
    }
}

/// Text and exit status of a check.
fn check(options: &Options) -> (Vec<u8>, ExitCode) {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut statistics =
        options.has_statistics.then(|| Statistics::new(elapsed.as_millis() as u64));
    let mut text = Vec::new();
    let checked = report(&FileSystem, &options.path, statistics.as_mut(), &mut text);
    let is_whole = checked.unwrap_or(false);
    let Some(statistics) = statistics.filter(|_| is_whole) else {
        return (text, if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    };
    let written = match &options.output {
        None => statistics.print(options.format, &mut text),
        Some(path) => write_report(&statistics, options.format, path),
    };
    (text, if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_report(statistics: &Statistics, format: StatisticsFormat, path: &Path) -> io::Result<()> {
    let written = File::create(path).and_then(|file| {
        let mut out = io::BufWriter::new(file);
        statistics.print(format, &mut out)?;
        out.flush()
    });
    written.inspect_err(|error| {
        let path = path.display();
        let _ = writeln!(io::stderr(), "Cannot write the report {path}: {}", reason(error));
    })
}
