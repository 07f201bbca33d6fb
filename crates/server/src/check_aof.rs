//! `tidemill check-aof`: checks an append-only file, and cuts it where it stops being whole.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tidemill_persist::append_only::{FileCheck, Manifest, check_file, is_manifest, is_snapshot};
use tidemill_persist::check::CheckFault;
use tidemill_persist::disk::{Disk, FileSystem};

/// Help of the part.
pub const USAGE: &str = "\
Usage: tidemill check-aof [--fix | --truncate-to-timestamp SECONDS] FILE

Checks an append-only file: a manifest with all files that it names, or one file, with or without a
snapshot at its beginning. Do not use it on the files of a server that runs.

Options:
  --fix                            cuts the last file where it stops being whole, after asking
  --truncate-to-timestamp SECONDS  cuts the last file before the first command later than a Unix
                                   time, by the annotations of aof-timestamp-enabled
  -h, --help                       print this

Examples:
  tidemill check-aof appendonlydir/appendonly.aof.manifest
  tidemill check-aof --fix appendonlydir/appendonly.aof.manifest
";

#[derive(Debug, Default)]
struct Options {
    fixes: bool,
    until: Option<i64>,
    path: PathBuf,
}

/// Runs the part with the words behind its name.
#[must_use]
pub fn run(words: Vec<OsString>) -> ExitCode {
    if words.iter().any(|word| word == "-h" || word == "--help") {
        return print(USAGE);
    }
    let Some(options) = parse(words) else {
        let _ = io::stderr().write_all(USAGE.as_bytes());
        return ExitCode::from(2);
    };
    match check(&FileSystem, &options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            let _ = writeln!(io::stderr(), "tidemill check-aof: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// A reader that is gone needs no text.
fn print(text: &str) -> ExitCode {
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn parse(words: Vec<OsString>) -> Option<Options> {
    let mut options = Options::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--fix" {
            options.fixes = true;
        } else if word == "--truncate-to-timestamp" {
            options.until = Some(words.next()?.to_str()?.parse().ok()?);
        } else if options.path.as_os_str().is_empty() && !word.to_string_lossy().starts_with("--") {
            options.path = PathBuf::from(word);
        } else {
            return None;
        }
    }
    let is_one_wish = !(options.fixes && options.until.is_some());
    (is_one_wish && !options.path.as_os_str().is_empty()).then_some(options)
}

/// Reads the manifest that a path names.
fn read_manifest(disk: &dyn Disk, path: &Path) -> Result<Manifest, String> {
    let text = read(disk, path).map_err(|error| format!("{}: {error}", path.display()))?;
    Manifest::parse(&text)
        .map_err(|error| format!("{}:{}: {}", path.display(), error.line_number, error.reason))
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let mut text = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
    let length = file.read_at(&mut text, 0)?;
    text.truncate(length);
    Ok(text)
}

/// Checks all files; true if they are whole, or are now.
fn check(disk: &dyn Disk, options: &Options) -> Result<bool, String> {
    if !is_manifest(&options.path) {
        print("Start checking Old-Style AOF\n");
        return check_one(disk, options, &options.path, ("AOF", true));
    }
    print("Start checking Multi Part AOF\n");
    let manifest = read_manifest(disk, &options.path)?;
    let directory = options.path.parent().unwrap_or(Path::new(""));
    let mut is_whole = true;
    if let Some(base) = &manifest.base {
        let path = directory.join(&base.name);
        let file = disk.open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let begins_with_snapshot = is_snapshot(&*file);
        let begins_with_snapshot =
            begins_with_snapshot.map_err(|error| format!("{}: {error}", path.display()))?;
        let format = if begins_with_snapshot { "RDB" } else { "RESP" };
        print(&format!("Start to check BASE AOF ({format} format).\n"));
        let is_last = manifest.increments.is_empty();
        is_whole &= check_one(disk, options, &path, ("BASE AOF", is_last))?;
    }
    if !manifest.increments.is_empty() {
        print("Start to check INCR files.\n");
    }
    for (index, entry) in manifest.increments.iter().enumerate() {
        let is_last = index + 1 == manifest.increments.len();
        let path = directory.join(&entry.name);
        is_whole &= check_one(disk, options, &path, ("INCR AOF", is_last))?;
    }
    if is_whole {
        print("All AOF files and manifest are valid\n");
    }
    Ok(is_whole)
}

/// Checks one file; true if it is whole, or is now.
fn check_one(
    disk: &dyn Disk,
    options: &Options,
    path: &Path,
    (kind, is_last): (&str, bool),
) -> Result<bool, String> {
    let shown = path.display();
    let failed = |error: io::Error| format!("{shown}: {error}");
    let file = disk.open(path).map_err(failed)?;
    let mut start = 0;
    if is_snapshot(&*file).map_err(failed)? {
        start = check_preamble(disk, path)?;
    }
    let found = check_file(&*file, start, options.until).map_err(failed)?;
    if found.bytes == 0 {
        print(&format!("{kind} {shown} is empty\n"));
        return Ok(true);
    }
    if options.until.is_none() || found.fault.is_some() {
        print(&format!(
            "AOF analyzed: filename={shown}, size={}, ok_up_to={}, ok_up_to_line={}, diff={}\n",
            found.bytes,
            found.whole_bytes,
            found.whole_lines,
            found.bytes - found.whole_bytes
        ));
    }
    let Some((end, why)) = cut(&found, options) else {
        let is_valid = found.fault.is_none();
        print(&match (is_valid, options.until) {
            (true, Some(until)) => {
                format!("Truncate nothing in AOF {shown} to timestamp {until}\n")
            }
            (true, None) => format!("{kind} {shown} is valid\n"),
            (false, _) => {
                format!("AOF {shown} is not valid. Use the --fix option to try fixing it.\n")
            }
        });
        return Ok(is_valid);
    };
    shrink(disk, options, path, (end, &why), (&found, is_last)).map(|()| true)
}

/// Checks the snapshot at the beginning of a file; returns the offset behind it.
fn check_preamble(disk: &dyn Disk, path: &Path) -> Result<u64, String> {
    let (checked, result) = tidemill_persist::check::check(disk, path);
    match result {
        Ok(()) => {
            print("RDB preamble is OK, proceeding with AOF tail...\n");
            Ok(checked.bytes)
        }
        Err(fault) => {
            let why = match fault {
                CheckFault::Io(error) => error.to_string(),
                CheckFault::Decode(error) => error.to_string(),
            };
            Err(format!("RDB preamble of AOF file is not sane, aborting: {why}"))
        }
    }
}

/// Cuts a file; asks before, unless a time was asked for.
fn shrink(
    disk: &dyn Disk,
    options: &Options,
    path: &Path,
    (end, why): (u64, &str),
    (found, is_last): (&FileCheck, bool),
) -> Result<(), String> {
    let shown = path.display();
    let to_time = options.until.map_or(String::new(), |until| format!(" to timestamp {until}"));
    if !is_last {
        return Err(format!(
            "Failed to truncate AOF {shown}{to_time} at offset {end} ({why}) because it is not the \
             last file"
        ));
    }
    if let (Some(until), true) = (options.until, end == 0) {
        return Err(format!("AOF {shown} has nothing before timestamp {until}, aborting..."));
    }
    let question =
        format!("This will shrink the AOF {shown} from {} bytes to {end}: {why}", found.bytes);
    if options.until.is_none() && !is_confirmed(&question) {
        return Err("aborted".into());
    }
    let cut = disk.open_or_create(path).and_then(|file| {
        file.set_length(end)?;
        file.sync()
    });
    cut.map_err(|error| format!("{shown}: {error}"))?;
    print(&format!("Successfully truncated AOF {shown}{to_time}\n"));
    Ok(())
}

/// Offset at which a file is cut, and the reason; none if that was not asked for or nothing is
/// wrong.
fn cut(found: &FileCheck, options: &Options) -> Option<(u64, String)> {
    if let Some(until) = options.until {
        let end = found.later_than_asked?;
        return Some((end, format!("what follows is later than {until}")));
    }
    let fault = found.fault.filter(|_| options.fixes)?;
    Some((found.whole_bytes, fault.to_string()))
}

/// Asks whether to go on.
fn is_confirmed(question: &str) -> bool {
    print(&format!("{question}\nContinue? [y/N]: "));
    let _ = io::stdout().flush();
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes")
}
