//! `tidemill check-aof`: checks an append-only file, and cuts it where it stops being whole.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tidemill_persist::append_only::{
    FileCheck, FileRole, Manifest, check_file, is_manifest, is_snapshot,
};
use tidemill_persist::disk::{Disk, FileSystem};

/// Help of the part.
pub const USAGE: &str = "\
Usage: tidemill check-aof [--fix | --truncate-to-timestamp SECONDS] FILE

Checks an append-only file: a manifest with all files that it names, or one file of commands. A
snapshot at the beginning is not looked at. Do not use it on the files of a server that runs.

Options:
  --fix                            cuts the last file where it stops being whole, after asking
  --truncate-to-timestamp SECONDS  cuts the last file before the first command later than a Unix
                                   time, by the annotations of aof-timestamp-enabled, after asking
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

/// Files to check, in order.
fn files(disk: &dyn Disk, path: &Path) -> Result<Vec<PathBuf>, String> {
    if !is_manifest(path) {
        return Ok(vec![path.to_owned()]);
    }
    let text = read(disk, path).map_err(|error| format!("{}: {error}", path.display()))?;
    let manifest = Manifest::parse(&text)
        .map_err(|error| format!("{}:{}: {}", path.display(), error.line_number, error.reason))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let entries = manifest.files().filter(|entry| entry.role != FileRole::History);
    Ok(entries.map(|entry| directory.join(&entry.name)).collect())
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
    let files = files(disk, &options.path)?;
    let mut is_whole = true;
    for (index, path) in files.iter().enumerate() {
        let shown = path.display();
        let failed = |error: io::Error| format!("{shown}: {error}");
        let file = disk.open(path).map_err(failed)?;
        if is_snapshot(&*file).map_err(failed)? {
            print(&format!("{shown} begins with a snapshot, which is not checked\n"));
            continue;
        }
        let found = check_file(&*file, options.until).map_err(failed)?;
        print(&format!(
            "AOF analyzed: filename={shown}, size={}, ok_up_to={}, diff={}\n",
            found.bytes,
            found.whole_bytes,
            found.bytes - found.whole_bytes
        ));
        let is_last = index + 1 == files.len();
        let Some((end, why)) = cut(&found, options) else {
            let is_valid = found.fault.is_none();
            let verdict = if is_valid { "is valid" } else { "is not valid. Use --fix to cut it" };
            print(&format!("AOF {shown} {verdict}\n"));
            is_whole &= is_valid;
            continue;
        };
        if !is_last {
            return Err(format!("{shown}: {why} at offset {end}, and it is not the last file"));
        }
        if !is_confirmed(&format!(
            "This will shrink the AOF {shown} from {} bytes to {end}: {why}",
            found.bytes
        )) {
            return Err("aborted".into());
        }
        let file = disk.open_or_create(path).map_err(failed)?;
        file.set_length(end).and_then(|()| file.sync()).map_err(failed)?;
        print(&format!("Successfully truncated AOF {shown}\n"));
    }
    Ok(is_whole)
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
